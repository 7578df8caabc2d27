"""A tree on disk is exactly the tree, and writing it never leaves the folder.

The lie this prevents: a probe that runs on files of two trees, or a link in a tree that writes elsewhere.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from patchkit.environment.folder import sync_tree, write_tree
from patchkit.errors import BuildFailed, RequestError, StoreFailure
from patchkit.tools.git.objects import Entry, Repository
from tests.support.repositories import GitRepository


def content_of(folder: Path) -> dict[str, str]:
    """Return every file (a link as `-> target`) and every empty folder (as `/`)."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        elif path.is_dir():
            if not any(path.iterdir()):
                found[name] = "/"
        else:
            found[name] = path.read_text()
    return found


@pytest.fixture
def upstream(tmp_path: Path) -> GitRepository:
    return GitRepository(tmp_path / "upstream")


def test_files_modes_links_and_submodules_are_written(upstream: GitRepository, tmp_path: Path) -> None:
    files = {
        "pkg/a.py": "x = 1\n",
        "run.sh": upstream.executable("#!/bin/sh\n"),
        "pkg/link.py": upstream.symlink("a.py"),
        "third/party": Entry(0o160000, "1" * 40),
    }
    tree = upstream.tree_of(upstream.commit(files))
    write_tree(upstream.objects, tree, tmp_path / "out")
    assert content_of(tmp_path / "out") == {
        "pkg/a.py": "x = 1\n",
        "pkg/link.py": "-> a.py",
        "run.sh": "#!/bin/sh\n",
        "third/party": "/",
    }
    assert (tmp_path / "out/run.sh").stat().st_mode & stat.S_IXUSR
    assert not (tmp_path / "out/pkg/a.py").stat().st_mode & stat.S_IXUSR


def test_a_folder_that_holds_something_is_left_alone(upstream: GitRepository, tmp_path: Path) -> None:
    tree = upstream.tree_of(upstream.commit({"a.py": "x = 1\n"}))
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine.txt").write_text("mine")
    with pytest.raises(RequestError, match="is there already"):
        write_tree(upstream.objects, tree, tmp_path / "out")
    assert content_of(tmp_path / "out") == {"mine.txt": "mine"}


@pytest.mark.parametrize(
    "links",
    [
        {"a/out": "../../outside"},
        {"out": "/etc"},
        # each link on its own stays inside; followed through the other it does not
        {"a/b/down": "../../c", "up": "a/b/down/../.."},
    ],
)
def test_a_link_that_leaves_the_tree_is_refused(links: dict[str, str], upstream: GitRepository, tmp_path: Path) -> None:
    files = {"c/file": "", "a/b/file": "", **{path: upstream.symlink(target) for path, target in links.items()}}
    tree = upstream.tree_of(upstream.commit(files))
    with pytest.raises(BuildFailed, match="leaves the tree"):
        write_tree(upstream.objects, tree, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["upstream"]


def test_a_link_that_loops_is_only_a_broken_link(upstream: GitRepository, tmp_path: Path) -> None:
    tree = upstream.tree_of(upstream.commit({"a": upstream.symlink("b"), "b": upstream.symlink("a")}))
    write_tree(upstream.objects, tree, tmp_path / "out")
    assert content_of(tmp_path / "out") == {"a": "-> b", "b": "-> a"}


def test_a_file_is_not_written_through_a_link_of_the_earlier_tree(upstream: GitRepository, tmp_path: Path) -> None:
    first = upstream.tree_of(upstream.commit({"real/a.py": "x = 1\n", "pkg": upstream.symlink("real")}))
    second = upstream.tree_of(upstream.commit({"pkg": None}) and upstream.commit({"pkg/a.py": "x = 2\n"}))
    root = tmp_path / "out"
    write_tree(upstream.objects, first, root)
    sync_tree(upstream.objects, second, root)
    assert content_of(root) == {"real/a.py": "x = 1\n", "pkg/a.py": "x = 2\n"}


def test_syncing_puts_right_whatever_a_probe_left_and_touches_nothing_else(
    upstream: GitRepository, tmp_path: Path
) -> None:
    files = {"pkg/a.py": "x = 1\n", "pkg/b.py": "x = 1\n", "pkg/c.py": "x = 1\n", "sub/d.py": "x = 1\n", "keep.py": ""}
    tree = upstream.tree_of(upstream.commit(files))
    root = tmp_path / "out"
    write_tree(upstream.objects, tree, root)
    outside = tmp_path / "outside"
    outside.mkdir()
    kept = (root / "keep.py").stat()
    (root / "pkg/a.py").write_text("x = 2\n")
    (root / "pkg/b.py").unlink()
    (root / "pkg/b.py").mkdir()
    (root / "pkg/c.py").chmod(0o755)
    (root / "sub/d.py").unlink()
    (root / "sub").rmdir()
    (root / "sub").symlink_to(outside)
    (root / "stray/deep").mkdir(parents=True)
    (root / "stray/deep/e.py").write_text("")
    os.mkfifo(root / "fifo")
    sync_tree(upstream.objects, tree, root)
    assert content_of(root) == files
    assert list(outside.iterdir()) == []
    now = (root / "keep.py").stat()
    assert (now.st_ino, now.st_mtime_ns, now.st_ctime_ns) == (kept.st_ino, kept.st_mtime_ns, kept.st_ctime_ns)


def test_a_mirror_that_lacks_a_file_is_told_and_leaves_no_half_tree(tmp_path: Path) -> None:
    upstream = GitRepository(tmp_path / "upstream")
    tree = upstream.tree_of(upstream.commit({"a.py": "a = 1\n", "b.py": "b = 1\n"}))
    entry = upstream.objects.entry(tree, "b.py")
    assert entry is not None
    (upstream.path / "objects" / entry.blob[:2] / entry.blob[2:]).unlink()
    with pytest.raises(StoreFailure, match=r"b\.py: its content \w{12} is not in"):
        write_tree(Repository(upstream.path), tree, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("path", ["n" * 256, "é" * 128, "/".join(["d" * 200] * 20)])
def test_a_name_that_no_disk_takes_is_wrong_with_the_tree_and_not_with_the_store(
    path: str, upstream: GitRepository, tmp_path: Path
) -> None:
    tree = upstream.tree_of(upstream.commit({f"pkg/{path}": ""}))
    with pytest.raises(BuildFailed, match="more than"):
        write_tree(upstream.objects, tree, tmp_path / "out")
    assert not (tmp_path / "out").exists()
