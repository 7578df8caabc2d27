"""What the tests of the stack stand on: a real repository as a source, facts that are given, trees from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from patchkit.errors import RequestError
from patchkit.source.commit import Commit, Tree
from patchkit.source.package_source import PackageSource
from patchkit.source.source import Kind
from patchkit.stack.ladder.attempt import Attempt
from patchkit.stack.ladder.exact import apply_exact
from patchkit.stack.patch import Patch, parse_patches
from patchkit.tools.git.objects import Entry, Repository
from tests.support.repositories import Files, GitRepository

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


@dataclass(frozen=True)
class RepositorySource:
    """A source over a repository that is there already: nothing is fetched."""

    git: GitRepository
    kind: Kind = "git"
    upstream: str = "vllm"

    @property
    def without_history(self) -> str:
        return "" if self.kind == "git" else PackageSource.without_history

    @property
    def repository(self) -> Repository:
        return self.git.objects

    def resolve(self, ref: str) -> Commit:
        found = self.git.objects.find_commit(f"refs/{ref}/head" if ref.startswith("pull/") else ref)
        if found is None:
            raise RequestError(f"vllm: no commit or release named {ref}")
        record = self.git.objects.read_commit(found)
        return Commit("vllm", found, record.tree, ref, record.subject, record.commit_time, None)

    def tree(self, commit: Commit) -> Tree:
        return Tree(commit, commit.tree, self.git.objects)


@dataclass(frozen=True)
class GivenFacts:
    """Facts as a test wants them."""

    versions: Mapping[str, str] = field(default_factory=dict)

    def version(self, name: str) -> str | None:
        return self.versions.get(name)

    def arch(self) -> str | None:
        return "sm_121"

    def pin(self, name: str) -> str | None:
        return None

    def contains(self, commit: str) -> bool | None:
        return None

    def has(self, path: str, symbol: str | None) -> bool:
        return False


@dataclass
class Desk:
    """A repository in which trees are made from files and looked at again."""

    git: GitRepository

    @classmethod
    def at(cls, path: Path) -> Desk:
        desk = cls(GitRepository(path))
        desk.git.commit({})
        return desk

    @property
    def objects(self) -> Repository:
        return self.git.objects

    def tree(self, files: Files) -> str:
        return self.objects.edit(EMPTY_TREE, {path: self.git.entry(value) for path, value in files.items()})

    def files(self, tree: str) -> dict[str, bytes]:
        regular = ((path, entry) for path, entry in self.objects.walk(tree) if entry.mode != 0o160000)
        return {path: self.objects.read_blob(entry.blob) for path, entry in regular}

    def entries(self, tree: str) -> dict[str, Entry]:
        return dict(self.objects.walk(tree))

    def apply(self, files: Files, diff: bytes | str, **options: int | str) -> tuple[Attempt, dict[str, bytes]]:
        """Apply a patch file to a tree of these files; return what became of it and the files of the result."""
        data = diff.encode() if isinstance(diff, str) else diff
        attempt = self.apply_patches(self.tree(files), parse_patches(data, **options))  # type: ignore[arg-type]
        return attempt, self.files(attempt.tree)

    def apply_patches(self, tree: str, patches: Sequence[Patch]) -> Attempt:
        return apply_exact(self.objects, tree, patches)


def numbered(count: int, changes: Mapping[int, str] | None = None) -> str:
    """Return a file of lines `line 1` … with some of them (counted from 1) replaced."""
    return "".join((changes or {}).get(number, f"line {number}\n") for number in range(1, count + 1))


def lines(*texts: str) -> str:
    """Return lines, each with its end."""
    return "".join(f"{text}\n" for text in texts)


def commit_of(desk: Desk, tree: str) -> Tree:
    """Return a tree as a source would give it."""
    commit = RepositorySource(desk.git).resolve("main")
    return Tree(replace(commit, tree=tree), tree, desk.objects)
