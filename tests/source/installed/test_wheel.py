"""Wheels are read without unpacking; whatever could write outside, or is not what its RECORD says, is refused."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

import pytest

from patchkit.errors import RequestError
from patchkit.source.installed.wheel import read_wheel
from tests.support.wheels import FILES, make_wheel


def add(wheel: Path, name: str, data: bytes = b"x", mode: int = 0) -> None:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr(info, data)


def test_a_wheel_is_read_with_its_text_files(tmp_path: Path) -> None:
    wheel = read_wheel(make_wheel(tmp_path))
    assert (wheel.distribution.label, wheel.distribution.tops) == ("vllm 0.26.0", frozenset({"vllm"}))
    assert wheel.contents == {path: text.encode() for path, text in FILES.items() if not path.endswith(".so")}


@pytest.mark.parametrize("name", ["../evil.py", "/etc/evil", "vllm/../../evil", "vllm/.git/hooks/x", "vllm\\..\\evil"])
def test_a_path_out_of_the_wheel_is_refused(tmp_path: Path, name: str) -> None:
    path = make_wheel(tmp_path)
    add(path, name)
    with pytest.raises(RequestError, match="refused"):
        read_wheel(path)


def test_a_link_is_refused(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    add(path, "vllm/link", b"/etc/passwd", stat.S_IFLNK | 0o777)
    with pytest.raises(RequestError, match="neither file nor folder"):
        read_wheel(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    add(path, "vllm/x.py")
    with pytest.raises(RequestError, match="is there twice"):
        read_wheel(path)


def test_a_wheel_with_other_files_than_its_record_lists_is_refused(tmp_path: Path) -> None:
    good = make_wheel(tmp_path)
    bad = tmp_path / "bad" / good.name
    bad.parent.mkdir()
    with zipfile.ZipFile(good) as source, zipfile.ZipFile(bad, "w") as target:
        for name in source.namelist():
            target.writestr(name, b"mine" if name == "vllm/x.py" else source.read(name))
    with pytest.raises(RequestError, match=r"not the files of vllm 0\.26\.0: vllm/x\.py"):
        read_wheel(bad)


def test_a_signed_wheel_is_refused(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    add(path, "vllm-0.26.0.dist-info/RECORD.jws")
    with pytest.raises(RequestError, match="is signed"):
        read_wheel(path)


def test_two_distributions_in_one_wheel_are_refused(tmp_path: Path) -> None:
    path = make_wheel(tmp_path)
    add(path, "other-1.dist-info/METADATA")
    with pytest.raises(RequestError, match="2 dist-info folders"):
        read_wheel(path)


@pytest.mark.parametrize("name", ["vllm.whl", "vllm-0.27.0-py3-none-any.whl", "torch-0.26.0-py3-none-any.whl"])
def test_a_name_that_is_not_that_of_the_wheel_is_refused(tmp_path: Path, name: str) -> None:
    path = make_wheel(tmp_path).rename(tmp_path / name)
    with pytest.raises(RequestError, match="name"):
        read_wheel(path)


@pytest.mark.parametrize("cut", [0, 40, 400])
def test_a_wheel_that_is_cut_off_is_refused(tmp_path: Path, cut: int) -> None:
    path = make_wheel(tmp_path)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(RequestError, match="no wheel that can be read"):
        read_wheel(path)
