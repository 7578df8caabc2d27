"""Drafts: objects in memory that are as real as stored ones, until what is worth keeping is stored, whole."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patchkit.errors import StoreFailure
from patchkit.tools.git.lines import find_blob, merge_lines
from patchkit.tools.git.objects import Entry, Repository, create_repository
from patchkit.tools.git.raw.packs import FEW

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
TIME = 1_700_000_000


@pytest.fixture
def store(tmp_path: Path) -> Repository:
    return create_repository(tmp_path / "store")


def git(store: Repository, *arguments: str) -> str:
    command = ["git", "--git-dir", store.path, *arguments]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def stored(store: Repository) -> set[str]:
    listed = git(store, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    return set(listed.split())


def add(store: Repository, tree: str, **files: str) -> str:
    entries = {path: Entry(0o100644, store.write_blob(text.encode())) for path, text in files.items()}
    return store.edit(tree, {f"folder/{path}": entry for path, entry in entries.items()})


def commits(store: Repository, count: int) -> str:
    """Make commits in a row, each with a file and its folder: three objects and the root."""
    tree, parents = EMPTY_TREE, tuple[str, ...]()
    for number in range(count):
        tree = add(store, tree, **{f"f{number}": f"{number}\n"})
        parents = (store.create_commit(tree, parents, f"commit {number}\n", TIME),)
    return parents[0]


@pytest.mark.parametrize("count", [2, 40])
def test_commits_of_a_draft_are_read_by_git_once_it_is_closed(store: Repository, count: int) -> None:
    with store.draft() as keep:
        tip = commits(store, count)
        assert store.read_commit(tip).subject == f"commit {count - 1}"
        assert store.find_commit(tip[:12]) == tip
        assert stored(store) == set()
        keep(tip)
    assert git(store, "log", "--format=%s", tip).split("\n")[0] == f"commit {count - 1}"
    store.set_ref("refs/heads/main", tip)
    assert git(store, "fsck", "--strict") == ""
    assert len(stored(store)) == 4 * count
    assert len(list((store.path / "objects/pack").iterdir())) == (2 if 4 * count >= FEW else 0)
    assert store.read(store.read_commit(tip).tree, "folder/f0") == b"0\n"


def test_the_same_commits_again_store_nothing(store: Repository) -> None:
    for _ in range(2):
        with store.draft() as keep:
            keep(commits(store, 40))
        files = sorted(path for path in (store.path / "objects").rglob("*") if path.is_file())
    assert [path.suffix for path in files] == [".idx", ".pack"]
    same = [path.stat().st_mtime_ns for path in files]
    with store.draft() as keep:
        keep(commits(store, 41))
    with store.draft() as keep:
        keep(commits(store, 30))  # a part of what is there
    assert [path.stat().st_mtime_ns for path in files] == same
    assert len(stored(store)) == 4 * 41


def test_what_is_not_kept_is_forgotten(store: Repository) -> None:
    with store.draft() as keep:
        first = add(store, EMPTY_TREE, a="1\n")
        second = add(store, first, a="2\n", b="2\n")
        keep(second)
    assert store.read(second, "folder/b") == b"2\n"
    with pytest.raises(KeyError):
        store.read(first, "folder/a")
    assert len(stored(store)) == 3  # both files are alike, a folder, the root
    with store.draft():
        third = add(store, second, a="3\n")
    with pytest.raises(KeyError):
        store.entry(third, "folder/a")


def test_an_exception_leaves_the_store_as_it_was(store: Repository) -> None:
    def interrupted() -> None:
        with store.draft() as keep:
            keep(commits(store, 3))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert stored(store) == set()
    assert store.write_blob(b"after\n") in stored(store)


def test_a_draft_inside_a_draft_is_part_of_it(store: Repository) -> None:
    with store.draft() as keep:
        with store.draft() as inner:
            tree = add(store, EMPTY_TREE, a="1\n")
            inner(tree)
        assert stored(store) == set()
        assert store.read(tree, "folder/a") == b"1\n"
        keep(add(store, tree, b="2\n"))
    assert {tree} < stored(store)


def test_merges_and_short_ids_see_a_draft(store: Repository) -> None:
    with store.draft() as keep:
        base = add(store, EMPTY_TREE, a="1\n", b="1\n")
        ours, theirs = add(store, base, a="2\n"), add(store, base, b="3\n")
        merged = store.merge_trees(base, ours, theirs).tree
        assert merged is not None
        assert merged == add(store, ours, b="3\n")
        blob = store.write_blob(b"some text\n")
        assert find_blob(store, blob[:10]) == blob
        assert merge_lines(store, b"a\nb\nc\n", b"A\nb\nc\n", b"a\nb\nC\n") == b"A\nb\nC\n"
        keep(merged)
    assert store.read(merged, "folder/b") == b"3\n"
    assert git(store, "fsck", "--strict", "--no-dangling", merged) == ""


PATHS = ("a", "a/b", "b/c", "b/d/e", "b/d/f", "g")
CHANGES = st.dictionaries(st.sampled_from(PATHS), st.one_of(st.none(), st.binary(max_size=1)), max_size=3)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=st.lists(CHANGES, max_size=7), asked=st.sets(st.integers(0, 6)))
def test_a_sketch_is_read_and_edited_like_the_tree_that_it_stands_for(
    store: Repository, edits: list[dict[str, bytes | None]], asked: set[int]
) -> None:
    with store.draft(rough=True) as keep:
        tree = plain = store.edit(EMPTY_TREE, {"b/c": Entry(0o100644, store.write_blob(b"c"))})
        for number, changes in enumerate(edits):
            entries = {
                path: None if data is None else Entry(0o100644, store.write_blob(data))
                for path, data in changes.items()
            }
            try:
                made = store.edit(store.settle(plain), entries)
            except ValueError:
                with pytest.raises(ValueError, match="folder"):
                    store.edit(tree, entries)
                continue
            tree, plain = store.edit(tree, entries), store.settle(made)
            for path in (*PATHS, "a/b/c", "b/d"):
                assert store.locate(tree, path) == store.locate(plain, path)
            if number in asked:
                assert store.settle(tree) == plain
                assert dict(store.walk(tree)) == dict(store.walk(plain))
        assert store.diff(tree, plain) == ()
        commit = store.create_commit(tree, (), "sketched\n", TIME)
        keep(tree, commit)
    assert store.read_commit(commit).tree == plain
    assert git(store, "fsck", "--strict", "--no-dangling", commit) == ""


def test_what_is_only_replaced_in_a_rough_draft_makes_no_tree(store: Repository) -> None:
    base = add(store, EMPTY_TREE, a="1\n", b="1\n")
    with store.draft(rough=True):
        one, two = add(store, base, a="2\n"), add(store, base, a="2\n")
        assert one != two  # names of sketches
        assert store.settle(one) == store.settle(two) == add_in_full(store, base)
        assert store.merge_trees(base, one, base).tree == store.settle(one)
        other = add(store, base, c="3\n")  # a new file: no sketch
        assert store.settle(other) == other


def add_in_full(store: Repository, base: str) -> str:
    blob = store.write_blob(b"2\n")
    emptied = store.edit(base, {"folder/a": None})
    return store.edit(emptied, {"folder/a": Entry(0o100644, blob)})


def test_a_draft_is_of_one_thread(store: Repository) -> None:
    with store.draft(), ThreadPoolExecutor(1) as pool:
        blob = store.write_blob(b"mine\n")
        with pytest.raises(KeyError):
            pool.submit(store.read_blob, blob).result()


def test_a_tree_or_commit_of_what_is_not_there_is_refused(store: Repository) -> None:
    with store.draft() as keep:
        with pytest.raises(StoreFailure, match="has no object 1111"):
            store.edit(EMPTY_TREE, {"x": Entry(0o100644, "1" * 40)})
        with pytest.raises(StoreFailure, match="a commit is to name"):
            store.create_commit("1" * 40, (), "lost\n", TIME)
        keep(EMPTY_TREE)
    assert stored(store) == set()
