"""The drift set stands on upstream's own history, whoever's fork the clone is of."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.patch_clone import find_upstream_tip
from tests.support.repositories import GitRepository


@pytest.fixture
def fork(tmp_path: Path) -> GitRepository:
    """Return a repository whose `upstream` holds 30 squashed pull requests and whose `main` forked there."""
    repository = GitRepository(tmp_path / "fork")
    for number in range(30):
        tip = repository.commit({"a.py": f"x = {number}\n"}, f"change ({number}) (#{40000 + 7 * number})")
    repository.branch("upstream", tip)
    return repository


def test_upstreams_own_clone_is_taken_from_its_tip(fork: GitRepository) -> None:
    assert find_upstream_tip(fork.path) == fork.head("upstream")


def test_a_forks_own_requests_and_what_it_picked_are_passed_over(fork: GitRepository) -> None:
    for number in range(40):
        fork.commit({"b.py": f"y = {number}\n"}, f"own work (#{number})")
    fork.commit({"a.py": "x = 100\n"}, "picked from upstream (#40300)")
    assert find_upstream_tip(fork.path) == fork.head("upstream")


def test_upstream_is_found_behind_the_merges_of_a_fork(fork: GitRepository) -> None:
    for number in range(5):
        fork.commit({"b.py": f"y = {number}\n"}, f"own work (#{number})")
        newest = fork.commit({"a.py": f"x = {50 + number}\n"}, f"later (#{41000 + number})", branch="upstream")
        fork.merge("upstream", f"Merge pull request #{number} from fork/upstream_merge")
    assert find_upstream_tip(fork.path) == newest


def test_a_history_without_pull_requests_asks_for_the_tip(tmp_path: Path) -> None:
    plain = GitRepository(tmp_path / "plain")
    plain.commit({"a.py": "x = 1\n"}, "begin")
    with pytest.raises(SystemExit, match="--tip"):
        find_upstream_tip(plain.path)
