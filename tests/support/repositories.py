"""Builds real git repositories for tests, with fixed authors and dates, so that ids are constants.

    upstream = GitRepository(tmp_path / "upstream")
    first = upstream.commit({"a.py": "x = 1\\n"}, "add a")
    upstream.tag("v1.0")
    fix = upstream.commit({"a.py": "x = 2\\n", "b.py": None}, "change a, drop b")   # None deletes
    upstream.branch("side", first); upstream.commit({"c.py": ""}, "work", branch="side")
    merge = upstream.merge("side", "take the side in")

The repository is bare. `upstream.objects` is patchkit's own `Repository` on it, `upstream.url` what a recipe names.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pygit2

from patchkit.tools.git.objects import Entry, Repository

START = 1_700_000_000  # 2023-11-14 22:13:20 UTC; every commit is a minute later than the one before
AUTHOR = ("Ada Author", "ada@example.org")

Files = Mapping[str, "str | bytes | Entry | None"]


class GitRepository:
    """A bare git repository on disk that grows commit by commit; HEAD is `main`."""

    def __init__(self, path: Path) -> None:
        pygit2.init_repository(path, bare=True, initial_head="main")
        self.path = path
        self.url = str(path)
        self.objects = Repository(path)
        self._git = pygit2.Repository(str(path))
        self._time = START

    def commit(self, files: Files, message: str = "change", branch: str = "main") -> str:
        """Commit changed files (text, bytes, an Entry such as a symlink; None deletes) onto a branch; return its id."""
        parent = self.head(branch)
        tree = self.tree_of(parent) if parent else self._empty_tree()
        edited = self.objects.edit(tree, {path: self.entry(value) for path, value in files.items()})
        return self._create(branch, edited, [parent] if parent else [], message)

    def merge(self, other: str, message: str = "merge", branch: str = "main") -> str:
        """Merge another branch (or commit) into a branch, always with a merge commit; return its id."""
        ours, theirs = self.head(branch), self.find(other)
        base = str(self._git.merge_base(ours, theirs))
        merged = self.objects.merge_trees(self.tree_of(base), self.tree_of(ours), self.tree_of(theirs))
        assert merged.tree is not None, merged.conflicts
        return self._create(branch, merged.tree, [ours, theirs], message)

    def tag(self, name: str, commit: str = "main", message: str = "") -> None:
        """Tag a commit; with a message the tag is an annotated one."""
        target = self.find(commit)
        if message:
            self._git.create_tag(name, target, pygit2.enums.ObjectType.COMMIT, self._signature(), message)
        else:
            self._git.references.create(f"refs/tags/{name}", target, force=True)

    def branch(self, name: str, commit: str = "main") -> None:
        """Create a branch, or move it."""
        self._git.references.create(f"refs/heads/{name}", self.find(commit), force=True)

    def ref(self, name: str, commit: str) -> None:
        """Point any ref at a commit, e.g. refs/pull/7/head."""
        self._git.references.create(name, self.find(commit), force=True)

    def head(self, branch: str = "main") -> str:
        """Return a branch's commit id, '' when the branch does not exist."""
        return self.objects.find_ref(f"refs/heads/{branch}") or ""

    def find(self, revision: str) -> str:
        """Return the commit id that a revision names; it must exist."""
        commit = self.objects.find_commit(revision)
        assert commit is not None, revision
        return commit

    def tree_of(self, commit: str) -> str:
        """Return the tree id of a commit."""
        return self.objects.read_commit(commit).tree

    def entry(self, value: str | bytes | Entry | None) -> Entry | None:
        """Return what `Repository.edit` takes for a file's text or bytes."""
        if value is None or isinstance(value, Entry):
            return value
        return Entry(0o100644, self.objects.write_blob(value.encode() if isinstance(value, str) else value))

    def symlink(self, target: str) -> Entry:
        """Return the entry of a symbolic link."""
        return Entry(0o120000, self.objects.write_blob(target.encode()))

    def executable(self, text: str) -> Entry:
        """Return the entry of an executable file."""
        return Entry(0o100755, self.objects.write_blob(text.encode()))

    def _create(self, branch: str, tree: str, parents: list[str], message: str) -> str:
        signature = self._signature()
        self._time += 60
        return str(self._git.create_commit(f"refs/heads/{branch}", signature, signature, message + "\n", tree, parents))

    def _signature(self) -> pygit2.Signature:
        return pygit2.Signature(*AUTHOR, self._time, 0)

    def _empty_tree(self) -> str:
        return str(self._git.TreeBuilder().write())


def linear_history(path: Path, count: int, file: str = "number.txt") -> tuple[GitRepository, list[str]]:
    """Build a repository with `count` commits in a row; the file holds the commit's number, from 0. Oldest first."""
    repository = GitRepository(path)
    return repository, [repository.commit({file: f"{number}\n"}, f"commit {number}") for number in range(count)]
