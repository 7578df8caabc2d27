"""A real registry on this machine: pushed to by docker, read by us."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import docker
import pytest

from patchkit.errors import RemoteUnavailable
from patchkit.image.base import open_base, resolve_base_digest
from patchkit.image.build import build_image
from patchkit.tools.cache import Cache
from patchkit.tools.toolkit import Toolkit
from tests.image.plans import ROOT, digest, make_plan, read_back, vllm_layer
from tests.support.engine import remove_images, running_engine

pytestmark = pytest.mark.contract

CONFIG = """
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {folder}}}, delete: {{enabled: true}}}}
http: {{addr: "{host}"}}
"""


@dataclass(frozen=True)
class Remote:
    """A registry that serves a folder, with one image in it."""

    host: str
    folder: Path
    image: str
    digest: str


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[docker.DockerClient]:
    with running_engine(Toolkit(Cache(tmp_path_factory.mktemp("store")), env=dict(os.environ))) as client:
        yield client


@pytest.fixture(scope="module")
def remote(client: docker.DockerClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Remote]:
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("no docker-registry program: run .ci/docker.sh")
    folder = tmp_path_factory.mktemp("registry")
    with socket.create_server(("127.0.0.1", 0)) as free:
        host = f"127.0.0.1:{free.getsockname()[1]}"
    (folder / "config.yml").write_text(CONFIG.format(folder=folder, host=host))
    with subprocess.Popen([program, "serve", str(folder / "config.yml")], stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(host)
            image = f"{host}/team/vllm:0.26.0"
            yield Remote(host, folder, image, push_base(client, image))
        finally:
            process.terminate()
            remove_images(client, host)


def wait_for(host: str) -> None:
    for _ in range(100):
        try:
            urllib.request.urlopen(f"http://{host}/v2/", timeout=5).close()
            return
        except OSError:
            time.sleep(0.1)
    pytest.fail(f"the registry on {host} does not start")


def push_base(client: docker.DockerClient, image: str) -> str:
    """Push an image of one layer and return its digest as docker tells it."""
    name, _, tag = image.rpartition(":")
    client.api.import_image_from_data(vllm_layer(), repository=name, tag=tag)
    for event in client.api.push(name, tag=tag, stream=True, decode=True):
        assert "error" not in event, event
        if "Digest" in event.get("aux", {}):
            return str(event["aux"]["Digest"])
    raise AssertionError("docker told no digest")


def test_a_base_is_pulled_by_tag_and_checked(remote: Remote, toolkit: Toolkit, tmp_path: Path) -> None:
    plan = make_plan(tmp_path, {"vllm/envs.py": "A = 2\n"}, base=remote.image)
    build_image(toolkit, plan, "oci", tmp_path / "out.tar")
    written = read_back(tmp_path / "out.tar")
    assert written.config["rootfs"]["diff_ids"][0] == digest(vllm_layer())
    assert written.config["config"]["Labels"]["org.opencontainers.image.base.digest"] == remote.digest
    assert written.read(f"{ROOT}/vllm/envs.py") == b"A = 2\n"


def test_the_lock_s_digest_is_the_one_that_docker_knows(remote: Remote, toolkit: Toolkit, tmp_path: Path) -> None:
    assert resolve_base_digest(toolkit, remote.image, tmp_path) == remote.digest
    assert not (tmp_path / "store" / "registry-blobs").exists()


def test_a_base_by_digest_is_had_from_the_store_when_the_registry_is_gone(
    remote: Remote, toolkit: Toolkit, tmp_path: Path
) -> None:
    name = f"{remote.host}/team/vllm@{remote.digest}"
    first = open_base(toolkit, name, tmp_path)
    assert first is not None
    offline = Toolkit(toolkit.cache, env=toolkit.env, offline=True)
    assert open_base(offline, name, tmp_path) == first


def test_a_digest_that_the_registry_does_not_have_is_told(remote: Remote, toolkit: Toolkit, tmp_path: Path) -> None:
    with pytest.raises(RemoteUnavailable, match="404"):
        open_base(toolkit, f"{remote.host}/team/vllm@sha256:{'0' * 64}", tmp_path)


def test_a_damaged_blob_in_the_registry_is_refused(remote: Remote, toolkit: Toolkit, tmp_path: Path) -> None:
    blobs = [path for path in remote.folder.rglob("data") if path.stat().st_size]
    largest = max(blobs, key=lambda path: path.stat().st_size)
    before = {path: path.read_bytes() for path in blobs}
    manifest = f"{remote.host}/team/vllm@{remote.digest}"
    try:
        for path, data in before.items():
            if path == largest or len(data) < 300:
                path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(RemoteUnavailable, match=r"are others|does not answer|sent"):
            open_base(toolkit, manifest, tmp_path)
    finally:
        for path, data in before.items():
            path.write_bytes(data)
    assert open_base(toolkit, manifest, tmp_path) is not None
