"""Packs: git finds in them what was put in, and nothing is left behind when a disk is full."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from patchkit.tools.git.objects import Repository, create_repository
from patchkit.tools.git.raw.packs import BLOB, COMMIT, TREE, RawObject, object_id, write_pack
from tests.support.disks import small_disk

SIZES = (0, 1, 15, 16, 17, 2047, 2048, 2049, 65535, 65536, 300_000)


@pytest.fixture
def store(tmp_path: Path) -> Repository:
    return create_repository(tmp_path / "store")


def git(store: Repository, *arguments: str) -> bytes:
    return subprocess.run(["git", "--git-dir", store.path, *arguments], capture_output=True, check=True).stdout


def packs(store: Repository) -> Path:
    return store.path / "objects" / "pack"


def named(kind: int, data: bytes) -> tuple[str, RawObject]:
    return object_id(kind, data), RawObject(kind, data)


def test_git_reads_every_object_of_a_pack_and_finds_no_fault(store: Repository) -> None:
    blobs = [named(BLOB, bytes([size % 251]) * size) for size in SIZES]
    tree = named(TREE, b"".join(b"100644 %03d\0%s" % (size, bytes.fromhex(key)) for size, (key, _) in enumerate(blobs)))
    text = f"tree {tree[0]}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nfirst\n".encode()
    commit = named(COMMIT, text)
    write_pack(packs(store), [commit, tree, *blobs])
    for size, (key, one) in zip(SIZES, blobs, strict=True):
        assert git(store, "cat-file", "blob", key) == one.data == store.read_blob(key)
        assert len(one.data) == size
    store.set_ref("refs/heads/main", commit[0])
    assert git(store, "log", "--format=%T %s", "main").split() == [tree[0].encode(), b"first"]
    (index,) = packs(store).glob("*.idx")
    assert b": ok" in git(store, "verify-pack", "-v", str(index))
    assert git(store, "fsck", "--full", "--strict") == b""
    assert git(store, "gc", "-q", "--prune=now") == b""
    assert store.read_commit(commit[0]).subject == "first"


def test_the_same_objects_in_any_order_are_the_same_pack(store: Repository) -> None:
    some = [named(BLOB, b"%d" % number) for number in range(300)]
    write_pack(packs(store), some)
    before = {path.name: path.stat().st_mtime_ns for path in packs(store).iterdir()}
    write_pack(packs(store), some[::-1])
    assert {path.name: path.stat().st_mtime_ns for path in packs(store).iterdir()} == before
    assert sorted(path.suffix for path in packs(store).iterdir()) == [".idx", ".pack"]
    assert all(path.stat().st_mode & 0o777 == 0o444 for path in packs(store).iterdir()) or os.umask(0o22) != 0o22


def test_a_full_disk_leaves_no_half_pack(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1 << 10) as disk:
        folder = disk / "pack"
        with pytest.raises(OSError, match="No space"):
            write_pack(folder, [named(BLOB, os.urandom(4 << 20))])
        assert list(folder.iterdir()) == []
