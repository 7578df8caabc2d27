"""An archive from the network is the one input that strangers write: what is not a plain source tree is refused."""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from patchkit.errors import RemoteUnavailable
from patchkit.source import archive as archive_module
from patchkit.source.archive import Member, read_archive
from tests.support.packages import BUILT, make_archive, make_sdist, tar_member

GOOD = tar_member("demo-1.0/a.py", b"a = 1\n")


def read(tmp_path: Path, data: bytes) -> list[Member]:
    path = tmp_path / "demo-1.0.tar.gz"
    path.write_bytes(data)
    return list(read_archive(path))


def refuse(tmp_path: Path, members: Sequence[tuple[tarfile.TarInfo, bytes]], why: str) -> None:
    with pytest.raises(RemoteUnavailable, match=why) as caught:
        read(tmp_path, make_archive([GOOD, *members]))
    assert caught.value.message.startswith("demo-1.0.tar.gz: ")


def test_files_come_in_order_below_the_top_folder_with_mode_and_time(tmp_path: Path) -> None:
    found = read(tmp_path, make_sdist("demo", "1.0", {"src/a.py": "a = 1\n", "run.sh": "#!/bin/sh\n"}))
    assert [(member.path, member.mode, member.time) for member in found] == [
        ("PKG-INFO", 0o100644, BUILT),
        ("src/a.py", 0o100644, BUILT - 60),
        ("run.sh", 0o100755, BUILT - 60),
    ]
    assert found[1].data == b"a = 1\n"


def test_a_link_inside_the_tree_is_kept_and_a_hard_link_names_its_file(tmp_path: Path) -> None:
    soft = tar_member("demo-1.0/lib/link", type=tarfile.SYMTYPE, linkname="../a.py")
    hard = tar_member("demo-1.0/copy.py", type=tarfile.LNKTYPE, linkname="demo-1.0/a.py")
    _, link, copy = read(tmp_path, make_archive([GOOD, soft, hard]))
    assert (link.mode, link.data, copy.link) == (0o120000, b"../a.py", "a.py")


@pytest.mark.parametrize(
    "name",
    ["../evil", "demo-1.0/../../evil", "/etc/evil", "demo-1.0/./x", "demo-1.0//x", "demo-1.0/.git/config", ".."],
)
def test_a_name_that_leaves_the_tree_or_reaches_git_is_refused(tmp_path: Path, name: str) -> None:
    refuse(tmp_path, [tar_member(name, b"x")], r"part|relative|own folder")
    refuse(tmp_path, [tar_member(name, type=tarfile.DIRTYPE)], r"part|relative|own folder")


@pytest.mark.parametrize("target", ["/etc/passwd", "../../x", "..", "a/../../../x", "../../demo-1.0/a.py"])
def test_a_symlink_out_of_the_tree_is_refused(tmp_path: Path, target: str) -> None:
    name = "demo-1.0/lib/link" if target != ".." else "demo-1.0/link"
    refuse(tmp_path, [tar_member(name, type=tarfile.SYMTYPE, linkname=target)], "symbolic link out of the tree")


@pytest.mark.parametrize("target", ["/etc/passwd", "demo-1.0/later.py", "other/a.py", "demo-1.0/link", "a.py"])
def test_a_hard_link_to_no_earlier_file_is_refused(tmp_path: Path, target: str) -> None:
    link = tar_member("demo-1.0/link", type=tarfile.SYMTYPE, linkname="a.py")
    hard = tar_member("demo-1.0/hard", type=tarfile.LNKTYPE, linkname=target)
    refuse(tmp_path, [link, hard, tar_member("demo-1.0/later.py", b"")], "no earlier file")


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_a_device_or_pipe_is_refused(tmp_path: Path, kind: bytes) -> None:
    refuse(tmp_path, [tar_member("demo-1.0/device", type=kind)], "neither file, folder nor link")


@pytest.mark.parametrize("date", ["inf", "nan", "1e30"])
def test_a_date_that_cannot_be_is_refused(tmp_path: Path, date: str) -> None:
    refuse(tmp_path, [tar_member("demo-1.0/b", pax_headers={"mtime": date})], "date|infinity|NaN")


def test_headers_of_headers_of_headers_are_refused(tmp_path: Path) -> None:
    refuse(tmp_path, [tar_member("demo-1.0/b", b"x", type=tarfile.GNUTYPE_LONGNAME)] * 2000, "recursion")


def test_a_second_top_folder_or_a_file_beside_it_is_refused(tmp_path: Path) -> None:
    refuse(tmp_path, [tar_member("other-1.0/a.py", b"")], "outside the top folder demo-1.0")
    refuse(tmp_path, [tar_member("setup.py", b"")], "outside the top folder demo-1.0")
    with pytest.raises(RemoteUnavailable, match="in no top folder"):
        read(tmp_path, make_archive([tar_member("setup.py", b"")]))


def test_a_path_named_twice_is_refused(tmp_path: Path) -> None:
    refuse(tmp_path, [GOOD], "is there twice")
    refuse(tmp_path, [tar_member("demo-1.0/a.py", type=tarfile.SYMTYPE, linkname="b.py")], "is there twice")


@pytest.mark.parametrize("first", [True, False])
def test_a_file_below_a_file_or_link_is_refused(tmp_path: Path, first: bool) -> None:
    link = tar_member("demo-1.0/lib", type=tarfile.SYMTYPE, linkname="elsewhere")
    below = tar_member("demo-1.0/lib/a.py", b"")
    refuse(tmp_path, [link, below] if first else [below, link], "something lies below it")
    refuse(tmp_path, [tar_member("demo-1.0/a.py", type=tarfile.DIRTYPE)], "something lies below it")


def test_an_archive_of_no_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RemoteUnavailable, match="holds no files"):
        read(tmp_path, make_archive([tar_member("demo-1.0", type=tarfile.DIRTYPE)]))


def test_an_archive_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = make_sdist("demo", "1.0", {f"{number}.py": "x" * 700 for number in range(9)})
    plain = gzip.decompress(whole)
    blocks = -(-len(plain.rstrip(b"\0")) // 512) + 2  # two blocks of zeros end it, and what comes after is padding
    for end in range(0, blocks * 512, 512):  # at every block, so also exactly between two members
        with pytest.raises(RemoteUnavailable, match=r"demo-1\.0\.tar\.gz"):
            read(tmp_path, gzip.compress(plain[:end]))
    for end in range(0, len(whole), 37):
        with pytest.raises(RemoteUnavailable, match=r"demo-1\.0\.tar\.gz"):
            read(tmp_path, whole[:end])


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    for data in (b"<html>not found</html>", gzip.compress(b"text" * 1000), b""):
        with pytest.raises(RemoteUnavailable):
            read(tmp_path, data)


def test_an_archive_that_unpacks_to_too_much_is_refused_before_it_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_module, "TOTAL_LIMIT", 1 << 20)
    refuse(tmp_path, [tar_member("demo-1.0/zeros", bytes(2 << 20))], "unpacks to more than 1 MiB")
    monkeypatch.setattr(archive_module, "MEMBERS_LIMIT", 3)
    refuse(tmp_path, [tar_member(f"demo-1.0/{number}") for number in range(3)], "more than 3 members")


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_a_header_that_would_fill_the_memory_is_refused_before_it_is_read(tmp_path: Path, kind: bytes) -> None:
    with pytest.raises(RemoteUnavailable, match="has a header of 2000000 bytes"):
        read(tmp_path, make_archive([GOOD, tar_member("x", b"A" * 2_000_000, type=kind)]))


def test_a_file_that_would_fill_the_memory_is_refused_and_no_message_is_endless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_module, "MEMBER_LIMIT", 1000)
    refuse(tmp_path, [tar_member("demo-1.0/b.py", b"x" * 1001)], "is larger than 0 MiB")
    with pytest.raises(RemoteUnavailable) as caught:
        read(tmp_path, make_archive([GOOD, tar_member(f"demo-1.0/../{'n' * 100_000}")]))
    assert len(caught.value.message) < 500
