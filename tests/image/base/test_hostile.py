"""A base from a stranger: whatever is in it, one clear error comes of it, and no file, no hang and no full memory."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchkit.errors import RequestError
from patchkit.image import listing
from patchkit.image.base import open_base
from patchkit.image.build import build_image
from patchkit.image.image import Image
from tests.image.plans import (
    ROOT,
    digest,
    docker_save_files,
    make_plan,
    make_toolkit,
    oci_files,
    read_back,
    tar_of,
    vllm_layer,
    write_archive_of,
)

Change = Callable[[dict[str, Any]], Any]
PLACE = ROOT.lstrip("/")


def build(tmp_path: Path, name: str = "oci:base.tar") -> Image:
    plan = make_plan(tmp_path, {"vllm/envs.py": "A = 2\n", "vllm/old.py": None}, base=name)
    return build_image(make_toolkit(tmp_path)[0], plan, "oci", tmp_path / "out" / "a.tar")


def refused(tmp_path: Path, match: str, name: str = "oci:base.tar") -> None:
    with pytest.raises(RequestError, match=match) as caught:
        build(tmp_path, name)
    assert caught.value.hint
    assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []


def with_config(change: Change, layers: tuple[bytes, ...] = (vllm_layer(),)) -> dict[str, bytes]:
    """Return a layout whose config was changed, all digests right."""
    files = oci_files(layers)
    index = json.loads(files["index.json"])
    manifest = json.loads(files.pop(f"blobs/sha256/{index['manifests'][0]['digest'][7:]}"))
    config = json.loads(files.pop(f"blobs/sha256/{manifest['config']['digest'][7:]}"))
    changed = change(config)
    written = changed if isinstance(changed, bytes) else json.dumps(config if changed is None else changed).encode()
    manifest["config"]["digest"] = digest(written)
    rewritten = json.dumps(manifest).encode()
    index["manifests"][0]["digest"] = digest(rewritten)
    blobs = {f"blobs/sha256/{digest(data)[7:]}": data for data in (written, rewritten)}
    return files | blobs | {"index.json": json.dumps(index).encode()}


@pytest.mark.parametrize(
    "change",
    [
        lambda config: b"no JSON",
        lambda config: b"[" * 100_000,
        lambda config: b"\xff\xfe",
        lambda config: [],
        lambda config: 7,
        lambda config: {},
        lambda config: config.update(rootfs=7),
        lambda config: config.update(rootfs={"diff_ids": "sha256:x"}),
        lambda config: config["rootfs"].update(diff_ids=[7]),
        lambda config: config["rootfs"].update(diff_ids=["sha256:../../../etc/passwd"]),
        lambda config: config["rootfs"].update(diff_ids=[]),
        lambda config: config.update(config=[1]),
        lambda config: config["config"].update(Labels=["x"]),
        lambda config: config["config"].update(Labels={"x": 1}),
        lambda config: config["config"].update(Env={"A": "1"}),
        lambda config: config["config"].update(Env=[7]),
        lambda config: config.update(history=7),
        lambda config: config.update(history=[7]),
    ],
    ids=range(18),
)
def test_a_config_of_another_shape_is_refused(tmp_path: Path, change: Change) -> None:
    write_archive_of(tmp_path / "base.tar", with_config(change))
    refused(tmp_path, r"base\.tar: not a whole image")


@pytest.mark.parametrize(
    "index", [b"no JSON", b"[]", b"7", b'{"manifests": 7}', b'{"manifests": [7]}', b'{"manifests": []}', b"{" * 99_999]
)
def test_an_index_of_another_shape_is_refused(tmp_path: Path, index: bytes) -> None:
    write_archive_of(tmp_path / "base.tar", oci_files([vllm_layer()]) | {"index.json": index})
    refused(tmp_path, r"base\.tar")


@pytest.mark.parametrize(
    "manifest",
    [
        b"7",
        b"[]",
        b"[7]",
        b"[{}]",
        b'[{"Config": 7, "Layers": []}]',
        b'[{"Config": "config.json", "Layers": ["../x"]}]',
    ],
)
def test_what_docker_save_did_not_write_is_refused(tmp_path: Path, manifest: bytes) -> None:
    write_archive_of(tmp_path / "base.tar", docker_save_files([vllm_layer()]) | {"manifest.json": manifest})
    refused(tmp_path, r"base\.tar: not a whole image")


def test_a_layer_of_a_kind_that_nobody_can_read_is_refused(tmp_path: Path) -> None:
    files = oci_files([vllm_layer()])
    index = json.loads(files["index.json"])
    manifest = json.loads(files.pop(f"blobs/sha256/{index['manifests'][0]['digest'][7:]}"))
    manifest["layers"][0]["mediaType"] = "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip"
    rewritten = json.dumps(manifest).encode()
    index["manifests"][0]["digest"] = digest(rewritten)
    files |= {f"blobs/sha256/{digest(rewritten)[7:]}": rewritten, "index.json": json.dumps(index).encode()}
    write_archive_of(tmp_path / "base.tar", files)
    refused(tmp_path, "nondistributable")


# --- archives ------------------------------------------------------------------------------------------------------


def member(name: str, data: bytes = b"", **attributes: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for attribute, value in attributes.items():
        setattr(info, attribute, value)
    return info, data


def archive_with(path: Path, *members: tuple[tarfile.TarInfo, bytes], files: dict[str, bytes] | None = None) -> None:
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for name, data in (oci_files([vllm_layer()]) if files is None else files).items():
            tar.addfile(*member(name, data)[:1], io.BytesIO(data))
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))


@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param(member("../../escaped", b"x"), id="above"),
        pytest.param(member("/tmp/patchkit-escaped", b"x"), id="absolute"),
        pytest.param(member("link", type=tarfile.SYMTYPE, linkname="/etc/passwd"), id="symlink"),
        pytest.param(member("link", type=tarfile.LNKTYPE, linkname="/etc/passwd"), id="hard link"),
        pytest.param(member("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3), id="device"),
        pytest.param(member("pipe", type=tarfile.FIFOTYPE), id="pipe"),
        pytest.param(member("new\nline\x1b[31m", b"x"), id="escape"),
    ],
)
def test_what_an_archive_has_besides_is_left_where_it_is(
    tmp_path: Path, hostile: tuple[tarfile.TarInfo, bytes]
) -> None:
    archive_with(tmp_path / "base.tar", hostile)
    before = set(tmp_path.parent.iterdir()) | set(Path("/tmp").iterdir())
    build(tmp_path)
    assert not [path for path in tmp_path.parent.iterdir() if path not in before]
    assert not Path("/tmp/patchkit-escaped").exists()
    assert set(read_back(tmp_path / "out" / "a.tar").own()) >= {f"{PLACE}/vllm/envs.py"}


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE], ids=str
)
@pytest.mark.parametrize("target", ["/etc/passwd", "../../../../../../etc/passwd", "self"])
def test_a_layer_that_is_no_file_is_refused(tmp_path: Path, kind: bytes, target: str) -> None:
    files = oci_files([vllm_layer()])
    layer = max(files, key=lambda name: len(files[name]))
    del files[layer]
    archive_with(tmp_path / "base.tar", member(layer, type=kind, linkname=target.replace("self", layer)), files=files)
    refused(tmp_path, r"base\.tar|other bytes")


def test_of_two_members_with_one_name_the_last_counts_as_for_tar(tmp_path: Path) -> None:
    files = oci_files([vllm_layer()])
    layer = max(files, key=lambda name: len(files[name]))
    archive_with(tmp_path / "base.tar", member(layer, files[layer]), files=files | {layer: b"first"})
    build(tmp_path)
    archive_with(tmp_path / "base.tar", member(layer, b"second"), files=files)
    (tmp_path / "out" / "a.tar").unlink()
    refused(tmp_path, "other bytes|cannot be read")


def test_sizes_that_lead_back_end_at_once(tmp_path: Path) -> None:
    archive_with(tmp_path / "base.tar", files={"index.json": b"{}"})
    data = bytearray((tmp_path / "base.tar").read_bytes())
    data[124:136] = (-1024 & (1 << 96) - 1).to_bytes(12, "big")
    data[148:156] = b" " * 8
    data[148:156] = f"{sum(data[:512]):06o}\0 ".encode()
    (tmp_path / "base.tar").write_bytes(data)
    refused(tmp_path, "-1024 bytes")


@pytest.mark.parametrize("size", [1 << 40, (1 << 80)])
def test_a_size_beyond_the_archive_is_refused(tmp_path: Path, size: int) -> None:
    info, _ = member("blobs/sha256/" + "0" * 64)
    info.size = size
    header = info.tobuf(tarfile.GNU_FORMAT)
    archive_with(tmp_path / "whole.tar")
    (tmp_path / "base.tar").write_bytes(header + (tmp_path / "whole.tar").read_bytes())
    refused(tmp_path, "truncated")


def test_a_document_that_is_larger_than_any_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "layout").mkdir()
    with (tmp_path / "layout" / "index.json").open("wb") as sink:
        sink.truncate(1 << 40)
    refused(tmp_path, f"a document of {1 << 40} bytes", "oci:layout")


@pytest.mark.parametrize("name", ["index.json", "blob", "."])
def test_a_pipe_is_not_waited_for(tmp_path: Path, name: str) -> None:
    for path, data in oci_files([vllm_layer()]).items():
        (tmp_path / "layout" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "layout" / path).write_bytes(data)
    if name == ".":
        os.mkfifo(tmp_path / "base.tar")
        refused(tmp_path, "is no file")
        return
    largest = max((tmp_path / "layout" / "blobs" / "sha256").iterdir(), key=lambda path: path.stat().st_size)
    place = largest if name == "blob" else tmp_path / "layout" / name
    place.unlink()
    os.mkfifo(place)
    refused(tmp_path, "is no file", "oci:layout")


def test_a_device_is_no_base(tmp_path: Path) -> None:
    refused(tmp_path, "/dev/zero: not a whole image", "oci:/dev/zero")


def test_an_archive_with_more_members_than_any_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchkit.image.base.open.MEMBERS_LIMIT", 3)
    archive_with(tmp_path / "base.tar")
    refused(tmp_path, "more than 3 members")


# --- layers --------------------------------------------------------------------------------------------------------


def write_base(tmp_path: Path, *layers: bytes) -> None:
    write_archive_of(tmp_path / "base.tar", oci_files(layers))


def test_a_layer_that_unpacks_to_more_than_any_is_refused_by_its_header(tmp_path: Path) -> None:
    info, _ = member("bomb")
    info.size = 1 << 45
    write_base(tmp_path, vllm_layer(), info.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20))
    refused(tmp_path, "more than .* GiB")


def test_a_layer_with_more_files_than_any_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MEMBERS_LIMIT", 100)
    write_base(tmp_path, vllm_layer(), tar_of([(f"x{number}", None) for number in range(101)]))
    refused(tmp_path, "more than 100 files")


def test_a_layer_in_zstd_says_what_to_do(tmp_path: Path) -> None:
    write_archive_of(tmp_path / "base.tar", oci_files([b"\x28\xb5\x2f\xfd" + bytes(600)], compress=False))
    with pytest.raises(RequestError, match="cannot be read") as caught:
        build(tmp_path)
    assert "zstd" in caught.value.hint


def test_a_folder_that_hides_another_is_no_root(tmp_path: Path) -> None:
    write_base(tmp_path, vllm_layer(root="/usr/.wh.bin/site-packages"))
    refused(tmp_path, "has no vllm")


def test_links_of_a_layer_lead_nowhere_on_this_machine(tmp_path: Path) -> None:
    links = tar_of([("lib", "/etc"), ("up", "../../../.."), (f"{PLACE}/vllm/link.py", "/etc/passwd")])
    write_base(tmp_path, vllm_layer(), links)
    build(tmp_path)
    assert b"root:" not in (tmp_path / "out" / "a.tar").read_bytes()


def test_a_base_cannot_tell_of_the_layers_of_another(tmp_path: Path) -> None:
    """The file list is kept by the layers' digests, so lies about a layer must not outlive the check of its bytes."""
    files = docker_save_files([vllm_layer()])
    layer = next(name for name in files if name.endswith("layer.tar"))
    liar = vllm_layer(root="/opt/evil/site-packages")
    write_archive_of(tmp_path / "base.tar", files | {layer: liar})
    refused(tmp_path, "other bytes")
    write_archive_of(tmp_path / "base.tar", files)
    build(tmp_path)
    assert f"{PLACE}/vllm/envs.py" in read_back(tmp_path / "out" / "a.tar").own()


def test_a_base_is_opened_without_reading_its_layers(tmp_path: Path) -> None:
    write_base(tmp_path, vllm_layer())
    base = open_base(make_toolkit(tmp_path)[0], "oci:base.tar", tmp_path)
    assert base is not None
    assert [layer.diff_id for layer in base.layers] == [digest(vllm_layer())]
