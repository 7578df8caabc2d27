"""A small upstream with a history, and diffs of its commits, for tests of what needs history."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from patchkit.stack.ladder.attempt import Attempt
from patchkit.stack.ladder.climb import Footing, climb
from patchkit.stack.lineage.lineage import Lineage
from patchkit.stack.patch import parse_patches
from tests.support.repositories import Files, GitRepository

MODULE = """\
import os


class Loader:
    def load(self, name):
        path = os.path.join(self.root, name)
        if not os.path.exists(path):
            return None
        with open(path) as stream:
            return stream.read()

    def store(self, name, text):
        path = os.path.join(self.root, name)
        with open(path, "w") as stream:
            stream.write(text)


def check(name):
    if not name:
        return False
    return name.isidentifier()
"""


@dataclass
class Upstream:
    """A repository, with the ladder on it."""

    git: GitRepository

    @classmethod
    def at(cls, path: Path) -> Upstream:
        upstream = cls(GitRepository(path))
        upstream.git.commit({"x.py": MODULE}, "begin")
        return upstream

    def edit(self, old: str, new: str, message: str = "change", path: str = "x.py", branch: str = "main") -> str:
        """Replace text of a file in a commit; the text must stand there once."""
        text = self.text(branch, path)
        assert text.count(old) == 1, (old, text)
        return self.git.commit({path: text.replace(old, new)}, message, branch)

    def text(self, revision: str = "main", path: str = "x.py") -> str:
        data = self.git.objects.read(self.git.tree_of(self.git.find(revision)), path)
        assert data is not None
        return data.decode()

    def diff(self, commit: str, *options: str) -> bytes:
        """Return what a commit changed, as git diff prints it."""
        command = ["git", "--git-dir", str(self.git.path), "diff", *options, f"{commit}^", commit]
        return subprocess.run(command, check=True, capture_output=True).stdout

    def plain(self, commit: str) -> bytes:
        """Return a diff that names no blobs, as `diff -u` would print it."""
        return b"".join(line for line in self.diff(commit).splitlines(True) if not line.startswith(b"index "))

    def climb(self, diff: bytes, at: str = "main", history: bool = True, tip: str = "") -> Attempt:
        commit = self.git.find(at)
        lineage = Lineage(self.git.objects, commit, self.git.find(tip) if tip else "") if history else None
        return climb(Footing(self.git.objects, self.git.tree_of(commit), lineage), parse_patches(diff))

    def result(self, attempt: Attempt, path: str = "x.py") -> str:
        data = self.git.objects.read(attempt.tree, path)
        assert data is not None
        return data.decode()

    def patch(self, files: Files, branch: str = "work") -> str:
        """Commit a change on a branch of its own that left main at its head; return the commit."""
        self.git.branch(branch)
        return self.git.commit(files, "carried", branch)

    def carried(self, old: str, new: str) -> str:
        """Commit an edit of x.py that upstream does not have; return the commit."""
        return self.patch({"x.py": self.text().replace(old, new)})
