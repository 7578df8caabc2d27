"""What became of a patch: one enum for text, JSON and the exit code."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from patchkit.source.commit import Tree


class Outcome(StrEnum):
    """The outcomes of applying one patch. The first seven let the series stand; the last four do not."""

    CLEAN = "clean"
    OFFSET = "offset"
    MERGED = "merged"
    ANCHORED = "anchored"
    REWRITTEN = "rewritten"
    ALREADY_UPSTREAM = "already-upstream"
    PARTLY_UPSTREAMED = "partly-upstreamed"
    NOT_APPLICABLE = "not-applicable"
    SUPERSEDED = "superseded"
    TEST_ONLY = "test-only"
    TARGET_GONE = "target-gone"
    REVIEW = "review"
    CONFLICT = "conflict"
    BROKEN = "broken"

    @property
    def stands(self) -> bool:
        """Return whether a series with this outcome may be used."""
        return self in _STANDING


_STANDING = {
    Outcome.CLEAN,
    Outcome.OFFSET,
    Outcome.MERGED,
    Outcome.ANCHORED,
    Outcome.REWRITTEN,
    Outcome.ALREADY_UPSTREAM,
    Outcome.PARTLY_UPSTREAMED,
    Outcome.NOT_APPLICABLE,
}


@dataclass(frozen=True)
class PatchRecord:
    """What became of one patch of the series. `files` are the paths it changed, from the root of the tree.

    `removable` is why it is not needed any more (its `remove-when` holds), '' where it is.
    """

    patch: str
    outcome: Outcome
    method: str  # exact, rewrite, file, none …
    detail: str
    files: tuple[str, ...]
    sha256: str
    native: bool = False  # changes files that need a native build
    removable: str = ""


@dataclass(frozen=True)
class PatchedTree:
    """A tree with the series on it. `id` is a git tree in the same repository as the base."""

    id: str
    base: Tree
    applied: tuple[PatchRecord, ...]


@dataclass(frozen=True)
class SeriesResult:
    """Every patch tried and reported; `patched` is None unless all of them stand."""

    records: tuple[PatchRecord, ...]
    patched: PatchedTree | None
