from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from patchkit.errors import RequestError, StoreFailure
from patchkit.image.base import Base, open_base
from patchkit.image.layout import Description, write_archive
from patchkit.image.overlay import LayerContent, OverlayFile
from patchkit.tools.toolkit import Silence
from tests.image.plans import (
    TIME,
    digest,
    docker_save_files,
    make_toolkit,
    oci_files,
    read_back,
    vllm_layer,
    write_archive_of,
)

CONTENT = LayerContent((OverlayFile("/opt/a.py", 0o100644, b"x = 1\n"),), (), {}, TIME)
DESCRIPTION = Description(
    {"io.patchkit.tree": "abc"}, "2025-06-15T15:06:40Z", "recipe quickstart", ("host:5000/q:1", "q:2")
)


def write(output: Path, base: Base | None = None, content: LayerContent = CONTENT) -> str:
    return write_archive(output, base, content, DESCRIPTION, Silence()).manifest


def base_of(tmp_path: Path, files: dict[str, bytes]) -> Base:
    write_archive_of(tmp_path / "base.tar", files)
    base = open_base(make_toolkit(tmp_path)[0], "oci:base.tar", tmp_path)
    assert base is not None
    return base


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a.tar"), write(tmp_path / "deep" / "b.tar")
    assert first == second
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "deep" / "b.tar").read_bytes()


def test_both_readers_find_the_same_image(tmp_path: Path) -> None:
    manifest_digest = write(tmp_path / "a.tar")
    written = read_back(tmp_path / "a.tar")
    assert {entry["digest"] for entry in written.index["manifests"]} == {manifest_digest}
    assert [entry["annotations"] for entry in written.index["manifests"]] == [
        {"io.containerd.image.name": "host:5000/q:1", "org.opencontainers.image.ref.name": "1"},
        {"io.containerd.image.name": "docker.io/library/q:2", "org.opencontainers.image.ref.name": "2"},
    ]
    (docker,) = written.docker
    assert docker["RepoTags"] == ["host:5000/q:1", "q:2"]
    assert docker["Config"] == f"blobs/sha256/{written.manifest['config']['digest'][7:]}"
    assert docker["Layers"] == [f"blobs/sha256/{layer['digest'][7:]}" for layer in written.manifest["layers"]]
    assert written.read("/opt/a.py") == b"x = 1\n"


def test_variables_of_the_recipe_stand_in_for_those_of_the_base(tmp_path: Path) -> None:
    base = base_of(tmp_path, oci_files([vllm_layer()]))
    description = replace(DESCRIPTION, env={"PATH": "/opt/bin", "A": "0"})
    write_archive(tmp_path / "a.tar", base, CONTENT, description, Silence())
    assert read_back(tmp_path / "a.tar").config["config"]["Env"] == ["A=0", "PATH=/opt/bin"]


def test_layers_of_the_base_stay_untouched_below_ours(tmp_path: Path) -> None:
    files = oci_files([vllm_layer()])
    write(tmp_path / "a.tar", base_of(tmp_path, files))
    written = read_back(tmp_path / "a.tar")
    assert f"blobs/sha256/{digest(written.layers[0])[7:]}" in files
    assert written.manifest["layers"][0]["mediaType"].endswith("tar+gzip")
    assert written.config["rootfs"]["diff_ids"] == [digest(vllm_layer()), digest(written.layers[1])]
    assert [entry["created_by"] for entry in written.config["history"]] == ["ENV", "ADD", "patchkit build"]
    assert written.config["config"]["Env"] == ["PATH=/usr/bin"]
    assert written.config["config"]["Labels"] == {"from": "base", "io.patchkit.tree": "abc"}


def test_a_history_that_does_not_fit_is_replaced(tmp_path: Path) -> None:
    write(tmp_path / "a.tar", base_of(tmp_path, docker_save_files([vllm_layer(), b""])))
    written = read_back(tmp_path / "a.tar")
    assert len(written.config["history"]) == len(written.manifest["layers"]) == 3


def test_a_layer_that_the_base_has_twice_is_written_once(tmp_path: Path) -> None:
    files = docker_save_files([vllm_layer(), vllm_layer()])
    write(tmp_path / "a.tar", base_of(tmp_path, files))
    assert (tmp_path / "a.tar").stat().st_size < 2 * len(vllm_layer()) + 30_000
    assert len(read_back(tmp_path / "a.tar").layers) == 3


def test_a_damaged_layer_of_the_base_is_refused_and_no_file_is_left(tmp_path: Path) -> None:
    files = docker_save_files([vllm_layer()])
    place = next(name for name in files if name.endswith("layer.tar"))
    base = base_of(tmp_path, files | {place: vllm_layer("0.26.1")})
    with pytest.raises(RequestError, match="has other bytes"):
        write(tmp_path / "out" / "a.tar", base)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.fixture
def small_disk() -> Iterator[None]:
    """Make writes beyond 100 kB fail as on a full disk: the kernel's limit on the size of a file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.usefixtures("small_disk")
@pytest.mark.parametrize("size", [90_000, 200_000], ids=["in the archive", "in the layer"])
def test_a_full_disk_is_told_and_leaves_what_was_there(tmp_path: Path, size: int) -> None:
    (tmp_path / "a.tar").write_bytes(b"before")
    large = OverlayFile("/opt/large", 0o100644, os.urandom(size))
    with pytest.raises(StoreFailure, match=r"a\.tar: File too large") as caught:
        write(tmp_path / "a.tar", content=LayerContent((large,), (), {}, TIME))
    assert "--output" in caught.value.hint
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a.tar": b"before"}


def test_a_folder_where_nobody_may_write_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreFailure, match=r"File exists|Not a directory"):
        write(tmp_path / "file" / "a.tar")


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for place in (pipe, tmp_path):
        with pytest.raises(RequestError, match="is no file"):
            write(place)
    assert pipe.is_fifo()


def test_what_a_killed_build_left_beside_the_archive_goes_after_a_day(tmp_path: Path) -> None:
    yesterday, now, other = (
        tmp_path / name for name in (".a[1].tar.abcd_123", ".a[1].tar.efgh5678", ".b.tar.abcd1234")
    )
    for path in (yesterday, now, other):
        path.write_bytes(b"half")
    for path in (yesterday, other):
        os.utime(path, (time.time() - 86_401,) * 2)
    write(tmp_path / "a[1].tar")
    assert {path.name for path in tmp_path.iterdir()} == {now.name, other.name, "a[1].tar"}
