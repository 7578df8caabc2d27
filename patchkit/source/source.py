"""What the other rooms know of a source: a git upstream and a package's releases answer the same questions.

Releases are named alike in both: `v` and a PEP 440 version.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from packaging.version import InvalidVersion, Version

from patchkit.errors import RequestError
from patchkit.recipe.condition import Facts
from patchkit.source.commit import Commit, Tree
from patchkit.tools.git.objects import Repository

Axis = Literal["commits", "releases"]
Kind = Literal["git", "package"]
Preference = Literal["auto", "git", "package"]
LATEST = "latest"  # as a ref: the newest release that is no pre-release and not yanked


@dataclass(frozen=True)
class FactSettings:
    """What conditions may ask besides the tree: the recipe's target and pins. Versions are PEP 440."""

    arch: str | None = None
    python: str | None = None
    torch: str | None = None
    pins: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Origin:
    """Where a commit comes from: a URL or path with no credentials, or a package name with its archive's sha256."""

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
    def without_history(self) -> str:
        """Return why there is no history and what to do instead, for a patch that needs one; '' where there is one."""

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

        `good` need not be an ancestor (it may lie on a release branch); a parent that is no key is in `good`. Raises
        `RequestError` where there is no history (a package), or no such commit.
        """

    def releases(self, good: Commit, bad: Commit) -> tuple[str, ...]:
        """Return the names of the releases from `good` to `bad`, both included, oldest first; nothing is downloaded.

        Pre-releases and yanked releases are left out unless they are an end.
        """

    def touching(self, good: Commit, bad: Commit, wanted: Callable[[str], bool]) -> frozenset[str]:
        """Return the commits of `history` that change a path that is wanted; empty where nobody knows."""

    def since(self, ref: str, axis: Axis) -> tuple[str, ...]:
        """Return what is newer than a ref, newest first: commit ids, or names of releases."""

    def origin(self, commit: Commit) -> Origin:
        """Return where a commit comes from, for the lock and for provenance."""


def parse_tag(tag: str) -> Version | None:
    """Return the version that a tag v<version> names, or None."""
    try:
        return Version(tag[1:]) if re.match(r"v\d", tag) else None
    except InvalidVersion:
        return None


def shorten(ref: str) -> str:
    """Return a ref as messages show it: in quotes where it is empty or holds spaces, cut where nobody would read on."""
    text = ref if len(ref) <= 80 else f"{ref[:77]}..."
    return text if text and not any(letter.isspace() for letter in text) else repr(text)


def near_names(name: str, names: Iterable[str]) -> str:
    """Return a hint with the names most like one that was not found, '' when none is."""
    near = difflib.get_close_matches(name, list(names), n=3, cutoff=0.6)
    return f"is it one of {', '.join(near)}?" if near else ""


def check_order(upstream: str, first: Version, last: Version) -> None:
    """Raise `RequestError` unless the first version is older than the last, or the same."""
    if first > last:
        raise RequestError(f"{upstream}: v{first} is newer than v{last}", "name the older release as good")
