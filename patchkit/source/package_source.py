"""A package's releases: for people who reach a package index but not the upstream's git. No history, only versions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from patchkit.errors import RemoteUnavailable, RequestError
from patchkit.recipe.condition import Facts
from patchkit.source.commit import Commit, Tree
from patchkit.source.facts import Symbols, TreeFacts
from patchkit.source.releases import Release, ReleaseStore
from patchkit.source.source import LATEST, Axis, FactSettings, Kind, Origin, check_order, near_names, shorten
from patchkit.tools.git.objects import Repository
from patchkit.tools.toolkit import Toolkit


class PackageSource:
    """The upstream as sdists on the package index, each a commit tagged v<version>."""

    kind: Kind = "package"
    without_history = "needs git history (--source git): the releases of a package have none"

    def __init__(self, toolkit: Toolkit, upstream: str, package: str) -> None:
        """Name a package; the index is asked when a release is."""
        self.upstream = upstream
        self._toolkit = toolkit
        self._store = ReleaseStore(toolkit, canonicalize_name(package))
        self.repository: Repository = self._store.repository
        self._symbols = Symbols(self.repository)

    def resolve(self, ref: str) -> Commit:
        """Return the commit of a release (v0.26.0, 0.26.0, `latest`) or of the id of one in the store; see `Source`."""
        version = self._version_named(ref)
        found = self._find(version)
        if found is None:
            sdist = next(
                (one for one in self._store.index.sdists(self._store.package) if Version(one.version) == version), None
            )
            if sdist is None:
                raise self._unknown(ref)
            if sdist.yanked:
                self._toolkit.progress.warn(f"{self.upstream} {sdist.version}: was yanked from the package index")
            found = self._store.take(sdist)
        record = self.repository.read_commit(found.commit)
        name = f"v{found.version}"
        return Commit(self.upstream, record.id, record.tree, name, record.subject, record.commit_time, found.version)

    def tree(self, commit: Commit) -> Tree:
        """Return the files of a commit."""
        return Tree(commit, commit.tree, self.repository)

    def facts(self, commit: Commit, target: FactSettings) -> Facts:
        """Return what conditions may ask about a commit; which upstream commits it holds is not known."""

        def is_ancestor(revision: str) -> bool | None:
            return True if len(revision) >= 7 and commit.id.startswith(revision) else None

        return TreeFacts(commit, target, self._symbols, self.repository, is_ancestor)

    def history(self, good: Commit, bad: Commit) -> Mapping[str, tuple[str, ...]]:
        """Raise `RequestError`: releases have an order and no history."""
        raise self._no_commits(f"{good.name}..{bad.name}")

    def releases(self, good: Commit, bad: Commit) -> tuple[str, ...]:
        """Return the releases from `good` to `bad` by version; see `Source`."""
        first, last = Version(str(good.version)), Version(str(bad.version))
        check_order(self.upstream, first, last)
        inner = (version for version in self._finals() if first < version < last)
        return tuple(f"v{version}" for version in sorted({first, *inner, last}))

    def touching(self, good: Commit, bad: Commit, wanted: Callable[[str], bool]) -> frozenset[str]:  # noqa: ARG002
        """Return nothing: to know what a release changes it would have to be downloaded."""
        return frozenset()

    def since(self, ref: str, axis: Axis) -> tuple[str, ...]:
        """Return the final releases newer than a ref, newest first; nothing is downloaded."""
        if axis == "commits":
            raise self._no_commits(f"{ref}..")
        start = self._version_named(ref)
        return tuple(f"v{version}" for version in reversed(self._finals()) if version > start)

    def origin(self, commit: Commit) -> Origin:
        """Return the package, and the sha256 of the sdist that the commit was made from."""
        release = self._store.find(str(commit.version))
        return Origin(self.kind, self._store.package, release.sha256 if release else None)

    def _find(self, version: Version) -> Release | None:
        """Return a release that is in the store; 0.26 and 0.26.0 are one version."""
        exact = self._store.find(str(version))
        return exact or next((one for one in self._store.all() if Version(one.version) == version), None)

    def _version_named(self, ref: str) -> Version:
        if ref == LATEST:
            if not (finals := self._finals()):
                raise RequestError(f"{self.upstream}: {self._store.package} has no release on the package index")
            return finals[-1]
        if re.fullmatch(r"[0-9a-f]{7,40}", ref):
            for release in self._store.all():
                if release.commit.startswith(ref):
                    return Version(release.version)
        try:
            return Version(ref.removeprefix("v"))
        except InvalidVersion:
            raise self._unknown(ref) from None

    def _finals(self) -> list[Version]:
        """Return the versions that are neither pre-releases nor yanked, oldest first; without an index, those here."""
        try:
            versions = [Version(one.version) for one in self._store.index.sdists(self._store.package) if not one.yanked]
        except RemoteUnavailable as error:
            versions = [Version(one.version) for one in self._store.all()]
            if not versions:
                raise
            self._toolkit.progress.warn(f"{error.message}: using the releases in the store", error.hint)
        return [version for version in sorted(versions) if not version.is_prerelease]

    def _unknown(self, ref: str) -> RequestError:
        names = [f"v{version}" for version in self._finals()]
        newest = f"the newest is {names[-1]}" if names else "the index has no release"
        hint = near_names(ref, names) or f"{newest}; branches, commit ids and pull requests need --source git"
        return RequestError(f"{self.upstream}: no commit or release named {shorten(ref)} on the package index", hint)

    def _no_commits(self, span: str) -> RequestError:
        hint = "--axis releases, or --source git"
        return RequestError(f"{self.upstream} {span}: a package has releases, and no commits", hint)
