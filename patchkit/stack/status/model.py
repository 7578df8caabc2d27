"""What `status` tells, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from patchkit.source.commit import Commit
from patchkit.stack.lineage.breaker import Touch
from patchkit.stack.outcome import Outcome


class HunkAnswer(StrEnum):
    """How one hunk stands."""

    APPLIES = "applies"
    OFFSET = "offset"
    MERGED = "merged"
    ANCHORED = "anchored"
    UPSTREAM = "already-upstream"
    SUPERSEDED = "superseded"  # a commit changed the same lines
    TOO_OLD = "too-old"  # the lines it needs come with a later commit
    TARGET_GONE = "target-gone"
    CONFLICT = "conflict"


@dataclass(frozen=True)
class HunkStatus:
    """One hunk, or a file without hunks (`number` 0). `by` is the commit that made it so; `line` 0 is none.

    `release` is the first one with a commit that took the hunk, '' where there is none.
    """

    path: str
    number: int
    answer: HunkAnswer
    line: int = 0
    offset: int = 0
    by: Touch | None = None
    detail: str = ""
    release: str = ""


@dataclass(frozen=True)
class ConflictRecord:
    """All that a person needs to resolve a hunk that has no place.

    `base` and `theirs` are the patch's lines before and after, `ours` what stands in the tree about where it belongs.
    """

    path: str
    hunk: int
    function: str
    commits: tuple[Touch, ...]
    base: str
    ours: str
    theirs: str


@dataclass(frozen=True)
class Upstreaming:
    """The commit that took a patch, and the first release with it ('' when there is none yet)."""

    by: Touch
    how: str
    release: str


@dataclass(frozen=True)
class PatchStatus:
    """One patch against one commit. `exclude` are globs that would leave out the tests that alone fail.

    `removable` is why it is not needed any more (its `remove-when` holds), '' where it is.
    """

    patch: str
    outcome: Outcome
    method: str
    detail: str
    hunks: tuple[HunkStatus, ...] = ()
    upstreamed: Upstreaming | None = None
    exclude: tuple[str, ...] = ()
    conflicts: tuple[ConflictRecord, ...] = ()
    native: bool = False
    removable: str = ""

    @property
    def superseded_by(self) -> tuple[Touch, ...]:
        """Return the commits that changed the same lines, each once; none where upstream took the patch."""
        return () if self.upstreamed else self._named(HunkAnswer.SUPERSEDED)

    @property
    def partly(self) -> tuple[Touch, ...]:
        """Return the commits that took a part of a patch that upstream did not take whole."""
        return () if self.upstreamed else self._named(HunkAnswer.UPSTREAM)

    def _named(self, answer: HunkAnswer) -> tuple[Touch, ...]:
        return tuple(dict.fromkeys(hunk.by for hunk in self.hunks if hunk.answer is answer and hunk.by))


@dataclass(frozen=True)
class RefStatus:
    """A series against one commit."""

    commit: Commit
    patches: tuple[PatchStatus, ...]

    @property
    def stands(self) -> bool:
        """Return whether all patches stand."""
        return all(patch.outcome.stands for patch in self.patches)
