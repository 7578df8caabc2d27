"""An upstream that is not built here but installed: patches are for the files of its wheel. No history, one version."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn, Protocol

from packaging.version import InvalidVersion, Version

from patchkit.errors import RequestError
from patchkit.recipe.condition import Facts
from patchkit.source.commit import Commit, Tree
from patchkit.source.facts import Symbols, TreeFacts
from patchkit.source.installed.distribution import Distribution
from patchkit.source.installed.folder import find_info, read_installed
from patchkit.source.installed.trees import KIND, read_commit, repository_of, store_commit
from patchkit.source.installed.wheel import read_wheel
from patchkit.source.source import Axis, FactSettings, Kind, Origin, shorten
from patchkit.tools.cache import digest_file
from patchkit.tools.git.objects import Repository
from patchkit.tools.toolkit import Toolkit
from patchkit.tools.web.wheels import download_wheel


class Shelf(Protocol):
    """Where a distribution is taken from."""

    @property
    def package(self) -> str:
        """Return the name of the distribution."""

    def take(self, ref: str) -> tuple[Commit, str | None]:
        """Return the commit that a ref names, and the sha256 of the wheel that it was made from, if there is one."""


class InstalledSource:
    """The upstream as the files of one distribution."""

    kind: Kind = "package"
    without_history = (
        "needs upstream's history, and installed files have none: `patchkit export --source git` makes a diff of it, "
        "which `file:` can name in its place"
    )

    def __init__(self, upstream: str, repository: Repository, shelf: Shelf) -> None:
        """Name an upstream and where its files are taken from; nothing is read yet."""
        self.upstream = upstream
        self.repository = repository
        self._shelf = shelf
        self._symbols = Symbols(repository)
        self._known: dict[str, tuple[Commit, str | None]] = {}

    def resolve(self, ref: str) -> Commit:
        """Return the commit of a version (v2.13.0, 2.13.0); see `Source`."""
        if ref not in self._known:
            commit, sha256 = self._shelf.take(ref)
            self._known[ref] = (replace(commit, ref=ref), sha256)
        return self._known[ref][0]

    def tree(self, commit: Commit) -> Tree:
        """Return the files of a commit."""
        return Tree(commit, commit.tree, self.repository)

    def facts(self, commit: Commit, target: FactSettings) -> Facts:
        """Return what conditions may ask about a commit; which upstream commits it holds is not known."""
        return TreeFacts(commit, target, self._symbols, self.repository, lambda _: None)

    def history(self, good: Commit, bad: Commit) -> Mapping[str, tuple[str, ...]]:
        """Raise `RequestError`: a wheel has no history."""
        self._refuse(f"{good.name}..{bad.name}")

    def releases(self, good: Commit, bad: Commit) -> tuple[str, ...]:
        """Raise `RequestError`: which other wheels there are is not asked."""
        self._refuse(f"{good.name}..{bad.name}")

    def touching(self, good: Commit, bad: Commit, wanted: Callable[[str], bool]) -> frozenset[str]:  # noqa: ARG002
        """Return nothing: there is no history."""
        return frozenset()

    def since(self, ref: str, axis: Axis) -> tuple[str, ...]:  # noqa: ARG002
        """Raise `RequestError`: which other wheels there are is not asked."""
        self._refuse(f"{ref}..")

    def origin(self, commit: Commit) -> Origin:
        """Return the package, and the sha256 of the wheel if it was made from one."""
        sha256 = next((sha256 for known, sha256 in self._known.values() if known.id == commit.id), None)
        return Origin(self.kind, self._shelf.package, sha256)

    def _refuse(self, span: str) -> NoReturn:
        hint = "name one version; only the main upstream has an axis to search"
        raise RequestError(f"{self.upstream} {span}: an installed distribution has one version and no history", hint)


@dataclass(frozen=True)
class WheelShelf:
    """Wheels of a package, by version, from wherever pip gets them. What was read once is in the store."""

    toolkit: Toolkit
    upstream: str
    package: str

    def take(self, ref: str) -> tuple[Commit, str | None]:
        """Return the commit of a version's wheel for this interpreter and machine. Raises `RequestError` kinds."""
        version = _version_named(self.upstream, ref)
        repository = repository_of(self.toolkit, self.package)
        kind = f"{KIND}/{repository.path.name}/wheels"
        key = f"{version}-{sys.implementation.cache_tag}-{sysconfig.get_platform()}"
        record = self.toolkit.cache.read_record(kind, key)
        if record is not None and repository.find_commit(record["commit"]) is not None:
            found = read_commit(repository, self.upstream, record["commit"], record["version"])
            return found, str(record["sha256"])
        with download_wheel(self.toolkit, self.package, str(version)) as path:
            wheel, sha256 = read_wheel(path), digest_file(path)
        commit, _ = store_commit(self.toolkit, self.upstream, wheel.distribution, wheel.contents)
        kept = {"commit": commit.id, "version": str(commit.version), "sha256": sha256}
        self.toolkit.cache.write_record(kind, key, kept)
        return commit, sha256


@dataclass(frozen=True)
class FolderShelf:
    """A distribution in a site-packages folder, as it was before any patch of ours."""

    toolkit: Toolkit
    upstream: str
    package: str
    root: Path

    def take(self, ref: str) -> tuple[Commit, str | None]:
        """Return the commit of what is installed. Raises `RequestError` when that is not the version asked for."""
        info = find_info(self.root, self.package)
        if info is None:
            raise RequestError(f"{self.upstream}: {self.package} is not installed in {self.root}", "name its folder")
        installed = read_installed(self.root, info)
        wanted = _version_named(self.upstream, ref)
        _check_version(self.upstream, installed.distribution, wanted)
        commit, _ = store_commit(self.toolkit, self.upstream, installed.distribution, installed.contents)
        return commit, None


@dataclass(frozen=True)
class TakenShelf:
    """A distribution that was read already: whatever is asked for, this is it."""

    package: str
    commit: Commit

    def take(self, ref: str) -> tuple[Commit, str | None]:  # noqa: ARG002  # there is one
        """Return the commit."""
        return self.commit, None


def _version_named(upstream: str, ref: str) -> Version:
    try:
        return Version(ref.removeprefix("v"))
    except InvalidVersion:
        hint = "of an installed distribution it is a version: v2.13.0"
        raise RequestError(f"{upstream}: {shorten(ref)} names no version", hint) from None


def _check_version(upstream: str, distribution: Distribution, wanted: Version) -> None:
    found = Version(distribution.version)
    if found != wanted and Version(found.public) != wanted:
        raise RequestError(
            f"{upstream}: {distribution.label} is installed, not {wanted}", "change the ref, or install the other one"
        )
