"""Trees in our own hands: what git reads and writes is what is read and written here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patchkit.tools.git.objects import Delta, Entry, Repository, create_repository
from patchkit.tools.git.raw.trees import format_folder, parse_folder

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
PATHS = ("a", "a.py", "a/b", "a/b.py", "a/b/c", "a-b", "a0", "z/y/x", "z/y", "z", "nä/x")
MODES = st.sampled_from([0o100644, 0o100755, 0o120000, 0o160000])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return create_repository(tmp_path_factory.mktemp("store"))


def git(store: Repository, *arguments: str, text: bytes = b"") -> bytes:
    command = ["git", "--git-dir", str(store.path), *arguments]
    return subprocess.run(command, input=text, capture_output=True, check=True).stdout


@st.composite
def file_sets(draw: st.DrawFn) -> dict[str, tuple[int, bytes]]:
    """Return files none of which lies below another."""
    files: dict[str, tuple[int, bytes]] = {}
    for path in draw(st.lists(st.sampled_from(PATHS), unique=True)):
        if not any(path.startswith(f"{other}/") or other.startswith(f"{path}/") for other in files):
            files[path] = (draw(MODES), draw(st.binary(max_size=1)))
    return files


def make(store: Repository, files: dict[str, tuple[int, bytes]]) -> str:
    entries = {}
    for path, (mode, data) in files.items():
        entries[path] = Entry(mode, data.hex().rjust(40, "1") if mode == 0o160000 else store.write_blob(data))
    return store.edit(EMPTY_TREE, entries)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(old=file_sets(), new=file_sets())
def test_two_trees_differ_as_git_says(
    store: Repository, old: dict[str, tuple[int, bytes]], new: dict[str, tuple[int, bytes]]
) -> None:
    trees = make(store, old), make(store, new)
    raw = git(store, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", *trees).split(b"\0")[:-1]
    said = []
    for head, path in zip(raw[::2], raw[1::2], strict=True):
        modes, blobs = (head[1:].decode().split()[part] for part in (slice(0, 2), slice(2, 4)))
        sides = [Entry(int(mode, 8), blob) if int(mode, 8) else None for mode, blob in zip(modes, blobs, strict=True)]
        said.append(Delta(path.decode(), *sides))
    assert list(store.diff(*trees)) == said


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(files=file_sets())
def test_a_tree_is_the_one_that_git_makes_of_the_same_files(
    store: Repository, files: dict[str, tuple[int, bytes]]
) -> None:
    tree = make(store, files)
    assert git(store, "fsck", "--strict", "--no-dangling", tree) == b""
    listed = git(store, "ls-tree", "-r", "-z", tree).decode().split("\0")[:-1]
    walked = list(store.walk(tree))
    assert [line.split("\t")[1] for line in listed] == [path for path, _ in walked]
    assert [line.split()[2] for line in listed] == [entry.blob for _, entry in walked]


def test_modes_of_old_programs_are_read_as_git_does_and_kept(store: Repository) -> None:
    blob = store.write_blob(b"x\n")
    text = f"100664 blob {blob}\told\n100755 blob {blob}\trun\n".encode()
    tree = git(store, "mktree", text=text).decode().strip()
    kept = git(store, "cat-file", "tree", tree)
    assert kept.startswith((b"100664 old\0", b"100644 old\0"))
    written = git(store, "hash-object", "-t", "tree", "-w", "--stdin", "--literally", text=b"100664 old\0" + b"\1" * 20)
    odd = written.decode().strip()
    assert store.entry(odd, "old") == Entry(0o100644, "01" * 20)
    edited = store.edit(odd, {"new": Entry(0o100644, blob)})
    assert git(store, "cat-file", "tree", edited).endswith(b"100664 old\0" + b"\1" * 20)


def test_a_name_that_is_no_utf_8_is_walked_and_found(store: Repository, tmp_path: Path) -> None:
    blob = store.write_blob(b"x\n")
    tree = git(store, "mktree", "-z", text=f"100644 blob {blob}\t".encode() + b"caf\xe9\0").decode().strip()
    ((path, entry),) = store.walk(tree)
    assert path.encode("utf-8", "surrogateescape") == b"caf\xe9"
    assert store.entry(tree, path) == entry
    assert store.list_folder(tree, "") == (path,)


@pytest.mark.parametrize(
    "junk", [b"\0", b"100644 x\0short", b"no mode\0" + b"1" * 20, b"100644 x\0" + b"1" * 20 + b"."]
)
def test_bytes_that_are_no_tree_are_refused(junk: bytes) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        parse_folder(junk)


def test_a_folder_is_written_as_it_was_read() -> None:
    data = b"100644 a.b\0" + b"1" * 20 + b"40000 a\0" + b"2" * 20 + b"120000 b\0" + b"\0" * 20
    assert format_folder(parse_folder(data)) == data
