"""Real pull requests of vLLM-Ascend: where they left upstream, what they change, and which commit took them.

Needs a clone with its pull requests (refs/pull/*/head) to 2026-08 in PATCHKIT_ASCEND_CLONE; without it nothing is
collected. The situations are tested on small repositories beside this file; these say that real ones are told the same.
The right answers are git's: the commit of main whose title ends in the number, and the tree of the head.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from benchmarks.patch_clone import Clone
from patchkit.stack.carry.intake.arrival import take_pull
from patchkit.stack.carry.intake.facts import Known
from patchkit.stack.carry.text import join_parts
from patchkit.stack.history import find_pull_fork, pull_commits
from patchkit.stack.ladder.exact import apply_exact
from patchkit.stack.patch import parse_patches
from patchkit.tools.cache import Cache
from patchkit.tools.toolkit import Toolkit

ASCEND = os.environ.get("PATCHKIT_ASCEND_CLONE", "")
TIP = "182b75ea84"
BRANCHES = ("v0.13.0", "v0.18.0")  # releases/…: some requests were made against those
PULLS = [  # number, head, where it left upstream, its commits, the commit of main that took it
    (61, "534e4d9050db", "4544e99d88ae", 1, "36ea38fde564"),
    (426, "da5b3226af4e", "5c6d05a59e99", 2, "05bdcbeae47c"),
    (1453, "e366160f2e13", "53c2d58ae18d", 2, "c563a08f0a5b"),
    (4484, "a0ad69f8e381", "3c3c9a5386e8", 2, "9766cf912889"),
    (4920, "6fe4f28d868a", "3349f61769e9", 1, "e538fa6f9c4e"),
    (5759, "5151d949d66d", "920bbe932f2a", 2, "36d74aba5844"),
    (13510, "1acc7956bb29", "b80d4e621a30", 1, "a206bd012b12"),
    (14062, "2ea1ba4fd7a8", "f95881cc69e4", 2, ""),
    (9804, "78a986618a8a", "9099b7f66d12", 1, ""),
]


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", "--git-dir", ASCEND, *arguments], check=True, capture_output=True).stdout


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """The clone's objects under a repository of our own: nothing is written into the clone."""
    clone = Clone.over(Path(ASCEND), tmp_path_factory.mktemp("clone") / "ascend.git", TIP)
    for name in BRANCHES:
        tip = git("rev-parse", f"refs/heads/releases/{name}").decode().strip()
        clone.repository.set_ref(f"refs/heads/releases/{name}", tip)
    return clone


if ASCEND:

    @pytest.mark.parametrize("case", PULLS, ids=lambda case: str(case[0]))
    def test_a_real_pull_request_is_told_as_git_knows_it(
        clone: Clone, tmp_path: Path, case: tuple[int, str, str, int, str]
    ) -> None:
        number, head, fork, commits, merged = case
        repository = clone.repository
        whole = repository.find_commit(head)
        assert whole is not None
        left = find_pull_fork(repository, whole)
        assert left is not None
        assert left.startswith(fork)
        assert len(pull_commits(repository, left, whole)) == commits
        arrival = take_pull(clone, number, whole)  # type: ignore[arg-type]
        text = join_parts(arrival.parts)
        tree = repository.read_commit(whole).tree
        assert apply_exact(repository, repository.read_commit(left).tree, parse_patches(text)).tree == tree
        assert text == git("diff", "--full-index", "--binary", "--no-renames", left, whole)
        known = Known.ask(Toolkit(Cache(tmp_path)), clone, "", arrival)  # type: ignore[arg-type]
        assert known.merged_as[:12] == merged
