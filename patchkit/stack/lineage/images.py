"""The contents that a patch was made for, and what it makes of them: what a three-way merge needs.

A git diff names the blob of each file before; where that is not in the repository, or not named, the file's history is
searched for the content that the hunks fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from patchkit.stack.ladder.attempt import HunkState
from patchkit.stack.ladder.place import place_hunks
from patchkit.stack.lineage.lineage import Image, Images, Lineage
from patchkit.stack.patch.model import FilePatch, Patch
from patchkit.tools.git.lines import find_blob
from patchkit.tools.git.objects import Repository

SEARCHED = 400  # contents of a file that are tried, newest first: a year of vLLM's busiest file


def find_images(repository: Repository, patches: Sequence[Patch], lineage: Lineage | None) -> Images:
    """Return what each file patch was made for, by its line in the patch file; those that nothing fits have no entry.

    In a mailbox a later patch stands on what an earlier one made.
    """
    if lineage is not None:
        key = tuple((file.path, file.old_blob, file.hunks) for patch in patches for file in patch.files)
        if key not in lineage.images:
            lineage.images[key] = _find_all(repository, patches, lineage)
        return lineage.images[key]
    return _find_all(repository, patches, None)


def _find_all(repository: Repository, patches: Sequence[Patch], lineage: Lineage | None) -> Images:
    made: dict[str, Image] = {}
    found: dict[int, Image] = {}
    for file in (file for patch in patches for file in patch.files):
        if file.old_path is None or file.binary is not None or not file.hunks:
            continue
        image = _find_image(repository, file, made.get(file.old_path), lineage)
        if image is not None:
            found[file.line] = image
            made[file.path] = image
    return found


def _find_image(repository: Repository, file: FilePatch, made: Image | None, lineage: Lineage | None) -> Image | None:
    """Return the first content that all hunks fit where they say; else the first that they fit at all."""
    moved: Image | None = None
    for data, named in _candidates(repository, file, made, lineage):
        placed = place_hunks(data, file.hunks)
        if all(hunk.state is HunkState.APPLIED for hunk in placed.hunks):
            image = Image(data, placed.data, named)
            if not any(hunk.offset for hunk in placed.hunks):
                return image
            moved = moved or image
    return moved


def _candidates(
    repository: Repository, file: FilePatch, made: Image | None, lineage: Lineage | None
) -> Iterator[tuple[bytes, bool]]:
    """Yield contents with whether the patch names them."""
    if made is not None:
        yield made.after, made.named
    if file.old_blob and (blob := find_blob(repository, file.old_blob)):
        yield repository.read_blob(blob), True
    for past in filter(None, (lineage, lineage.later() if lineage else None)):
        for count, data in enumerate(past.contents(str(file.old_path))):
            if count >= SEARCHED:
                break
            yield data, False
