"""Whether upstream took a patch, and with which commit: right also years later, when its lines have changed again.

A commit took a patch when merging the patch into each of its files changes nothing after the commit, and did change
something before it in one of them; a rename counts where the commit left no file at the old name. Nothing else counts:
a pull request's number or a title only says how it can be recognised. A later commit that takes the same change back
undoes it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from patchkit.stack.ladder.attempt import HunkState, is_test
from patchkit.stack.ladder.place import place_hunks
from patchkit.stack.lineage.images import find_images
from patchkit.stack.lineage.lineage import Image, Lineage
from patchkit.stack.patch.binary import blob_id
from patchkit.stack.patch.model import FilePatch, Patch
from patchkit.tools.git.lines import merge_lines
from patchkit.tools.git.log import FileChange

WITNESSES = 4  # files whose history is asked first; the others are looked at in the trees of the commits found
UNREAD = 1 << 62  # a time: history that is not read yet is not asked for
_NUMBER = re.compile(r"\(#(\d+)\)")


@dataclass(frozen=True)
class Upstreamed:
    """The commit that took a patch; `how` a person recognises it: pull request, title, or by what it changes."""

    commit: str
    subject: str
    how: str

    def __str__(self) -> str:
        return f"{self.commit[:12]} {self.subject}"


def find_upstreamed(lineage: Lineage, patches: Sequence[Patch]) -> Upstreamed | None:
    """Return the commit that took a patch whole, None when none did, or when it was taken back since.

    Of several it is the first one since the patch was last taken back: later ones only put right what others had
    changed in between. Only product files count, where the patch has some. Raises `StoreFailure` when history cannot
    be read.
    """
    wanted = _wanted(lineage, patches)
    witnesses = [one for one in wanted if one.is_content]
    lineage.prepare([one.path for one in witnesses[:WITNESSES]])
    for witness in witnesses:
        turns = 0
        for change in witness.turns():
            turns += 1
            if _is_whole(wanted, change):
                if any(one.is_taken_back_after(change.time) for one in witnesses[:WITNESSES]):
                    return None
                commit = _first_of(witness, wanted, change).commit
                subject = lineage.repository.read_commit(commit).subject
                return Upstreamed(commit, subject, _recognise(subject, patches))
        if not turns:
            return None
    return None


def _first_of(witness: _Wanted, wanted: Sequence[_Wanted], newest: FileChange) -> FileChange:
    """Return the oldest commit that took a patch, and after which nobody took it back, in the history that is read."""
    found = newest
    for change in witness.turns(0 if witness.path in witness.lineage.changes else UNREAD):
        if change.time < newest.time and _is_whole(wanted, change):
            if any(one.is_taken_back_after(change.time) for one in wanted[:WITNESSES]):
                break
            found = change
    return found


def _is_whole(wanted: Sequence[_Wanted], change: FileChange) -> bool:
    """Return whether all files are as the patch makes them after a commit."""
    tree = wanted[0].lineage.repository.read_commit(change.commit).tree
    return all(one.is_there_in(tree) for one in wanted)


def find_takers(lineage: Lineage, patches: Sequence[Patch]) -> frozenset[str]:
    """Return all commits that may have taken a patch, those that were taken back too: without one no commit has it."""
    wanted = _wanted(lineage, patches)
    turns = {
        change.commit
        for one in wanted
        if one.is_content
        for change in lineage.recent(one.path)
        if one.is_turned_by(change)
    }
    trees = {commit: lineage.repository.read_commit(commit).tree for commit in turns}
    return frozenset(commit for commit, tree in trees.items() if all(one.is_there_in(tree) for one in wanted))


@dataclass
class _Wanted:
    """What a patch makes of one file in whole: for a mailbox, from before the first mail to after the last."""

    lineage: Lineage
    files: tuple[FilePatch, ...]
    image: Image | None
    known: dict[str, bool] = field(default_factory=dict)

    @property
    def path(self) -> str:
        return self.files[-1].path

    @property
    def left(self) -> str:
        """Return the name that a rename takes away, '' where there is none."""
        last = self.files[-1]
        return str(last.old_path) if last.moves and not last.copies else ""

    @property
    def is_content(self) -> bool:
        """Return whether contents tell that it was taken; of a mode alone they do not."""
        last = self.files[-1]
        return bool(last.hunks or last.binary or last.moves or last.old_path is None or last.new_path is None)

    def turns(self, since: int = 0) -> Iterator[FileChange]:
        """Yield the commits before which the file was not as the patch makes it, and after which it was; newest first.

        What is older than the content that the patch was made for cannot have taken it. `since` is that of `recent`.
        """
        made_for = blob_id(self.image.before) if self.image else ""
        for change in self.lineage.recent(self.path, since):
            if made_for and change.new == made_for:
                return
            if self.is_turned_by(change) and self._moved_by(change):
                yield change

    def is_turned_by(self, change: FileChange) -> bool:
        """Return whether the file was not as the patch makes it before a commit, and is after it."""
        return self._is_there(change.new) and not self._is_there(change.old)

    def is_there_in(self, tree: str) -> bool:
        """Return whether the file is as the patch makes it in a tree."""
        entry = self.lineage.repository.entry(tree, self.path)
        if self.left and self.lineage.repository.entry(tree, self.left):
            return False
        if not self.is_content:
            return entry is not None and entry.mode == self.files[-1].new_mode
        return self._is_there(entry.blob if entry else "")

    def _moved_by(self, change: FileChange) -> bool:
        """Return whether a commit moved the very file that a rename without other changes moves; else True."""
        last = self.files[-1]
        if not last.moves or last.hunks or last.binary:
            return True
        repository = self.lineage.repository
        parents = repository.read_commit(change.commit).parents
        source = repository.entry(repository.read_commit(parents[0]).tree, str(last.old_path)) if parents else None
        return source is not None and source.blob == change.new

    def is_taken_back_after(self, time: int) -> bool:
        """Return whether a later commit undid what the patch does to the file."""
        later = (change for change in self.lineage.recent(self.path, time) if change.time > time)
        if any(self._is_there(change.old) and self._is_undone(change.new) for change in later):
            return True
        back = self.lineage.recent(self.left, time) if self.left else ()
        came = {change.commit for change in back if change.time > time and change.new and not change.old}
        return any(change.commit in came and not change.new for change in self.lineage.recent(self.path, time))

    def _is_there(self, blob: str) -> bool:
        if blob not in self.known:
            self.known[blob] = self._look(blob)
        return self.known[blob]

    def _look(self, blob: str) -> bool:
        last = self.files[-1]
        if last.new_path is None or not blob:
            return last.new_path is None and not blob
        if last.binary is not None or (last.moves and not last.hunks):
            return last.binary is None or blob == last.new_blob
        data = self.lineage.read(blob)
        return data is not None and self._is_made(data)

    def _is_made(self, data: bytes) -> bool:
        """Return whether a content has what the hunks make."""
        last = self.files[-1]
        if self.files[0].old_path is None:
            return len(self.files) == 1 and data == b"".join(line for hunk in last.hunks for line in hunk.new)
        if self.image is not None:
            return _holds(self.lineage, self.image, data)
        placed = [hunk for file in self.files for hunk in place_hunks(data, file.hunks).hunks]
        return all(hunk.state is HunkState.UPSTREAM for hunk in placed)

    def _is_undone(self, blob: str) -> bool:
        data = self.lineage.read(blob) if blob and self.image else None
        if data is None or self.image is None:
            return False
        return _holds(self.lineage, Image(self.image.after, self.image.before), data)


def _holds(lineage: Lineage, image: Image, data: bytes) -> bool:
    """Return whether merging a change into a content leaves it as it is; asked only where its new lines are there."""
    if data == image.before:
        return False
    padded = b"\n" + data + b"\n"
    if any(b"\n" + line + b"\n" not in padded for line in _added(image)):
        return False
    return merge_lines(lineage.repository, image.before, data, image.after) == data


@lru_cache(maxsize=64)
def _added(image: Image) -> tuple[bytes, ...]:
    """Return the lines that a change adds on balance."""
    more = Counter(image.after.split(b"\n")) - Counter(image.before.split(b"\n"))
    return tuple(line for line in more if line.strip())


def _wanted(lineage: Lineage, patches: Sequence[Patch]) -> list[_Wanted]:
    """Return what must be there, file by file; none where a mail renames what an earlier one changes."""
    by_path: dict[str, list[FilePatch]] = {}
    for patch in patches:
        if any(file.moves and str(file.old_path) in by_path for file in patch.files):
            return []
        for file in patch.files:
            by_path.setdefault(file.path, []).append(file)
    images = find_images(lineage.repository, patches, lineage)
    product = {path: files for path, files in by_path.items() if not is_test(path)} or by_path
    wanted = []
    for files in product.values():
        found = [image for file in files if (image := images.get(file.line)) is not None]
        whole = Image(found[0].before, found[-1].after, found[0].named) if len(found) == len(files) else None
        wanted.append(_Wanted(lineage, tuple(files), whole))
    return wanted


def _recognise(subject: str, patches: Sequence[Patch]) -> str:
    titles = [patch.header.subject for patch in patches if patch.header.subject]
    numbers = {number for title in titles for number in _NUMBER.findall(title)}
    if numbers & set(_NUMBER.findall(subject)):
        return "pull request"
    bare = _NUMBER.sub("", subject).strip().lower()
    return "title" if any(_NUMBER.sub("", title).strip().lower() == bare for title in titles) else "change"
