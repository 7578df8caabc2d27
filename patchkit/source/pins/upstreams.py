"""The upstreams of a recipe of which one names the other: `pairs-with`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from patchkit.errors import RequestError
from patchkit.recipe.model import Upstream
from patchkit.source.commit import Commit
from patchkit.source.pins.find import Prefer
from patchkit.source.pins.resolve import Pairing
from patchkit.source.source import Source
from patchkit.tools.toolkit import Toolkit


@dataclass(frozen=True)
class PairedUpstreams:
    """Which commit of one upstream goes with a commit of another, and where each commit comes from."""

    toolkit: Toolkit
    upstreams: Mapping[str, Upstream]
    sources: Mapping[str, Source]
    prefer: Prefer = "newest"

    def find(self, commit: Commit, tree: str = "") -> Commit | None:
        """Return what the files of a commit, or of `tree` made from it, name; None when nothing that is there.

        Raises `RequestError` when the recipe pairs the upstream with none.
        """
        if commit.upstream not in self._pairings:
            self._pairings[commit.upstream] = self.open(commit.upstream)
        found = self._pairings[commit.upstream].find(commit, tree)
        return found.commit if found else None

    def open(self, upstream: str) -> Pairing:
        """Return how to find which commit goes with one of an upstream. Raises `RequestError` as `find` does."""
        other = self.upstreams[upstream].pairs_with
        if other is None:
            hint = "`pairs-with` of an upstream names the one whose commit its files name"
            raise RequestError(f"the recipe pairs the upstream {upstream} with none", hint)
        spare = [self._releases[other]] if other in self._releases else []
        return Pairing(self.sources[upstream], [self.sources[other], *spare], self.prefer)

    def holder(self, commit: Commit) -> Source:
        """Return the source that has a commit: a release that git has no tag for is on the index only."""
        source, spare = self.sources[commit.upstream], self._releases.get(commit.upstream)
        return spare if spare and source.repository.find_commit(commit.id) is None else source

    @cached_property
    def _pairings(self) -> dict[str, Pairing]:
        return {}

    @cached_property
    def _releases(self) -> dict[str, Source]:
        """Return the releases of git upstreams that another is paired with: a mirror may lack tags."""
        from patchkit.source.package_source import PackageSource

        paired = {one.pairs_with for one in self.upstreams.values()} - {None}
        packages = {name: one.package for name, one in self.upstreams.items() if name in paired and one.package}
        found = {name: PackageSource(self.toolkit, name, package) for name, package in packages.items()}
        return {name: source for name, source in found.items() if self.sources[name].kind == "git"}
