from __future__ import annotations

import os
import pickle
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.tools.git.objects import Delta, Entry, Repository, create_repository
from tests.support.repositories import START, GitRepository, linear_history

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # known to every git
SUBMODULE = Entry(0o160000, "1" * 40)


@pytest.fixture
def upstream(tmp_path: Path) -> GitRepository:
    repository = GitRepository(tmp_path / "upstream")
    repository.commit(
        {
            "a.py": "a = 1\n",
            "lib/deep/b.py": "b = 1\n",
            "lib/c.py": "c = 1\n",
            "link": repository.symlink("lib"),
            "run.sh": repository.executable("true\n"),
            "third": SUBMODULE,
        },
        "start",
    )
    return repository


def git(repository: GitRepository, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-c", "safe.directory=*", "-C", repository.path, *arguments], capture_output=True, text=True, check=True
    ).stdout


def tree(upstream: GitRepository) -> str:
    return upstream.tree_of(upstream.head())


def blob(upstream: GitRepository, text: str) -> Entry:
    return Entry(0o100644, upstream.objects.write_blob(text.encode()))


def test_walk_lists_what_git_lists_in_the_same_order(upstream: GitRepository) -> None:
    listed = [f"{entry.mode:06o} {entry.blob} {path}" for path, entry in upstream.objects.walk(tree(upstream))]
    assert listed == git(upstream, "ls-tree", "-r", "--format=%(objectmode) %(objectname) %(path)", "main").splitlines()


def test_a_file_is_read_and_folders_submodules_and_nothing_are_none(upstream: GitRepository) -> None:
    read = upstream.objects.read
    assert read(tree(upstream), "lib/deep/b.py") == b"b = 1\n"
    assert read(tree(upstream), "link") == b"lib"
    assert [read(tree(upstream), path) for path in ("lib", "third", "nothing", "a.py/x", "", "/a.py")] == [None] * 6


def test_the_tree_of_nobody_is_an_error_not_an_absent_file(upstream: GitRepository) -> None:
    with pytest.raises(KeyError):
        upstream.objects.read("0" * 40, "a.py")


def test_an_edit_writes_the_tree_that_git_would_write(upstream: GitRepository, tmp_path: Path) -> None:
    new = blob(upstream, "new\n")
    edited = upstream.objects.edit(tree(upstream), {"lib/deep/b.py": new, "x/y/z.py": new, "a.py": None})
    lines = [f"100644 {new.blob}\tlib/deep/b.py", f"100644 {new.blob}\tx/y/z.py", f"0 {'0' * 40}\ta.py"]
    index = {**os.environ, "GIT_INDEX_FILE": str(tmp_path / "index")}

    def plumb(command: str) -> str:
        arguments = ["git", "-C", upstream.path, *command.split()]
        text = "\n".join(lines)
        return subprocess.run(arguments, env=index, input=text, capture_output=True, text=True, check=True).stdout

    plumb("read-tree main")
    plumb("update-index --index-info")
    assert edited == plumb("write-tree").strip()


PATHS = (
    "a",
    "b/c",
    "b/d/e",
    "b/d/f",
    "b/d.py",
    "b-d",
    "g/h/i/j",
    "g/h/k",
)  # names that sort apart as files and folders
CHANGES = st.dictionaries(st.sampled_from(PATHS), st.one_of(st.none(), st.binary(max_size=2)))


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return create_repository(tmp_path_factory.mktemp("scratch"))


@given(edits=st.lists(CHANGES, max_size=6))
def test_edits_in_a_row_give_the_tree_of_the_files_that_are_left(
    scratch: Repository, edits: list[dict[str, bytes]]
) -> None:
    tree, files = EMPTY_TREE, dict[str, bytes]()
    for changes in edits:
        before = tree
        entries = {
            path: data is not None and Entry(0o100644, scratch.write_blob(data)) for path, data in changes.items()
        }
        tree = scratch.edit(tree, {path: entry or None for path, entry in entries.items()})
        changed = {path for path, data in changes.items() if files.get(path) != data}
        files = {path: data for path, data in (files | changes).items() if data is not None}
        assert {delta.path for delta in scratch.diff(before, tree)} == changed
    assert {path: scratch.read_blob(entry.blob) for path, entry in scratch.walk(tree)} == files
    assert tree == scratch.edit(EMPTY_TREE, dict(scratch.walk(tree)))


def test_a_folder_that_loses_its_last_file_vanishes_with_its_empty_parents(upstream: GitRepository) -> None:
    start = tree(upstream)
    added = upstream.objects.edit(start, {"p/q/r.py": blob(upstream, "")})
    assert upstream.objects.edit(added, {"p/q/r.py": None}) == start


def test_deleting_what_is_not_there_changes_nothing(upstream: GitRepository) -> None:
    assert upstream.objects.edit(tree(upstream), {"no/such.py": None, "neither": None}) == tree(upstream)


def test_a_folder_can_become_a_file_and_a_file_a_folder_in_one_edit(upstream: GitRepository) -> None:
    new = blob(upstream, "new\n")
    changes = {"lib": new, "lib/c.py": None, "lib/deep/b.py": None, "a.py": None, "a.py/inner": new}
    edited = upstream.objects.edit(tree(upstream), changes)
    assert upstream.objects.read(edited, "lib") == upstream.objects.read(edited, "a.py/inner") == b"new\n"


@pytest.mark.parametrize(
    "path",
    ["", "/etc/passwd", "../up", "lib/../../up", "lib//c.py", "./a.py", "lib/.", "lib/", "nul\0", ".git/config"],
)
def test_a_path_that_leaves_the_tree_or_reaches_git_is_refused(upstream: GitRepository, path: str) -> None:
    with pytest.raises(ValueError, match=r"part|relative|folder"):
        upstream.objects.edit(tree(upstream), {path: blob(upstream, "x")})


@pytest.mark.parametrize("name", [".git", ".GIT", ".git.", ".git ", "GIT~1", ".g\u200cit", ".git::$INDEX_ALLOCATION"])
def test_git_s_own_folder_is_refused_as_any_file_system_spells_it(upstream: GitRepository, name: str) -> None:
    for path in (f"{name}/config", f"lib/{name}/hooks/x", name):
        with pytest.raises(ValueError, match="own folder"):
            upstream.objects.edit(tree(upstream), {path: blob(upstream, "x")})


@pytest.mark.parametrize("path", ["link/c.py", "third/file", "a.py/below", "lib"])
def test_nothing_is_written_below_a_symlink_submodule_or_file_nor_over_a_folder(
    upstream: GitRepository, path: str
) -> None:
    with pytest.raises(ValueError, match="folder"):
        upstream.objects.edit(tree(upstream), {path: blob(upstream, "x")})


def test_a_mode_that_git_does_not_know_is_refused(upstream: GitRepository) -> None:
    with pytest.raises(ValueError, match="100600"):
        upstream.objects.edit(tree(upstream), {"a.py": Entry(0o100600, "1" * 40)})


def test_submodules_symlinks_and_executables_survive_and_can_be_set(upstream: GitRepository) -> None:
    moved = Entry(0o160000, "2" * 40)
    edited = upstream.objects.edit(
        tree(upstream), {"third": moved, "to": upstream.symlink("a.py"), "go": upstream.executable("")}
    )
    entries = dict(upstream.objects.walk(edited))
    assert (entries["third"], entries["to"].mode, entries["go"].mode) == (moved, 0o120000, 0o100755)
    assert entries["link"].mode == 0o120000


def test_a_diff_names_added_changed_deleted_and_retyped_paths(upstream: GitRepository) -> None:
    old = tree(upstream)
    new, link = blob(upstream, "new\n"), upstream.symlink("a.py")
    edited = upstream.objects.edit(old, {"a.py": new, "lib/c.py": None, "d/e.py": new, "run.sh": link})
    before = dict(upstream.objects.walk(old))
    assert upstream.objects.diff(old, edited) == (
        Delta("a.py", before["a.py"], new),
        Delta("d/e.py", None, new),
        Delta("lib/c.py", before["lib/c.py"], None),
        Delta("run.sh", before["run.sh"], link),
    )
    assert upstream.objects.diff(old, old) == ()


@pytest.mark.parametrize("revision", ["-x", "--all", "", "nobody", "main^{tree}", "main~99", "a\0b", "main..side", "["])
def test_what_names_no_commit_is_none(upstream: GitRepository, revision: str) -> None:
    assert upstream.objects.find_commit(revision) is None


def test_a_commit_is_found_by_branch_tag_short_id_and_expression(upstream: GitRepository) -> None:
    first = upstream.head()
    upstream.tag("v1.0", message="annotated")
    second = upstream.commit({"a.py": "a = 2\n"})
    find = upstream.objects.find_commit
    assert [find("main"), find("v1.0"), find(first[:10]), find("main^")] == [second, first, first, first]


def test_a_commit_tells_its_author_times_and_subject(upstream: GitRepository) -> None:
    record = upstream.objects.read_commit(upstream.commit({"a.py": "3"}, "one\ntwo\n\nbody"))
    assert (record.subject, record.author, record.commit_time) == (
        "one two",
        ("Ada Author", "ada@example.org"),
        START + 60,
    )


def test_history_between_two_commits_is_what_rev_list_says(upstream: GitRepository) -> None:
    good = upstream.head()
    upstream.branch("side")
    for number in range(3):
        upstream.commit({f"s{number}": ""}, branch="side")
        upstream.commit({f"m{number}": ""})
    bad = upstream.merge("side")
    upstream.commit({"after": ""})
    history = upstream.objects.parents_between(good, bad)
    listed = [line.split() for line in git(upstream, "rev-list", "--parents", f"{good}..{bad}").splitlines()]
    assert history == {commit: tuple(parents) for commit, *parents in listed}
    order = list(history)
    assert all(
        order.index(parent) < order.index(child) for child in order for parent in history[child] if parent in order
    )


def test_a_thousand_commits_in_a_row_come_in_order(tmp_path: Path) -> None:
    repository, commits = linear_history(tmp_path / "long", 1000)
    history = repository.objects.parents_between(commits[0], commits[-1])
    assert list(history) == commits[1:]
    assert list(history) == git(repository, "rev-list", "--reverse", f"{commits[0]}..main").split()
    assert repository.objects.is_ancestor(commits[0], commits[-1])
    assert not repository.objects.is_ancestor(commits[-1], commits[0])
    assert repository.objects.is_ancestor(commits[5], commits[5])


def test_tags_are_peeled_and_tags_of_blobs_left_out(upstream: GitRepository) -> None:
    upstream.tag("v1")
    upstream.tag("v2", message="annotated")
    git(upstream, "tag", "junk", "main:a.py")
    assert upstream.objects.tags() == {"v1": upstream.head(), "v2": upstream.head()}


def test_a_merge_gives_a_tree_or_the_paths_in_conflict(upstream: GitRepository) -> None:
    edit, start = upstream.objects.edit, tree(upstream)
    ours = edit(start, {"a.py": blob(upstream, "a = 2\n")})
    other = edit(start, {"lib/c.py": blob(upstream, "c = 2\n")})
    clash = edit(start, {"a.py": blob(upstream, "a = 3\n")})
    merged = upstream.objects.merge_trees(start, ours, other)
    assert merged.tree == edit(ours, {"lib/c.py": blob(upstream, "c = 2\n")})
    assert upstream.objects.merge_trees(start, ours, clash).conflicts == ("a.py",)


def test_a_merge_needs_no_file_that_neither_side_changed(upstream: GitRepository) -> None:
    """As in a partial clone: what is not there is the same on all sides."""
    lost = blob(upstream, "this will be lost\n")
    edit = upstream.objects.edit
    start = edit(tree(upstream), {"lib/lost.bin": lost, "lib/other.py": blob(upstream, "o = 1\n")})
    ours = edit(start, {"a.py": blob(upstream, "a = 2\n")})
    other = edit(start, {"lib/c.py": blob(upstream, "c = 2\n"), "lib/other.py": None})
    (upstream.path / "objects" / lost.blob[:2] / lost.blob[2:]).unlink()
    merged = Repository(upstream.path).merge_trees(start, ours, other)
    kept = dict(Repository(upstream.path).walk(str(merged.tree)))
    wanted = dict(Repository(upstream.path).walk(ours)) | {"lib/c.py": kept["lib/c.py"]}
    del wanted["lib/other.py"]
    assert kept == wanted
    assert kept["lib/lost.bin"] == lost


def test_equal_commits_get_equal_ids_on_every_machine(tmp_path: Path) -> None:
    repository = create_repository(tmp_path / "new")
    empty = repository.edit(EMPTY_TREE, {})
    commit = repository.create_commit(empty, (), "release 1.0\n", START)
    assert commit == "7b2d497114014f9de88b7430e511a480eb0947c0"
    repository.set_ref("refs/tags/v1.0", commit)
    assert repository.find_ref("refs/tags/v1.0") == create_repository(repository.path).find_commit("v1.0") == commit


def test_one_repository_serves_threads_and_survives_pickling(upstream: GitRepository) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: upstream.objects.find_commit("main"), range(40)))
    copy: Repository = pickle.loads(pickle.dumps(upstream.objects))
    assert found == {copy.find_commit("main")} == {upstream.head()}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_store_of_another_user_is_read(upstream: GitRepository) -> None:
    os.chown(upstream.path, 4242, 4242)
    assert Repository(upstream.path).find_commit("main") == upstream.head()
