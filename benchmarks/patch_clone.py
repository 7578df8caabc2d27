"""A clone of vLLM that is there already, as a source: nothing is fetched, and nothing is written into it."""

# ruff: noqa: ARG002  # the methods are those of a protocol

from __future__ import annotations

import re
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


LINE = 200  # commits behind a tip that are looked at
UPSTREAM_SHARE = 0.9  # of them must be upstream's
PULL = re.compile(r"\(#(\d+)\)\s*$")


def find_upstream_tip(clone: Path, ref: str = "HEAD") -> str:
    """Return the newest commit of upstream's own line behind a ref, whoever's fork the clone is of.

    Upstream squashes each pull request into one commit, `subject (#43616)`; a fork's own requests count from 1 again.
    So a commit is upstream's when the number that ends its subject is at least half of the highest one in the history;
    it stands on upstream's line, and is not one that a fork picked, when nine in ten of the 200 first parents from it
    on are upstream's too.
    """
    log = run_git(clone, "log", "--date-order", "--format=%H %P%x09%s", ref).decode("utf-8", "replace")
    parent: dict[str, str] = {}
    number: dict[str, int] = {}
    for entry in log.splitlines():
        ids, _, subject = entry.partition("\t")
        commit, *parents = ids.split()
        parent[commit] = parents[0] if parents else ""
        found = PULL.search(subject)
        number[commit] = int(found[1]) if found else 0
    least = max(number.values()) / 2
    for commit in parent:
        if number[commit] >= least > 0:
            line = [commit]
            while len(line) < LINE and parent[line[-1]] in parent:
                line.append(parent[line[-1]])
            if sum(number[one] >= least for one in line) >= UPSTREAM_SHARE * len(line):
                return commit
    raise SystemExit(f"{clone}: no line of upstream's pull requests behind {ref}; name upstream's tip with --tip")


def patch_of(folder: Path, name: str, diff: bytes, strip: int = 1) -> StackPatch:
    """Write a diff into a folder and return it as a patch of a series."""
    (folder / name).write_bytes(diff)
    return StackPatch(name, folder, (ChangePatch.model_validate({"patch": name, "strip": strip}),), name)
