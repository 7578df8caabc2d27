"""Reverts, cherry-picks and pull requests as three-way merges."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchkit.errors import RequestError
from patchkit.recipe.model import ChangeCherryPick, ChangePull, ChangeRevert
from patchkit.stack.history import apply_history, apply_pull, find_fork, find_pull_fork, pull_commits
from patchkit.stack.ladder.attempt import Attempt
from patchkit.stack.outcome import Outcome
from tests.stack.bench import RepositorySource, numbered
from tests.support.repositories import GitRepository

TEN = {10: "zehn\n"}


@pytest.fixture
def git(tmp_path: Path) -> GitRepository:
    repository = GitRepository(tmp_path / "upstream")
    repository.commit({"x.py": numbered(40), "tests/x.py": "t = 1\n"}, "begin")
    return repository


def bring(
    git: GitRepository,
    change: ChangeRevert | ChangeCherryPick | ChangePull,
    onto: str = "main",
    frozen: str | None = None,
) -> tuple[Attempt, dict[str, str]]:
    source = RepositorySource(git)
    base = source.resolve(onto)
    if isinstance(change, ChangePull):
        attempt = apply_pull(source, base, base.tree, change, frozen)
    else:
        attempt = apply_history(source, base.tree, change)
    files = {path: git.objects.read_blob(entry.blob).decode() for path, entry in git.objects.walk(attempt.tree)}
    return attempt, files


def test_a_revert_takes_back_one_commit_and_keeps_what_came_after(git: GitRepository) -> None:
    fault = git.commit({"x.py": numbered(40, TEN)}, "ten in German")
    git.commit({"x.py": numbered(40, {**TEN, 30: "dreißig\n"})}, "thirty in German")
    attempt, files = bring(git, ChangeRevert(revert=fault))
    assert (attempt.outcome, attempt.method, attempt.detail) == (Outcome.MERGED, "merge", "1 file")
    assert files["x.py"] == numbered(40, {30: "dreißig\n"})


NAMED = "def {0}(x):\n    first = x\n    second = x\n    third = {1}\n    fourth = x\n    return third\n"


def test_what_is_merged_into_another_function_is_for_review(git: GitRepository) -> None:
    git.commit({"f.py": NAMED.format("check", "x")})
    fix = git.commit({"f.py": NAMED.format("check", "x + 1")})
    git.commit({"f.py": NAMED.format("check", "x + 1") + "y = 1\n"})
    assert bring(git, ChangeRevert(revert=fix))[0].outcome is Outcome.MERGED
    git.commit({"f.py": NAMED.format("verify", "x + 1")})
    attempt, files = bring(git, ChangeRevert(revert=fix))
    assert (attempt.outcome, attempt.detail) == (
        Outcome.REVIEW,
        "merged, but f.py: changes verify, which the patch does not (it changes check)",
    )
    assert files["f.py"] == NAMED.format("verify", "x + 1")


def test_a_revert_of_what_is_not_there_is_already_upstream(git: GitRepository) -> None:
    fault = git.commit({"x.py": numbered(40, TEN)})
    git.commit({"x.py": numbered(40)}, "take it back")
    assert bring(git, ChangeRevert(revert=fault))[0].outcome is Outcome.ALREADY_UPSTREAM


def test_a_revert_of_what_was_changed_again_is_a_conflict_with_its_files(git: GitRepository) -> None:
    fault = git.commit({"x.py": numbered(40, TEN)})
    git.commit({"x.py": numbered(40, {10: "dix\n"})})
    attempt, files = bring(git, ChangeRevert(revert=fault))
    assert (attempt.outcome, attempt.detail) == (Outcome.CONFLICT, "merge conflict in x.py")
    assert files["x.py"] == numbered(40, {10: "dix\n"})


def test_a_cherry_pick_brings_one_commit_and_not_its_parents(git: GitRepository) -> None:
    git.branch("release", git.head())
    git.commit({"other.py": "x = 1\n"})
    fix = git.commit({"x.py": numbered(40, TEN), "tests/x.py": "t = 2\n"})
    attempt, files = bring(git, ChangeCherryPick(cherry_pick=fix), "release")
    assert (attempt.outcome, sorted(files)) == (Outcome.MERGED, ["tests/x.py", "x.py"])
    assert (files["x.py"], files["tests/x.py"]) == (numbered(40, TEN), "t = 2\n")
    assert bring(git, ChangeCherryPick(cherry_pick=fix), "main")[0].outcome is Outcome.ALREADY_UPSTREAM


def test_exclude_leaves_files_of_a_commit_out_before_the_merge(git: GitRepository) -> None:
    git.branch("release", git.head())
    git.commit({"tests/x.py": "t = 0\n"}, branch="release")
    fix = git.commit({"x.py": numbered(40, TEN), "tests/x.py": "t = 2\n"})
    assert bring(git, ChangeCherryPick(cherry_pick=fix), "release")[0].outcome is Outcome.CONFLICT
    attempt, files = bring(git, ChangeCherryPick(cherry_pick=fix, exclude=("tests/**",)), "release")
    assert (attempt.outcome, files["x.py"], files["tests/x.py"]) == (Outcome.MERGED, numbered(40, TEN), "t = 0\n")
    nothing, _ = bring(git, ChangeCherryPick(cherry_pick=fix, exclude=("**",)), "release")
    assert nothing.outcome is Outcome.NOT_APPLICABLE


def test_a_merge_commit_is_the_change_from_its_first_parent(git: GitRepository) -> None:
    git.branch("side", git.head())
    git.commit({"y.py": "y = 1\n"}, branch="side")
    git.branch("release", git.commit({"z.py": "z = 1\n"}))
    merge = git.merge("side")
    attempt, files = bring(git, ChangeCherryPick(cherry_pick=merge), "release")
    assert (attempt.outcome, files["y.py"]) == (Outcome.MERGED, "y = 1\n")


def test_a_root_commit_is_no_change(git: GitRepository) -> None:
    root = git.head()
    git.commit({"y.py": "y = 1\n"})
    assert bring(git, ChangeCherryPick(cherry_pick=root))[0].outcome is Outcome.BROKEN


def test_an_unknown_commit_is_an_error_of_the_request(git: GitRepository) -> None:
    with pytest.raises(RequestError):
        bring(git, ChangeRevert(revert="1234567"))


def test_releases_of_a_package_have_no_history(git: GitRepository) -> None:
    base = RepositorySource(git).resolve("main")
    attempt = apply_history(RepositorySource(git, kind="package"), base.tree, ChangeRevert(revert=base.id))
    assert (attempt.outcome, "--source git" in attempt.detail) == (Outcome.BROKEN, True)


def test_a_pull_request_is_what_it_adds_since_it_left_upstream(git: GitRepository) -> None:
    git.branch("pull", git.head())
    git.commit({"x.py": numbered(40, TEN)}, branch="pull")
    git.commit({"later.py": "x = 1\n"})
    git.merge("main", branch="pull")  # authors bring their branch up to date
    git.commit({"new.py": "n = 1\n"}, branch="pull")
    git.ref("refs/pull/7/head", "pull")
    git.branch("release", "main~1")
    attempt, files = bring(git, ChangePull(pull=7), "release")
    assert attempt.outcome is Outcome.MERGED
    attempt, files = bring(git, ChangePull(pull=7), "main")
    assert sorted(files) == ["later.py", "new.py", "tests/x.py", "x.py"]
    assert files["x.py"] == numbered(40, TEN)
    git.merge("pull")
    assert bring(git, ChangePull(pull=7), "main")[0].outcome is Outcome.ALREADY_UPSTREAM


def test_the_fork_is_the_last_common_commit(git: GitRepository) -> None:
    first = git.head()
    git.branch("side", first)
    own = git.commit({"y.py": "1\n"}, branch="side")
    second = git.commit({"z.py": "1\n"})
    assert find_fork(git.objects, second, own) == first
    git.merge("main", branch="side")
    third = git.commit({"z.py": "2\n"})
    assert find_fork(git.objects, third, git.head("side")) == second
    assert find_fork(git.objects, third, second) == second
    alone = git.commit({"a": "1\n"}, branch="unrelated")
    assert find_fork(git.objects, third, alone) is None


def test_a_pull_request_made_today_brings_nothing_else_to_an_old_release(git: GitRepository) -> None:
    git.branch("release", git.head())
    git.commit({"between.py": "b = 1\n"}, "not the request's")
    git.branch("pull", git.head())
    git.commit({"x.py": numbered(40, TEN)}, branch="pull")
    git.ref("refs/pull/7/head", "pull")
    git.branch("pull", "main")
    attempt, files = bring(git, ChangePull(pull=7), "release")
    assert (attempt.outcome, sorted(files)) == (Outcome.MERGED, ["tests/x.py", "x.py"])


def test_a_pull_request_against_a_release_branch_left_that_branch(git: GitRepository) -> None:
    git.branch("releases/v1", git.head())
    git.commit({"backport.py": "b = 1\n"}, branch="releases/v1")
    git.branch("work", "releases/v1")
    head = git.commit({"new.py": "n = 1\n"}, branch="work")
    git.commit({"later.py": "l = 1\n"})
    assert find_pull_fork(git.objects, head) == git.find("releases/v1")


def test_a_pull_request_that_was_merged_left_before_the_merge(git: GitRepository) -> None:
    fork = git.head()
    git.branch("work", fork)
    first = git.commit({"new.py": "n = 1\n"}, branch="work")
    head = git.commit({"new.py": "n = 2\n"}, branch="work")
    git.commit({"later.py": "l = 1\n"})
    git.merge("work")
    for number in range(3):
        git.commit({"later.py": f"{number}\n"})
    assert find_pull_fork(git.objects, head) == fork
    assert pull_commits(git.objects, fork, head) == (first, head)
    assert find_pull_fork(git.objects, git.find("main~1")) is None


def test_merges_of_upstream_into_a_branch_are_none_of_its_commits(git: GitRepository) -> None:
    git.branch("work", git.head())
    first = git.commit({"new.py": "n = 1\n"}, branch="work")
    fork = git.commit({"later.py": "l = 1\n"})
    git.merge("main", branch="work")
    head = git.commit({"new.py": "n = 2\n"}, branch="work")
    assert find_pull_fork(git.objects, head) == fork
    assert pull_commits(git.objects, fork, head) == (first, head)
