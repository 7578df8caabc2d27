"""A git upstream: commits with their whole history, from a bare mirror in the store."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from packaging.version import Version

from patchkit.errors import RequestError
from patchkit.recipe.condition import Facts
from patchkit.source.commit import Commit, Tree
from patchkit.source.facts import Symbols, TreeFacts
from patchkit.source.source import LATEST, Axis, FactSettings, Kind, Origin, check_order, near_names, parse_tag, shorten
from patchkit.tools.git.history import commits_touching
from patchkit.tools.git.mirror import Mirror, describe
from patchkit.tools.git.objects import Repository
from patchkit.tools.toolkit import Toolkit


class GitSource:
    """The upstream as a git repository."""

    kind: Kind = "git"
    without_history = ""

    def __init__(self, toolkit: Toolkit, upstream: str, url: str) -> None:
        """Open the mirror of a URL or path, cloned first when it is not in the store. Raises `RequestError` kinds."""
        self.upstream = upstream
        self._mirror = Mirror(toolkit, url)
        self._mirror.clone()
        self.repository: Repository = self._mirror.repository
        self._symbols = Symbols(self.repository)

    def resolve(self, ref: str) -> Commit:
        """Return the commit of a branch, tag, commit id, pull/N, expression on them, or `latest`; see `Source`."""
        if ref == LATEST:
            self._mirror.fetch()
            ref = next(reversed(self._finals()), ref)
        commit = self._mirror.find(ref)
        if commit is None:
            raise RequestError(
                f"{self.upstream}: no commit or release named {shorten(ref)} in {self._mirror.name}", self._near(ref)
            )
        record = self.repository.read_commit(commit)
        version = version_of(self.repository, commit)
        return Commit(self.upstream, commit, record.tree, ref, record.subject, record.commit_time, version)

    def tree(self, commit: Commit) -> Tree:
        """Return the files of a commit."""
        return Tree(commit, commit.tree, self.repository)

    def facts(self, commit: Commit, target: FactSettings) -> Facts:
        """Return what conditions may ask about a commit."""

        def is_ancestor(revision: str) -> bool | None:
            found = self.repository.find_commit(revision)
            return None if found is None else self.repository.is_ancestor(found, commit.id)

        return TreeFacts(commit, target, self._symbols, self.repository, is_ancestor)

    def history(self, good: Commit, bad: Commit) -> Mapping[str, tuple[str, ...]]:
        """Return the commits in `bad` and not in `good`; see `Source`. `good` may lie on a release branch."""
        history = self.repository.parents_between(good.id, bad.id)
        if not history:
            raise RequestError(
                f"{self.upstream}: {bad.name} holds no commit that {good.name} lacks", "swap good and bad?"
            )
        return history

    def releases(self, good: Commit, bad: Commit) -> tuple[str, ...]:
        """Return the release tags from `good` to `bad` by version, wherever they lie in history; see `Source`."""
        tags = release_tags(self.repository)
        first, last = self._release_of(good, tags), self._release_of(bad, tags)
        check_order(self.upstream, first, last)
        return tuple(
            tag
            for version, tag in sorted(tags.items())
            if first <= version <= last and (not version.is_prerelease or version in (first, last))
        )

    def touching(self, good: Commit, bad: Commit, wanted: Callable[[str], bool]) -> frozenset[str]:
        """Return the commits of `history` that change a path that is wanted; see `Source`."""
        return commits_touching(self.repository, good.id, bad.id, wanted)

    def since(self, ref: str, axis: Axis) -> tuple[str, ...]:
        """Return what is newer than a ref: first parents of the default branch, or final releases; newest first."""
        self._mirror.fetch()
        start = self.resolve(ref)
        if axis == "releases":
            known = start.version and Version(start.version)
            return tuple(tag for tag, version in reversed(self._finals().items()) if not known or version > known)
        history = self.repository.parents_between(start.id, self._mirror.default_branch())
        found, at = [], self._mirror.default_branch()
        while at in history:
            found.append(at)
            at = history[at][0] if history[at] else ""
        return tuple(found)

    def origin(self, commit: Commit) -> Origin:  # noqa: ARG002  # of a package, each commit has a file of its own
        """Return where a commit comes from."""
        return Origin(self.kind, self._mirror.name, None)

    def _finals(self) -> dict[str, Version]:
        """Return the tags of releases that are no pre-releases, with their version, oldest first."""
        tags = sorted(release_tags(self.repository).items())
        return {tag: version for version, tag in tags if not version.is_prerelease}

    def _release_of(self, commit: Commit, tags: Mapping[Version, str]) -> Version:
        version = commit.version and Version(commit.version)
        if version and version in tags:
            return version
        hint = (
            f"the newest are {', '.join(list(self._finals())[-3:])}" if tags else "the upstream has no tags v<version>"
        )
        raise RequestError(f"{self.upstream}: {commit.name} is no release", hint)

    def _near(self, ref: str) -> str:
        return near_names(ref, self._mirror.names()) or "a tag, a branch, a commit id or pull/N"


def release_tags(repository: Repository) -> dict[Version, str]:
    """Return the tags that are `v` and a PEP 440 version, by version."""
    found: dict[Version, str] = {}
    for tag in sorted(repository.tags()):
        if (version := parse_tag(tag)) is not None:
            found.setdefault(version, tag)
    return found


def version_of(repository: Repository, commit: str) -> str | None:
    """Return a commit's version as setuptools-scm guesses it, without the local part; None with no tag v… behind it.

    A tagged commit has the tag's version; n commits later it is the next version's .dev<n>.
    """
    exact = [version for tag, at in repository.tags().items() if at == commit and (version := parse_tag(tag))]
    if exact:
        return str(max(exact))
    nearest = describe(repository, commit)
    version = parse_tag(nearest[0]) if nearest else None
    if nearest is None or version is None:
        return None
    return f"{_next(version)}.dev{nearest[1]}"


def _next(version: Version) -> str:
    """Return what setuptools-scm takes for the next version: 1.2.3 → 1.2.4, 1.2rc1 → 1.2rc2, 1.2.dev0 → 1.2."""
    head, separator, _ = version.public.partition(".dev")
    return head if separator else re.sub(r"\d+$", lambda number: str(int(number[0]) + 1), head)
