"""A clone of vLLM that is there already, as a source: nothing is fetched, and nothing is written into it."""

# ruff: noqa: ARG002  # the methods are those of a protocol

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchkit.recipe.model import ChangePatch
from patchkit.source.commit import Commit, Tree
from patchkit.stack.series import StackPatch
from patchkit.stack.status.examine import commit_at
from patchkit.tools.git.objects import Repository


class NoFacts:
    """Facts of nothing: the patches here have no conditions."""

    def version(self, name: str) -> None:
        return None

    def arch(self) -> None:
        return None

    def pin(self, name: str) -> None:
        return None

    def contains(self, commit: str) -> None:
        return None

    def has(self, path: str, symbol: str | None) -> bool:
        return False


@dataclass(frozen=True)
class Clone:
    """The objects of a clone under a repository of our own."""

    repository: Repository
    upstream: str = "vllm"
    kind: str = "git"

    @classmethod
    def over(cls, clone: Path, own: Path, tip: str) -> Clone:
        """Make the repository at `own`, with `tip` of the clone as its only branch."""
        git_dir = run_git(clone, "rev-parse", "--absolute-git-dir").decode().strip()
        commit = run_git(clone, "rev-parse", "--verify", f"{tip}^{{commit}}").decode().strip()
        subprocess.run(["git", "init", "-q", "--bare", str(own)], check=True)
        (own / "objects/info/alternates").write_text(f"{git_dir}/objects\n")
        run_git(own, "update-ref", "refs/heads/main", commit)
        run_git(own, "symbolic-ref", "HEAD", "refs/heads/main")
        return cls(Repository(own))

    def resolve(self, ref: str) -> Commit:
        """Return the commit that a ref names."""
        found = self.repository.find_commit(ref)
        if found is None:
            raise SystemExit(f"the clone has no {ref}")
        return commit_at(self, found)

    def tree(self, commit: Commit) -> Tree:
        """Return the files of a commit."""
        return Tree(commit, commit.tree, self.repository)

    def facts(self, commit: Commit, target: Any) -> NoFacts:
        """Return no facts."""
        return NoFacts()


def run_git(folder: Path, *arguments: str) -> bytes:
    """Return what git prints in a repository or work tree."""
    return subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True).stdout


def patch_of(folder: Path, name: str, diff: bytes, strip: int = 1) -> StackPatch:
    """Write a diff into a folder and return it as a patch of a series."""
    (folder / name).write_bytes(diff)
    return StackPatch(name, folder, (ChangePatch.model_validate({"patch": name, "strip": strip}),), name)
