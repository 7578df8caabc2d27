"""The patched wheel: installable by pip under a version of its own, equal bytes for equal inputs, RECORD right."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from patchkit.environment.installed.wheel import Repack, check_target, choose_target, write_wheel
from patchkit.errors import RequestError
from patchkit.source.installed.wheel import read_wheel
from tests.support.wheels import FILES, make_wheel

TREE = "0123456789abcdef0123456789abcdef01234567"
CHANGES = {"vllm/x.py": b"two = 22\n", "vllm/new.py": b"new\n", "vllm/sub/y.py": None}


def write(path: Path, out: Path) -> Path:
    wheel = read_wheel(path)
    target, version = choose_target(wheel, out, TREE)
    write_wheel(Repack(wheel, version, CHANGES), b"{}\n", target)
    return target


def test_the_new_wheel_holds_the_changes_and_its_record_agrees(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    target = write(make_wheel(tmp_path), tmp_path / "out")
    assert target.name == "vllm-0.26.0+patchkit.p0123456789ab-py3-none-any.whl"
    wheel = read_wheel(target)  # compares every file with RECORD
    expected = {path: text.encode() for path, text in FILES.items() if path not in CHANGES and not path.endswith(".so")}
    assert wheel.contents == {**expected, "vllm/x.py": b"two = 22\n", "vllm/new.py": b"new\n"}
    assert wheel.distribution.version == "0.26.0+patchkit.p0123456789ab"
    with zipfile.ZipFile(target) as archive:
        assert archive.testzip() is None
        assert archive.read("vllm/_C.abi3.so") == FILES["vllm/_C.abi3.so"].encode()
        assert b"\n\nVersion: prose\n" in archive.read(f"{wheel.distribution.info}/METADATA")
        listed = {row.path for row in wheel.distribution.rows}
        assert listed == set(archive.namelist())


def test_equal_inputs_give_equal_bytes_whatever_the_clock_says(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    wheel = make_wheel(tmp_path)
    first = write(wheel, tmp_path / "a").read_bytes()
    wheel.touch()
    assert write(wheel, tmp_path / "b").read_bytes() == first


def test_what_does_not_change_is_copied_as_it_is_packed(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    (tmp_path / "out").mkdir()
    target = write(wheel, tmp_path / "out")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(target) as new:
        before, after = old.getinfo("vllm/__init__.py"), new.getinfo("vllm/__init__.py")
    assert (after.compress_type, after.CRC, after.compress_size, after.date_time) == (
        before.compress_type,
        before.CRC,
        before.compress_size,
        before.date_time,
    )


def test_pip_installs_checks_and_removes_it(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    target = write(make_wheel(tmp_path), tmp_path / "out")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    site = tmp_path / "site"
    install = [*pip, "install", "-q", "--no-deps", "--no-index", "--target", str(site), str(target)]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    listed = subprocess.run([*pip, "list", "--path", str(site)], capture_output=True, text=True, check=True).stdout
    assert "0.26.0+patchkit.p0123456789ab" in listed
    assert (site / "vllm/x.py").read_text() == "two = 22\n"


@pytest.mark.parametrize(
    ("version", "expected"),
    [("0.26.0", "0.26.0+patchkit.p0123456789ab"), ("0.26.0+cu129", "0.26.0+cu129.patchkit.p0123456789ab")],
)
def test_a_local_version_is_added_to_the_one_there_is(tmp_path: Path, version: str, expected: str) -> None:
    wheel = read_wheel(make_wheel(tmp_path, version=version))
    assert choose_target(wheel, tmp_path, TREE)[1] == expected


def test_a_name_decides_the_local_version(tmp_path: Path) -> None:
    wheel = read_wheel(make_wheel(tmp_path))
    out = tmp_path / "vllm-0.26.0+mine.1-py3-none-any.whl"
    assert choose_target(wheel, out, TREE) == (out, "0.26.0+mine.1")


@pytest.mark.parametrize(
    "name",
    [
        "vllm-0.26.0-py3-none-any.whl",
        "vllm-0.27.0+mine-py3-none-any.whl",
        "vllm-0.26.0+mine-cp312-none-any.whl",
        "torch-0.26.0+mine-py3-none-any.whl",
        "patched.whl",
    ],
)
def test_a_name_that_pip_would_refuse_or_take_for_upstream_s_is_refused(tmp_path: Path, name: str) -> None:
    wheel = read_wheel(make_wheel(tmp_path / "in"))
    with pytest.raises(RequestError, match="name"):
        choose_target(wheel, tmp_path / name, TREE)


def test_only_a_wheel_of_ours_is_replaced(tmp_path: Path) -> None:
    source = make_wheel(tmp_path)
    (tmp_path / "out").mkdir()
    ours = write(source, tmp_path / "out")
    check_target(source, ours)
    check_target(source, tmp_path / "nothing.whl")
    theirs = make_wheel(tmp_path / "theirs")
    for target in (source, theirs, Path(__file__)):
        with pytest.raises(RequestError):
            check_target(source, target)
