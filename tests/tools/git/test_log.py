"""What history says of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchkit.errors import StoreFailure
from patchkit.tools.git.log import file_log, find_renamed
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
