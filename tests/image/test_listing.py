from __future__ import annotations

import io
import json
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from patchkit.errors import RequestError
from patchkit.image.listing import CONTAINER_PROBE, Folder, Listing, from_record, read_probe, scan_layers
from tests.image.plans import ROOT, Members, tar_of, vllm_layer

PLACE = ROOT.lstrip("/")


def scan(*layers: bytes, root: str | None = None) -> Listing:
    openers = [lambda layer=layer: nullcontext(io.BytesIO(layer)) for layer in layers]
    return scan_layers(openers, "vllm", root)


def test_the_package_is_found_with_its_version() -> None:
    found = scan(tar_of([("usr", None)]), vllm_layer("0.26.0+cu130"))
    assert (found.root, found.versions) == (ROOT, ("0.26.0+cu130",))
    assert f"{ROOT}/vllm/envs.py" in (found.files or ())


def test_a_package_that_only_begins_like_it_is_not_it() -> None:
    other = tar_of([(f"{PLACE}/vllm_ascend/__init__.py", b""), (f"{PLACE}/vllm_ascend-0.9.dist-info/METADATA", b"")])
    both = scan(vllm_layer(), other)
    assert (both.root, both.versions) == (ROOT, ("0.26.0",))
    with pytest.raises(RequestError, match="has no vllm"):
        scan(other)


def test_two_installations_are_an_error_that_names_both() -> None:
    with pytest.raises(RequestError, match="more than once") as caught:
        scan(vllm_layer(), vllm_layer(root="/opt/venv/lib/python3.12/site-packages"))
    assert ROOT in caught.value.message
    assert "/opt/venv/lib/python3.12/site-packages" in caught.value.message
    assert "image.root" in caught.value.hint


def test_image_root_wins_over_the_search() -> None:
    chosen = "/opt/venv/lib/python3.12/site-packages"
    assert scan(vllm_layer(), vllm_layer(root=chosen), root=chosen).root == chosen


@pytest.mark.parametrize(
    "links",
    [
        pytest.param([("lib", "usr/lib")], id="relative"),
        pytest.param([("lib", "/usr/lib")], id="absolute"),
        pytest.param([("lib", "./first"), ("first", "usr/../usr/lib")], id="through another"),
    ],
)
def test_image_root_below_a_symlink_is_made_real(links: Members) -> None:
    found = scan(tar_of(links), vllm_layer(), root="/lib/python3/dist-packages")
    assert found.root == ROOT
    assert found.files


def test_symlinks_that_never_end_are_told() -> None:
    with pytest.raises(RequestError, match="never end"):
        scan(tar_of([("a", "b"), ("b", "a")]), root="/a/x")


@pytest.mark.parametrize("mark", [f"{PLACE}/.wh.vllm", f"{PLACE}/.wh..wh..opq", "usr/.wh.lib"])
def test_what_a_higher_layer_hides_is_not_there(mark: str) -> None:
    with pytest.raises(RequestError, match="has no vllm"):
        scan(vllm_layer(), tar_of([(mark, b"")]))


def test_what_is_added_again_after_a_whiteout_is_there() -> None:
    again = tar_of([(f"{PLACE}/.wh.vllm", b""), (f"{PLACE}/vllm/__init__.py", b"")])
    assert scan(vllm_layer(), again).files == frozenset({f"{ROOT}/vllm/__init__.py"})


def test_names_that_would_leave_the_image_are_passed_over() -> None:
    hostile = tar_of([("../../etc/site-packages/vllm/__init__.py", b""), ("/abs/../../x", None)])
    assert scan(hostile, vllm_layer()).root == ROOT


def test_folders_keep_their_attributes() -> None:
    owned = tar_of([("usr", None), (PLACE, None)], mode=0o700, owner=1000)
    assert scan(vllm_layer(), owned).folders[ROOT] == Folder(0o700, 1000, 1000)


def test_a_listing_survives_the_store() -> None:
    found = scan(vllm_layer())
    assert from_record(json.loads(json.dumps(found.to_record()))) == found


def run_probe(folder: Path, package: str, root: str = "") -> Listing:
    command = [sys.executable, "-c", CONTAINER_PROBE, package, root]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    return read_probe(done.stdout, package)


def test_the_probe_finds_what_python_would_import(tmp_path: Path) -> None:
    package = tmp_path / "probed_package"
    (package / "__pycache__").mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "__pycache__" / "__init__.cpython-312.pyc").touch()
    (tmp_path / "probed_package-1.5.dist-info").mkdir()
    (tmp_path / "probed_package-1.5.dist-info" / "METADATA").write_text("Name: probed-package\nVersion: 1.5\n")
    found = run_probe(tmp_path, "probed_package")
    assert (found.root, found.versions) == (str(tmp_path), ("1.5",))
    assert found.byte_code_of([f"{package}/__init__.py"]) == (f"{package}/__pycache__/__init__.cpython-312.pyc",)
    assert str(tmp_path) in found.folders
    (tmp_path / "link").symlink_to(tmp_path)
    assert run_probe(tmp_path / "probed_package", "probed_package", f"{tmp_path}/link").root == str(tmp_path)


def test_the_probe_says_when_there_is_no_such_package(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"has no no_such_package.*") as caught:
        run_probe(tmp_path, "no_such_package")
    assert "image.root" in caught.value.hint


def told(**changes: object) -> str:
    return json.dumps({"root": "/x", "versions": [], "folders": {}, "files": []} | changes)


@pytest.mark.parametrize(
    "output",
    [
        "",
        "no JSON",
        "[]",
        "[" * 100_000,
        '{"root": "/x"}',
        told(root=1),
        told(root="x"),
        told(root="/x/../../etc"),
        told(root="/x/"),
        told(root="/.wh.x/y"),
        told(versions=[1]),
        told(versions="1"),
        told(folders={"/x": [1, 2]}),
        told(folders={"/x": [1, 2, "3"]}),
        told(files=[1]),
        told(files=None),
    ],
)
def test_a_base_whose_python_says_something_else_is_told(output: str) -> None:
    with pytest.raises(RequestError, match="does not tell where vllm is"):
        read_probe(output, "vllm")


def test_links_of_the_package_count_as_its_files(tmp_path: Path) -> None:
    links: Members = [(f"{PLACE}/vllm/link.py", "envs.py"), (f"{PLACE}/vllm/elsewhere", "/opt")]
    wanted = {"link.py", "elsewhere"}
    files = scan(vllm_layer(), tar_of(links)).files or frozenset()
    assert {f"{ROOT}/vllm/{name}" for name in wanted} <= files
    package = tmp_path / "probed_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "link.py").symlink_to("__init__.py")
    (package / "elsewhere").symlink_to(tmp_path)
    asked = run_probe(tmp_path, "probed_package").files or frozenset()
    assert {f"{package}/{name}" for name in wanted} <= asked


def test_a_distribution_that_states_no_version_has_none(tmp_path: Path) -> None:
    (tmp_path / "probed_package").mkdir()
    (tmp_path / "probed_package" / "__init__.py").touch()
    (tmp_path / "probed_package-1.5.dist-info").mkdir()
    (tmp_path / "probed_package-1.5.dist-info" / "METADATA").write_text("Name: probed-package\n")
    assert run_probe(tmp_path, "probed_package").versions == ()
