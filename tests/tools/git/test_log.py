"""What history says of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchkit.errors import StoreFailure
from patchkit.tools.git.log import CommitText, branch_heads, commits_apart, file_log, find_renamed, read_text
from patchkit.tools.git.objects import Repository
from tests.support.repositories import GitRepository

TEXT = "".join(f"{number}\n" for number in range(30))


@pytest.fixture
def git(tmp_path: Path) -> GitRepository:
    return GitRepository(tmp_path / "repository")


def test_the_log_tells_who_changed_files_newest_first(git: GitRepository) -> None:
    first = git.commit({"x": "1\n", "y": "1\n"})
    git.commit({"z": "1\n"})
    second = git.commit({"x": "2\n", "ä [1]": "1\n"})
    gone = git.commit({"y": None})
    told = file_log(git.objects, gone, ["x", "y", "ä [1]"])
    assert [(change.commit, change.path) for change in told] == [
        (gone, "y"),
        (second, "x"),
        (second, "ä [1]"),
        (first, "x"),
        (first, "y"),
    ]
    one, two = git.objects.write_blob(b"1\n"), git.objects.write_blob(b"2\n")
    assert [(change.old, change.new) for change in told if change.path != "ä [1]"] == [
        (one, ""),
        (one, two),
        ("", one),
        ("", one),
    ]
    assert told[0].time == told[1].time + 60
    assert file_log(git.objects, gone, []) == ()


def test_a_log_that_cannot_be_read_is_a_failure_of_the_store(git: GitRepository, tmp_path: Path) -> None:
    with pytest.raises(StoreFailure, match="cannot read its history"):
        file_log(Repository(tmp_path / "none"), git.commit({"x": "1\n"}), ["x"])


def test_a_rename_is_told_by_the_commit_that_made_it(git: GitRepository) -> None:
    root = git.commit({"x": TEXT, "other": "1\n"})
    moved = git.commit({"x": None, "folder/y": TEXT + "30\n"})
    gone = git.commit({"other": None})
    assert find_renamed(git.objects, moved, "x") == "folder/y"
    assert find_renamed(git.objects, gone, "other") is None
    assert find_renamed(git.objects, root, "x") is None


def test_the_words_of_a_commit_come_with_the_zone_of_its_author(tmp_path: Path) -> None:
    git = GitRepository(tmp_path / "repository")
    commit = git.commit({"x": "1\n"}, "A title\nin two lines\n\nWhy.\n\nMore.\n")
    text = read_text(git.objects, commit)
    assert text == CommitText(
        "Ada Author <ada@example.org>", "Tue, 14 Nov 2023 22:13:20 +0000", "A title in two lines", "Why.\n\nMore."
    )


def test_commits_apart_are_those_that_no_other_branch_has(tmp_path: Path) -> None:
    git = GitRepository(tmp_path / "repository")
    first = git.commit({"x": "1\n"})
    for name in ("one", "two", "work"):
        git.branch(name, first)
    one, two = (git.commit({name: "1\n"}, branch=name) for name in ("one", "two"))
    git.merge("one", branch="work")
    merge = git.merge("two", branch="work")
    assert list(commits_apart(git.objects, merge, [one, two])) == [f"{git.find(f'{merge}~1')}", merge]
    assert commits_apart(git.objects, merge, [merge]) == {}
    assert branch_heads(git.objects) == {"main": first, "one": one, "two": two, "work": merge}
