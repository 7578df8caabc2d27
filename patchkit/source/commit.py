"""The first products of the pipeline: a commit of an upstream, and its tree."""

from __future__ import annotations

from dataclasses import dataclass, field

from patchkit.tools.git.objects import Repository


@dataclass(frozen=True)
class Commit:
    """A commit of an upstream. `time` is the committer's (seconds since 1970 UTC); `version` as setuptools-scm says."""

    upstream: str
    id: str
    tree: str
    ref: str  # how it was asked for: a tag, a branch, an id
    subject: str
    time: int
    version: str | None

    @property
    def name(self) -> str:
        """Return what people call it: its ref, or the short id."""
        return self.ref if self.ref and not self.id.startswith(self.ref) else self.id[:12]


@dataclass(frozen=True)
class Tree:
    """The files of a commit, as a git tree in a repository of the store."""

    commit: Commit
    id: str
    repository: Repository = field(compare=False, repr=False)
