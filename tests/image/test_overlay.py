from __future__ import annotations

import io
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from patchkit.errors import BuildFailed, RequestError
from patchkit.image.listing import Folder, Listing
from patchkit.image.overlay import (
    BARE_ROOT,
    LayerContent,
    OverlayFile,
    check_version,
    hide_paths,
    select_overlay,
    write_layer,
)
from tests.image.plans import ROOT, TIME, make_plan
from tests.support.repositories import GitRepository

PYC = f"{ROOT}/vllm/__pycache__"


def listing(*files: str, versions: tuple[str, ...] = ("0.26.0",)) -> Listing:
    return Listing(ROOT, versions, {}, frozenset(files))


def test_only_changed_files_of_the_package_go_over_a_base(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, {"vllm/envs.py": "A = 2\n", "vllm/new.py": "", "tests/test_envs.py": "x"})
    overlay = select_overlay(plan, listing(f"{ROOT}/vllm/envs.py"))
    assert [file.path for file in overlay.files] == [f"{ROOT}/vllm/envs.py", f"{ROOT}/vllm/new.py"]
    assert overlay.files[0].data == b"A = 2\n"
    assert overlay.left_out == ("tests/test_envs.py",)


def test_without_a_base_the_whole_patched_package_is_there(tmp_path: Path) -> None:
    overlay = select_overlay(make_plan(tmp_path, {"vllm/envs.py": "A = 2\n", "vllm/old.py": None}), None)
    names = ["vllm/__init__.py", "vllm/envs.py", "vllm/sub/op.py"]
    assert [file.path for file in overlay.files] == [f"{BARE_ROOT}/{name}" for name in names]
    assert overlay.removed == overlay.stale == ()


def test_native_files_are_told_apart(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, {"csrc/op.cu": "x", "docs/a.md": "x", "vllm/kernel.cuh": "x", "setup.py": "x"})
    overlay = select_overlay(plan, listing())
    assert overlay.native == ("csrc/op.cu", "setup.py", "vllm/kernel.cuh")
    assert overlay.left_out == ("csrc/op.cu", "docs/a.md", "setup.py")


def test_a_deleted_file_is_removed_only_if_the_base_has_it(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, {"vllm/old.py": None, "vllm/sub/op.py": None})
    assert select_overlay(plan, listing(f"{ROOT}/vllm/old.py")).removed == (f"{ROOT}/vllm/old.py",)


def test_byte_code_of_replaced_and_deleted_modules_is_stale(tmp_path: Path) -> None:
    base = listing(
        f"{ROOT}/vllm/old.py",
        f"{PYC}/envs.cpython-312.pyc",
        f"{PYC}/envs.cpython-312.opt-2.pyc",
        f"{PYC}/envs_other.cpython-312.pyc",
        f"{PYC}/old.cpython-312.pyc",
        f"{ROOT}/vllm/old.pyc",
    )
    overlay = select_overlay(make_plan(tmp_path, {"vllm/envs.py": "A = 2\n", "vllm/old.py": None}), base)
    stale = {f"{PYC}/envs.cpython-312.pyc", f"{PYC}/envs.cpython-312.opt-2.pyc", f"{PYC}/old.cpython-312.pyc"}
    assert set(overlay.stale) == stale | {f"{ROOT}/vllm/old.pyc"}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"vllm/old.py": None, "vllm/old.py/inner.py": "x"}, id="a folder where a file was"),
        pytest.param({"vllm/sub/op.py": None, "vllm/sub": "x"}, id="a file where a folder was"),
    ],
)
def test_no_whiteout_hides_what_is_added(tmp_path: Path, changes: dict[str, str | None]) -> None:
    plan = make_plan(tmp_path, changes)
    overlay = select_overlay(plan, listing(f"{ROOT}/vllm/old.py", f"{ROOT}/vllm/sub/op.py"))
    assert overlay.removed == ()
    assert len(overlay.files) == 1


def hidden(tmp_path: Path, changes: dict[str, str | None], *files: str) -> list[str]:
    base = listing(*(f"{ROOT}/vllm/{name}" for name in files))
    paths = hide_paths(select_overlay(make_plan(tmp_path, changes), base), base)
    return [path.removeprefix(f"{ROOT}/vllm/") for path in paths]


@pytest.mark.parametrize(
    ("changes", "files", "expected"),
    [
        pytest.param({"vllm/sub/op.py": None}, ["sub/op.py", "envs.py"], ["sub"], id="the last file"),
        pytest.param({"vllm/sub/op.py": None}, ["sub/op.py", "sub/x.so"], ["sub/op.py"], id="not the last file"),
        pytest.param(
            {"vllm/sub/op.py": None},
            ["sub/op.py", "sub/__pycache__/op.cpython-312.pyc", "envs.py"],
            ["sub"],
            id="the last module and its byte code",
        ),
        pytest.param(
            {"vllm/sub/op.py": None, "vllm/sub/new.py": ""},
            ["sub/op.py", "sub/__pycache__/op.cpython-312.pyc"],
            ["sub/__pycache__", "sub/op.py"],
            id="one goes, one comes",
        ),
        pytest.param(
            {"vllm/sub/op.py": None, "vllm/sub": "x"},
            ["sub/op.py", "sub/__pycache__/op.cpython-312.pyc", "envs.py"],
            [],
            id="a file where the folder was",
        ),
        pytest.param(
            {"vllm/old.py": None, "vllm/old.py/inner.py": "x"},
            ["old.py", "__pycache__/old.cpython-312.pyc", "envs.py"],
            ["__pycache__"],
            id="a folder where a file was",
        ),
    ],
)
def test_what_loses_all_it_has_is_hidden_whole(
    tmp_path: Path, changes: dict[str, str | None], files: list[str], expected: list[str]
) -> None:
    assert hidden(tmp_path, changes, *files) == expected


def test_a_base_that_tells_no_files_loses_no_folder(tmp_path: Path) -> None:
    base = Listing(ROOT, (), {}, None)
    overlay = select_overlay(make_plan(tmp_path, {"vllm/sub/op.py": None}), base)
    assert hide_paths(overlay, base) == (f"{ROOT}/vllm/sub/op.py",)


def test_a_name_that_a_layer_would_read_as_a_deletion_is_refused(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, {"vllm/.wh.envs.py": ""})
    with pytest.raises(BuildFailed, match=r"vllm/\.wh\.envs\.py"):
        select_overlay(plan, listing())


def test_a_symlink_and_an_executable_stay_what_they_are(tmp_path: Path) -> None:
    entries = GitRepository(tmp_path / "upstream")
    changes = {"vllm/link.py": entries.symlink("envs.py"), "vllm/run.sh": entries.executable("#!/bin/sh\n")}
    layer = io.BytesIO()
    files = select_overlay(make_plan(tmp_path, changes), listing()).files
    write_layer(layer, LayerContent(files, (), {}, TIME))
    layer.seek(0)
    with tarfile.open(fileobj=layer) as tar:
        link, script = tar.getmember(f"{ROOT}/vllm/link.py"[1:]), tar.getmember(f"{ROOT}/vllm/run.sh"[1:])
    assert (link.issym(), link.linkname) == (True, "envs.py")
    assert script.mode == 0o755


def test_a_layer_repeats_the_folders_of_the_base_and_has_one_time() -> None:
    stream = io.BytesIO()
    file = OverlayFile("/root/pkg/a.py", 0o100644, b"x")
    write_layer(stream, LayerContent((file,), ("/root/pkg/b.py",), {"/root": Folder(0o700, 7, 8)}, TIME))
    stream.seek(0)
    with tarfile.open(fileobj=stream) as tar:
        members = tar.getmembers()
    assert [member.name for member in members] == ["root", "root/pkg", "root/pkg/.wh.b.py", "root/pkg/a.py"]
    assert (members[0].mode, members[0].uid, members[0].gid) == (0o700, 7, 8)
    assert {member.mtime for member in members} == {TIME}


@pytest.mark.parametrize("found", ["0.26.0", "0.26.0+cu130"])
def test_a_base_of_the_same_version_is_taken(tmp_path: Path, found: str) -> None:
    commit = make_plan(tmp_path, {}).patched.base.commit
    assert check_version(listing(versions=(found,)), commit, "vllm") == ""


def test_a_base_of_another_release_is_refused_with_both_versions(tmp_path: Path) -> None:
    commit = make_plan(tmp_path, {}).patched.base.commit
    with pytest.raises(RequestError, match=r"0\.25\.1\+cu130.*0\.26\.0"):
        check_version(listing(versions=("0.25.1+cu130",)), commit, "vllm")


@pytest.mark.parametrize(
    ("wanted", "found"), [("0.26.1.dev3+gabc", ("0.26.0",)), (None, ("0.26.0",)), ("0.26.0", ()), ("0.26.0", ("dev",))]
)
def test_a_version_that_is_no_release_is_a_warning(tmp_path: Path, wanted: str | None, found: tuple[str, ...]) -> None:
    commit = make_plan(tmp_path, {}, version=wanted).patched.base.commit
    assert check_version(listing(versions=found), commit, "vllm")


def test_a_tree_with_a_name_that_leaves_the_layer_is_refused(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, {})
    repository = plan.patched.base.repository
    blob = bytes.fromhex(repository.write_blob(b"root::0:0::/:/bin/sh\n"))

    def write_tree(name: bytes, mode: bytes, entry: bytes) -> bytes:
        command = ["git", "-C", str(repository.path), "hash-object", "-t", "tree", "--literally", "-w", "--stdin"]
        data = mode + b" " + name + b"\0" + entry
        made = subprocess.run(command, input=data, capture_output=True, check=True)
        return bytes.fromhex(made.stdout.decode().strip())

    above = write_tree(b"..", b"40000", write_tree(b"passwd", b"100644", blob))
    evil = write_tree(b"vllm", b"40000", above).hex()
    with pytest.raises(BuildFailed, match="no layer can hold the tree"):
        select_overlay(replace(plan, patched=replace(plan.patched, id=evil)), None)
