"""What the other rooms know of a source: a git upstream and a package's releases answer the same questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from patchkit.recipe.condition import Facts
from patchkit.source.commit import Commit, Tree
from patchkit.tools.objects import Repository

Axis = Literal["commits", "releases"]
Kind = Literal["git", "package"]
Preference = Literal["auto", "git", "package"]


@dataclass(frozen=True)
class FactSettings:
    """What conditions may ask besides the tree: the recipe's target and pins. Versions are PEP 440."""

    arch: str | None = None
    python: str | None = None
    torch: str | None = None
    pins: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Origin:
    """Where a commit comes from: a URL or path with no credentials, or a package name with its sdist's sha256."""

    kind: Kind
    location: str
    sha256: str | None


class Source(Protocol):
    """One upstream, ready to be asked. All methods raise `RequestError` kinds only, never a `StageFailure`."""

    @property
    def upstream(self) -> str:
        """Return the recipe's name for the upstream."""

    @property
    def kind(self) -> Kind:
        """Return whether this is a git repository or a package's releases."""

    @property
    def repository(self) -> Repository:
        """Return the bare repository of the store that holds the objects."""

    def resolve(self, ref: str) -> Commit:
        """Return the commit that a ref names, fetched first when it must be.

        Raises `RequestError` when nothing has that name, with the nearest names as a hint.
        """

    def tree(self, commit: Commit) -> Tree:
        """Return the files of a commit."""

    def facts(self, commit: Commit, target: FactSettings) -> Facts:
        """Return what conditions may ask about a commit."""

    def history(self, good: Commit, bad: Commit) -> Mapping[str, tuple[str, ...]]:
        """Return the commits that are in `bad` and not in `good`, oldest first, each with its parents.

        Raises `RequestError` where there is no history (a package) or `good` is no ancestor.
        """

    def releases(self, good: Commit, bad: Commit) -> tuple[str, ...]:
        """Return the names of the releases from `good` to `bad`, both included, oldest first; nothing is downloaded.

        Pre-releases and yanked releases are left out unless they are an end.
        """

    def since(self, ref: str, axis: Axis) -> tuple[str, ...]:
        """Return what is newer than a ref, newest first: commit ids, or names of releases."""

    def origin(self, commit: Commit) -> Origin:
        """Return where a commit comes from, for the lock and for provenance."""
