from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patchkit.errors import BuildFailed, RequestError, ToolMissing
from patchkit.image.build import build_image, expand_tags
from patchkit.image.image import Image, ImagePlan
from patchkit.image.overlay import BARE_ROOT
from tests.image.plans import (
    ROOT,
    UPSTREAM,
    make_plan,
    make_toolkit,
    oci_files,
    read_back,
    tar_of,
    vllm_layer,
    write_archive_of,
)
from tests.support.repositories import Files

CHANGES: Files = {"vllm/envs.py": "A = 2\n", "vllm/old.py": None}
NO_ENGINE = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}


def build(tmp_path: Path, changes: Files = CHANGES, **spec: Any) -> tuple[Image, list[str]]:
    toolkit, told = make_toolkit(tmp_path)
    image = build_image(toolkit, make_plan(tmp_path, changes, **spec), "oci", tmp_path / "out" / "a.oci.tar")
    return image, told.warnings


def write_base(tmp_path: Path, *layers: bytes) -> str:
    tmp_path.mkdir(exist_ok=True)
    write_archive_of(tmp_path / "base.tar", oci_files(layers or (vllm_layer(),)))
    return "oci:base.tar"


def test_over_a_base_only_the_overlay_and_the_provenance_are_added(tmp_path: Path) -> None:
    image, warnings = build(tmp_path, base=write_base(tmp_path, tar_of([("usr", None)]), vllm_layer()))
    written = read_back(tmp_path / "out" / "a.oci.tar")
    files = {name for name, member in written.own().items() if not member.isdir()}
    cached = f"{ROOT}/vllm/__pycache__"[1:]
    assert files == {
        f"{ROOT}/vllm/envs.py"[1:],
        f"{ROOT}/vllm/.wh.old.py"[1:],
        f"{cached}/.wh.envs.cpython-312.pyc",
        f"{cached}/.wh.envs.cpython-312.opt-1.pyc",
        f"{cached}/.wh.old.cpython-312.pyc",
        "opt/patchkit/provenance.json",
        "opt/patchkit/recipe.lock",
    }
    assert f"{ROOT}/vllm/envs.py" in image.files
    assert image.digest == written.index["manifests"][0]["digest"]
    assert json.loads(written.read("/opt/patchkit/provenance.json"))["removed"] == [f"{ROOT}/vllm/old.py"]
    assert warnings == []


def test_without_a_base_the_image_holds_the_whole_package(tmp_path: Path) -> None:
    image, _ = build(tmp_path)
    written = read_back(tmp_path / "out" / "a.oci.tar")
    assert written.read(f"{BARE_ROOT}/vllm/envs.py") == b"A = 2\n"
    assert written.read(f"{BARE_ROOT}/vllm/sub/op.py") == b"def op(): return 1\n"
    assert image.tags == (f"quickstart:0.26.0-{make_plan(tmp_path / 'again', CHANGES).patched.id[:12]}",)


def test_the_same_inputs_give_the_same_archive(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        build(tmp_path / name, base=write_base(tmp_path / name))
    first, second = (tmp_path / name / "out" / "a.oci.tar" for name in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()


def test_another_patch_gives_another_digest(tmp_path: Path) -> None:
    digests = {build(tmp_path / text, {"vllm/envs.py": text})[0].digest for text in ("one", "two")}
    assert len(digests) == 2


def test_the_file_list_of_a_base_is_read_once(tmp_path: Path) -> None:
    base = write_base(tmp_path)
    build(tmp_path, base=base)
    (record,) = (tmp_path / "store" / "base-listings").iterdir()
    changed = record.read_text().replace("0.26.0", "0.26.0+seen")
    record.write_text(changed)
    build(tmp_path, base=base)
    assert record.read_text() == changed


def test_a_base_of_another_release_stops_the_build_and_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"0\.25\.1.*0\.26\.0"):
        build(tmp_path, base=write_base(tmp_path, vllm_layer("0.25.1")))
    assert not (tmp_path / "out").exists()


def test_image_root_without_the_package_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no vllm below /opt/elsewhere"):
        build(tmp_path, base=write_base(tmp_path), root="/opt/elsewhere")


def test_native_and_other_files_outside_the_package_are_told(tmp_path: Path) -> None:
    _, warnings = build(tmp_path, {"csrc/op.cu": "x", "tests/test_envs.py": "x", "vllm/envs.py": "A = 3"})
    assert "needs a native build: csrc/op.cu" in warnings
    assert any("tests/test_envs.py" in warning for warning in warnings)


def test_an_image_that_nothing_goes_into_is_told(tmp_path: Path) -> None:
    _, warnings = build(tmp_path / "based", {"csrc/op.cu": "x"}, base=write_base(tmp_path / "based"))
    assert any("changes nothing below vllm/" in warning for warning in warnings)
    gone = {name: None for name in UPSTREAM if name.startswith("vllm/")}
    with pytest.raises(BuildFailed, match="no folder vllm/"):
        build(tmp_path / "bare", gone)


def test_a_layer_that_is_no_tar_is_told(tmp_path: Path) -> None:
    zstd = b"\x28\xb5\x2f\xfd" + bytes(600)
    write_archive_of(tmp_path / "base.tar", oci_files([zstd], compress=False))
    with pytest.raises(RequestError, match="cannot be read") as caught:
        build(tmp_path, base="oci:base.tar")
    assert "--engine docker" in caught.value.hint


def test_a_base_that_is_not_the_locked_one_is_refused(tmp_path: Path) -> None:
    toolkit, _ = make_toolkit(tmp_path)
    plan = replace(make_plan(tmp_path, CHANGES, base=write_base(tmp_path)), base_digest="sha256:" + "0" * 64)
    with pytest.raises(RequestError, match="the lock says sha256:000"):
        build_image(toolkit, plan, "oci", tmp_path / "a.tar")


def test_the_locked_digest_is_what_is_asked_of_a_registry(tmp_path: Path) -> None:
    locked = "sha256:" + "a" * 64
    plan = make_plan(tmp_path, {}, base="vllm/vllm-openai:v0.26.0")
    assert plan.base == "vllm/vllm-openai:v0.26.0"
    assert replace(plan, base_digest=locked).base == f"vllm/vllm-openai@{locked}"
    local = make_plan(tmp_path / "other", {}, base="localhost:5000/base:1")
    assert replace(local, base_digest=locked).base == f"localhost:5000/base@{locked}"


def test_auto_writes_an_archive_where_no_engine_answers(tmp_path: Path) -> None:
    toolkit, _ = make_toolkit(tmp_path, NO_ENGINE)
    assert build_image(toolkit, make_plan(tmp_path, CHANGES), "auto", tmp_path / "a.tar").engine == "oci"


def test_docker_asked_for_and_not_there_is_an_error(tmp_path: Path) -> None:
    toolkit, _ = make_toolkit(tmp_path, NO_ENGINE)
    with pytest.raises(ToolMissing, match="does not answer") as caught:
        build_image(toolkit, make_plan(tmp_path, CHANGES), "docker", tmp_path / "a.tar")
    assert "--engine oci" in caught.value.hint
    assert not (tmp_path / "a.tar").exists()


def test_docker_cannot_stand_on_an_archive(tmp_path: Path) -> None:
    toolkit, _ = make_toolkit(tmp_path, NO_ENGINE)
    with pytest.raises(RequestError, match="cannot stand on an archive"):
        build_image(toolkit, make_plan(tmp_path, CHANGES, base="oci:base.tar"), "docker", tmp_path / "a.tar")


def test_tags_are_filled_in(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, {}, tags=("host:5000/{name}/{arch}:{version}-{tree}", "x:1", "x:1"))
    plan = replace(plan, version="0.26.1.dev3+gabc", target=plan.target.model_copy(update={"arch": "sm_121"}))
    assert expand_tags(plan) == (f"host:5000/quickstart/sm_121:0.26.1.dev3-gabc-{plan.patched.id[:12]}", "x:1")


@pytest.mark.parametrize(
    ("tag", "message"),
    [
        ("x:{commit}", "unknown field {commit}"),
        ("UPPER:1", "not the name of an image"),
        ("x:a b", "not the name"),
        ("-x", "not the name"),
        ("x@sha256:" + "a" * 64, "a digest cannot be chosen"),
        ("x:{", "not the name"),
    ],
)
def test_a_tag_that_is_no_image_name_is_refused_before_anything_is_built(
    tmp_path: Path, tag: str, message: str
) -> None:
    plan = make_plan(tmp_path, CHANGES)
    plan = replace(plan, spec=plan.spec.model_copy(update={"tags": (tag,)}))  # as `--tag` does; a recipe's are checked
    with pytest.raises(RequestError, match=message):
        build_image(make_toolkit(tmp_path)[0], plan, "oci", tmp_path / "out" / "a.oci.tar")
    assert not (tmp_path / "out").exists()


def beside(tmp_path: Path, name: str, changes: Files, version: str = "1.0.0", **options: Any) -> ImagePlan:
    """Plan another upstream's part of an image."""
    plan = make_plan(tmp_path / name, changes, version)
    base = replace(plan.patched.base, commit=replace(plan.patched.base.commit, upstream=name))
    return replace(plan, patched=replace(plan.patched, base=base), **options)


def build_with(tmp_path: Path, *parts: ImagePlan, **spec: Any) -> tuple[Image, list[str]]:
    toolkit, told = make_toolkit(tmp_path)
    plan = replace(make_plan(tmp_path, CHANGES, **spec), beside=parts)
    return build_image(toolkit, plan, "oci", tmp_path / "a.oci.tar"), told.warnings


def other_layer(package: str, version: str, root: str = ROOT) -> bytes:
    place = root.lstrip("/")
    return tar_of(
        [
            (f"{place}/{package}", None),
            (f"{place}/{package}/__init__.py", b""),
            (f"{place}/{package}/__pycache__/__init__.cpython-312.pyc", b"x"),
            (f"{place}/{package}-{version}.dist-info/METADATA", b""),
        ]
    )


def test_the_files_of_all_upstreams_lie_where_the_base_has_each(tmp_path: Path) -> None:
    base = write_base(tmp_path, vllm_layer(), other_layer("vllm_ascend", "1.0.0", "/work/site-packages"))
    part = beside(tmp_path, "vllm-ascend", {"vllm_ascend/__init__.py": "patched = True\n"})
    image, warnings = build_with(tmp_path, part, base=base)
    written = read_back(tmp_path / "a.oci.tar")
    assert written.read(f"{ROOT}/vllm/envs.py") == b"A = 2\n"
    assert written.read("/work/site-packages/vllm_ascend/__init__.py") == b"patched = True\n"
    names = set(written.own())
    assert "work/site-packages/vllm_ascend/.wh.__pycache__" in names
    assert f"{ROOT}/vllm/.wh.old.py"[1:] in names
    told = json.loads(written.read("/opt/patchkit/provenance.json"))
    assert [one["upstream"]["name"] for one in (told, *told["beside"])] == ["vllm", "vllm-ascend"]
    assert told["beside"][0]["tree"] == part.patched.id
    assert written.config["config"]["Labels"]["io.patchkit.tree.vllm-ascend"] == part.patched.id
    assert "/work/site-packages/vllm_ascend/__init__.py" in image.files
    assert warnings == []


@pytest.mark.parametrize("version", ["2.13.0", "2.13.0+cu130"])
def test_an_installed_package_is_patched_where_the_base_has_the_same_version(tmp_path: Path, version: str) -> None:
    base = write_base(tmp_path, vllm_layer(), other_layer("torch", version))
    part = beside(tmp_path, "torch", {"torch/__init__.py": "patched = True\n"}, "2.13.0", is_installed=True)
    build_with(tmp_path, part, base=base)
    assert read_back(tmp_path / "a.oci.tar").read(f"{ROOT}/torch/__init__.py") == b"patched = True\n"


@pytest.mark.parametrize("version", ["2.11.0", "2.13.0.dev1", "unknown"])
def test_an_installed_package_of_another_version_is_refused(tmp_path: Path, version: str) -> None:
    base = write_base(tmp_path, vllm_layer(), other_layer("torch", version))
    part = beside(tmp_path, "torch", {"torch/__init__.py": "patched = True\n"}, "2.13.0", is_installed=True)
    with pytest.raises(RequestError, match="torch"):
        build_with(tmp_path, part, base=base)
    assert not (tmp_path / "a.oci.tar").exists()


def test_without_a_base_there_is_no_installed_package(tmp_path: Path) -> None:
    part = beside(tmp_path, "torch", {"torch/__init__.py": "x = 1\n"}, "2.13.0", is_installed=True)
    with pytest.raises(RequestError, match="without a base"):
        build_with(tmp_path, part, base="none")


def test_an_upstream_that_lies_elsewhere_is_found_by_its_root(tmp_path: Path) -> None:
    base = write_base(tmp_path, vllm_layer(), other_layer("vllm_ascend", "1.0.0", "/work/vllm-ascend"))
    part = beside(tmp_path, "vllm-ascend", {"vllm_ascend/new.py": "x = 1\n"})
    part = replace(
        part, spec=part.spec.model_copy(update={"roots": {"vllm-ascend": "/work/vllm-ascend"}, "base": base})
    )
    build_with(tmp_path, part, base=base)
    assert read_back(tmp_path / "a.oci.tar").read("/work/vllm-ascend/vllm_ascend/new.py") == b"x = 1\n"
