from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from patchkit.errors import RequestError
from patchkit.image.base import Base, host_platform, open_base, open_layout, resolve_base_digest
from tests.image.plans import digest, docker_save_files, make_toolkit, oci_files, tar_of, vllm_layer, write_archive_of

LAYERS = (tar_of([("etc", None)]), vllm_layer())


def opened(tmp_path: Path, name: str) -> Base:
    base = open_base(make_toolkit(tmp_path)[0], name, tmp_path)
    assert base is not None
    return base


def contents(base: Base) -> list[bytes]:
    return [layer.blob.read() for layer in base.layers]


def test_none_is_no_base(tmp_path: Path) -> None:
    assert open_base(make_toolkit(tmp_path)[0], "none", tmp_path) is None
    assert resolve_base_digest(make_toolkit(tmp_path)[0], "none", tmp_path) == ""


def test_an_oci_archive_beside_the_recipe_is_read_where_it_lies(tmp_path: Path) -> None:
    files = oci_files(LAYERS, compress=False)
    write_archive_of(tmp_path / "base.tar", files)
    base = opened(tmp_path, "oci:base.tar")
    assert contents(base) == list(LAYERS)
    assert base.name.digest == json.loads(files["index.json"])["manifests"][0]["digest"]
    assert resolve_base_digest(make_toolkit(tmp_path)[0], "oci:base.tar", tmp_path) == base.name.digest


def test_a_layout_folder_is_the_same_image_as_its_archive(tmp_path: Path) -> None:
    files = oci_files(LAYERS)
    for name, data in files.items():
        (tmp_path / "layout" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "layout" / name).write_bytes(data)
    write_archive_of(tmp_path / "base.tar", files)
    folder, archive = opened(tmp_path, "oci:layout"), opened(tmp_path, "oci:base.tar")
    assert folder.name.digest == archive.name.digest
    assert contents(folder) == contents(archive)


def test_an_old_docker_save_archive_is_read_through_its_links(tmp_path: Path) -> None:
    files = docker_save_files(LAYERS)
    shared = f"{digest(LAYERS[1])[7:]}/layer.tar"
    linked = [(name, data) for name, data in files.items() if name != shared]
    linked += [("elsewhere/layer.tar", LAYERS[1])]
    (tmp_path / "base.tar").write_bytes(tar_of([*linked, (shared, "../elsewhere/layer.tar")]))
    base = opened(tmp_path, "oci:base.tar")
    assert contents(base) == list(LAYERS)
    assert base.name.digest == digest(files["config.json"])


def test_the_manifest_of_this_machine_is_chosen_through_nested_indexes(tmp_path: Path) -> None:
    files = oci_files(LAYERS)
    ours = json.loads(files["index.json"])["manifests"][0]
    os_name, architecture = host_platform()
    attestation = {"digest": digest(b"a"), "platform": {"os": "unknown", "architecture": "unknown"}}
    other = {"digest": digest(b"b"), "platform": {"os": os_name, "architecture": "s390x"}}
    mine = {**ours, "platform": {"os": os_name, "architecture": architecture}}
    inner = json.dumps({"manifests": [attestation, other, mine]}).encode()
    outer = {"manifests": [{"digest": digest(inner), "size": len(inner)}]}
    files |= {f"blobs/sha256/{digest(inner)[7:]}": inner, "index.json": json.dumps(outer).encode()}
    write_archive_of(tmp_path / "base.tar", files)
    assert contents(opened(tmp_path, "oci:base.tar"))[0] == contents_of(files, LAYERS[0])


def test_an_engine_of_another_machine_gets_the_manifest_of_its_platform(tmp_path: Path) -> None:
    files = oci_files(LAYERS)
    ours = json.loads(files["index.json"])["manifests"][0]
    other = {
        "digest": digest(b"elsewhere"),
        "platform": dict(zip(("os", "architecture"), host_platform(), strict=True)),
    }
    far = {**ours, "platform": {"os": "linux", "architecture": "s390x"}}
    files["index.json"] = json.dumps({"manifests": [other, far]}).encode()
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    assert open_layout("base", tmp_path, ("linux", "s390x")).name.digest == ours["digest"]


def contents_of(files: dict[str, bytes], layer: bytes) -> bytes:
    import gzip

    return next(data for name, data in files.items() if data[:2] == b"\x1f\x8b" and gzip.decompress(data) == layer)


def test_no_image_for_this_machine_is_told_with_those_there_are(tmp_path: Path) -> None:
    entries = [
        {"digest": digest(b), "platform": {"os": "linux", "architecture": n}}
        for b, n in ((b"a", "s390x"), (b"b", "mips"))
    ]
    files = oci_files(LAYERS) | {"index.json": json.dumps({"manifests": entries}).encode()}
    write_archive_of(tmp_path / "base.tar", files)
    with pytest.raises(RequestError, match="linux/mips, linux/s390x"):
        opened(tmp_path, "oci:base.tar")


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.97])
def test_a_truncated_archive_is_refused(tmp_path: Path, kept: float) -> None:
    path = write_archive_of(tmp_path / "base.tar", oci_files(LAYERS, compress=False))
    whole = path.read_bytes().rstrip(b"\0")
    path.write_bytes(whole[: int(len(whole) * kept)])
    with pytest.raises(RequestError, match=r"base\.tar: not a whole image"):
        opened(tmp_path, "oci:base.tar")


def test_a_manifest_with_other_bytes_than_its_digest_is_refused(tmp_path: Path) -> None:
    files = oci_files(LAYERS)
    name = f"blobs/sha256/{json.loads(files['index.json'])['manifests'][0]['digest'][7:]}"
    write_archive_of(tmp_path / "base.tar", files | {name: files[name] + b" "})
    with pytest.raises(RequestError, match="other bytes"):
        opened(tmp_path, "oci:base.tar")


@pytest.mark.parametrize("wrong", ["sha256:../../../../etc/passwd", "sha512:" + "a" * 64, 7])
def test_a_digest_that_is_a_path_reads_nothing(tmp_path: Path, wrong: object) -> None:
    (tmp_path / "layout").mkdir()
    (tmp_path / "layout" / "index.json").write_text(json.dumps({"manifests": [{"digest": wrong}]}))
    with pytest.raises(RequestError, match="not a whole image"):
        opened(tmp_path, "oci:layout")


def test_hostile_names_in_an_archive_are_never_written(tmp_path: Path) -> None:
    folder = tmp_path / "recipe"
    folder.mkdir()
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, data in {"../escaped": b"x", "/tmp/../escaped": b"x", **oci_files(LAYERS)}.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    (folder / "base.tar").write_bytes(stream.getvalue())
    base = open_base(make_toolkit(tmp_path)[0], "oci:base.tar", folder)
    assert base is not None
    assert [path.name for path in tmp_path.iterdir()] == ["recipe"]


@pytest.mark.parametrize("name", ["oci:missing.tar", "oci:empty"])
def test_what_is_no_image_is_a_request_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(RequestError, match="no base image here"):
        opened(tmp_path, name)


def test_an_archive_with_two_images_is_refused(tmp_path: Path) -> None:
    files = docker_save_files(LAYERS)
    files["manifest.json"] = json.dumps(json.loads(files["manifest.json"]) * 2).encode()
    write_archive_of(tmp_path / "base.tar", files)
    with pytest.raises(RequestError, match="holds 2 images"):
        opened(tmp_path, "oci:base.tar")
