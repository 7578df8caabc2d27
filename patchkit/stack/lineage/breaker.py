"""Which commit a patch stopped landing at, and from which on it lands: file by file, by trying it on each content.

Only the commits that changed a file can matter to a hunk in it, so trying all contents of the file is exact and cheap.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from patchkit.stack.ladder.anchor import anchor_content
from patchkit.stack.ladder.attempt import HunkState
from patchkit.stack.ladder.place import place_hunks
from patchkit.stack.lineage.lineage import Image, Lineage
from patchkit.stack.patch.binary import blob_id
from patchkit.stack.patch.model import FilePatch, Hunk
from patchkit.stack.scope import check_scope
from patchkit.tools.git.lines import diff_lines, merge_lines
from patchkit.tools.git.log import FileChange, find_renamed

LISTED = 5  # commits that touched the lines of a hunk


@dataclass(frozen=True)
class Touch:
    """A commit of upstream, named for what it did to lines or to a file."""

    commit: str
    subject: str

    def __str__(self) -> str:
        return f"{self.commit[:12]} {self.subject}"


@dataclass(frozen=True)
class Departure:
    """A file that is not in a tree: the commit that took it away and its new name, or the later one that brings it."""

    gone: Touch | None = None
    renamed: str = ""
    comes: Touch | None = None


@dataclass
class Trial:
    """One hunk, tried on the contents that its file ever had. `image` is the file that the whole patch was made for."""

    lineage: Lineage
    file: FilePatch
    hunk: Hunk
    image: Image | None
    known: dict[str, HunkState | None] = field(default_factory=dict)

    def broken_by(self) -> Touch | None:
        """Return the newest commit before which the hunk landed, and after which it did not."""
        for change in self.lineage.recent(self.file.path):
            if self.lands(change.old) and not self.lands(change.new):
                return touch(self.lineage, change)
        return None

    def lands_from(self) -> Touch | None:
        """Return the first later commit after which the hunk lands: before it, the tree is too old for the patch."""
        later = self.lineage.later()
        if later is None:
            return None
        for change in reversed(_newer(later.log(self.file.path), self.lineage.log(self.file.path))):
            if self.lands(change.new) and not self.lands(change.old):
                return touch(later, change)
        return None

    def touched_by(self) -> tuple[Touch, ...]:
        """Return the commits that changed the lines of the hunk since the content it was made for, newest first."""
        if self.image is None:
            return ()
        start = blob_id(self.image.before)
        since: list[FileChange] = []
        for change in self.lineage.recent(self.file.path):
            if change.new == start:
                break
            since.append(change)
        else:
            return ()
        low = self.hunk.old_start - 1
        span = (low, low + max(len(self.hunk.old), 1))
        found = []
        for change in reversed(since):
            moved = _follow(self.lineage, change, span)
            if moved is None:
                break
            span, hit = moved
            if hit:
                found.append(touch(self.lineage, change))
        return tuple(reversed(found))[:LISTED]

    def lands(self, blob: str) -> bool:
        """Return whether the hunk, alone, lands on a content by any rung, or is there already."""
        return self.landing(blob) is not None

    def landing(self, blob: str) -> HunkState | None:
        """Return how the hunk, alone, lands on a content; None when it does not."""
        if blob not in self.known:
            data = self.lineage.read(blob) if blob else None
            self.known[blob] = None if data is None else self._land_on(data)
        return self.known[blob]

    def _land_on(self, data: bytes) -> HunkState | None:
        single = replace(self.file, hunks=(self.hunk,))
        exact = place_hunks(data, single.hunks).hunks[0].state
        if exact is not HunkState.FAILED:
            return exact
        image = _image_of(self.image, self.hunk)
        if image is not None and image.named:
            merged = merge_lines(self.lineage.repository, image.before, data, image.after)
            python = self.file.path.endswith(".py")
            if merged is not None and not check_scope((image.before, image.after), (data, merged), python):
                return HunkState.MERGED
        return HunkState.ANCHORED if anchor_content(single, data, image) is not None else None


def find_departure(lineage: Lineage, path: str) -> Departure:
    """Return what became of a file that a tree lacks; an empty answer when history does not know it."""
    log = lineage.log(path)
    if log and not log[0].new:
        renamed = find_renamed(lineage.repository, log[0].commit, path) or ""
        return Departure(gone=touch(lineage, log[0]), renamed=renamed)
    later = lineage.later()
    came = [change for change in later.log(path) if not change.old] if later else []
    return Departure(comes=touch(lineage, came[-1])) if came else Departure()


def touch(lineage: Lineage, change: FileChange) -> Touch:
    """Return a change as the commit that made it."""
    return Touch(change.commit, lineage.repository.read_commit(change.commit).subject)


def _newer(log: tuple[FileChange, ...], known: tuple[FileChange, ...]) -> list[FileChange]:
    old = {change.commit for change in known}
    return [change for change in log if change.commit not in old]


def _image_of(image: Image | None, hunk: Hunk) -> Image | None:
    """Return the file with this hunk only."""
    if image is None:
        return None
    placed = place_hunks(image.before, [hunk])
    if placed.hunks[0].state is not HunkState.APPLIED:
        return None
    return Image(image.before, placed.data, image.named)


def _follow(lineage: Lineage, change: FileChange, span: tuple[int, int]) -> tuple[tuple[int, int], bool] | None:
    """Return where lines are after a change, and whether it touched them; None where a content is missing."""
    old, new = lineage.read(change.old), lineage.read(change.new)
    if old is None or new is None:
        return None
    low, high = span
    hit = False
    grown = 0
    for region in diff_lines(old, new):
        end = region.old_start + region.old_count
        if end <= span[0]:
            low += region.new_count - region.old_count
            high += region.new_count - region.old_count
        elif region.old_start < span[1]:
            hit = True
            grown += region.new_count - region.old_count
    return (low, max(high + grown, low + 1)), hit


def commits_of(touches: Iterable[Touch | None]) -> tuple[Touch, ...]:
    """Return the commits among touches, each once."""
    return tuple(dict.fromkeys(one for one in touches if one is not None))
