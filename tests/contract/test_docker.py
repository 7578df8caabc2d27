"""The real Docker engine: what `build` makes is started and asked what it holds."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import pytest

from patchkit import __version__
from patchkit.errors import RequestError
from patchkit.image.build import build_image
from patchkit.image.image import Image, ImagePlan
from patchkit.image.overlay import BARE_ROOT
from patchkit.tools.cache import Cache
from patchkit.tools.toolkit import Toolkit
from tests.image.plans import ROOT, TIME, UPSTREAM, digest, make_plan
from tests.support.engine import (
    BASE,
    build_image_from,
    find_builder,
    need_base,
    read_files,
    remove_images,
    run_in,
    running_engine,
)

pytestmark = pytest.mark.contract

REPOSITORY = "patchkit-contract"
WITH_VLLM = f"{REPOSITORY}/vllm:0.26.0"
CHANGES = {"vllm/envs.py": "A = 2\n", "vllm/old.py": None, "vllm/new.py": "B = 3\n"}
INSTALL = f"""
FROM {BASE}
COPY vllm {ROOT}/vllm
COPY dist-info {ROOT}/vllm-0.26.0.dist-info
RUN python3 -m compileall -q {ROOT}/vllm && chown -R 1234:1234 {ROOT}/vllm && chmod 0711 {ROOT}/vllm
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[docker.DockerClient]:
    toolkit = Toolkit(Cache(tmp_path_factory.mktemp("store")), env=dict(os.environ))
    with running_engine(toolkit) as client:
        need_base(client)
        yield client
        remove_images(client, REPOSITORY)


@pytest.fixture(scope="module")
def base(client: docker.DockerClient, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Install a small vllm on the local base, compiled, its sources as old as the upstream commit.

    That is the worst case: byte code made from a source of the same time and size as the patched one.
    """
    folder = tmp_path_factory.mktemp("base")
    for name, text in UPSTREAM.items():
        if name.startswith("vllm/"):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(str(text))
            os.utime(path, (TIME, TIME))
    (folder / "dist-info").mkdir()
    (folder / "dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.26.0\n")
    (folder / "Dockerfile").write_text(INSTALL)
    build_image_from(client, folder, WITH_VLLM)
    pyc_time = "import glob, struct; print(*struct.unpack('<I', open(glob.glob('%s')[0], 'rb').read()[8:12]))"
    script = pyc_time % f"{ROOT}/vllm/__pycache__/envs.*.pyc"
    assert run_in(client, WITH_VLLM, "python3", "-c", script) == f"{TIME}\n"
    return WITH_VLLM


def plan_of(tmp_path: Path, changes: dict[str, str | None] | None = None, **spec: Any) -> ImagePlan:
    return make_plan(tmp_path, CHANGES if changes is None else changes, tags=(f"{REPOSITORY}/out:{{tree}}",), **spec)


def build_docker(toolkit: Toolkit, plan: ImagePlan, tmp_path: Path) -> Image:
    return build_image(toolkit, plan, "docker", tmp_path / "unused")


def build_and_load(client: docker.DockerClient, toolkit: Toolkit, plan: ImagePlan, tmp_path: Path) -> str:
    """Write an archive with the engine oci, load it as a user would, and return the image's name."""
    plan = replace(plan, spec=plan.spec.model_copy(update={"tags": (f"{REPOSITORY}/loaded:1",)}))
    archive = build_image(toolkit, plan, "oci", tmp_path / "out.oci.tar").archive
    loaded = subprocess.run(["docker", "load", "-i", str(archive)], capture_output=True, text=True, check=True)
    assert f"Loaded image: {REPOSITORY}/loaded:1" in loaded.stdout
    return f"{REPOSITORY}/loaded:1"


def save(client: docker.DockerClient, image: str, path: Path) -> None:
    with path.open("wb") as sink:
        for chunk in client.images.get(image).save(named=True):
            sink.write(chunk)


def check_patched(client: docker.DockerClient, image: str) -> dict[str, Any]:
    """Start the image and check that what it holds is what its provenance says; return the provenance."""
    told = json.loads(run_in(client, image, "cat", "/opt/patchkit/provenance.json"))
    paths = [file["path"] for file in told["files"]]
    lines = run_in(client, image, "sha256sum", *paths).splitlines()
    assert dict(reversed(line.split("  ")) for line in lines) == {
        file["path"]: file["sha256"] for file in told["files"]
    }
    assert f"{digest(b'A = 2' + bytes([10]))[7:]}  {ROOT}/vllm/envs.py" in lines
    script = "import vllm.envs, vllm.new, importlib.util as u; print(vllm.envs.A, vllm.new.B, u.find_spec('vllm.old'))"
    assert run_in(client, image, "python3", "-c", script) == "2 3 None\n"
    assert run_in(client, image, "stat", "-c", "%a %u", f"{ROOT}/vllm") == "711 1234\n"
    assert run_in(client, image, "cat", "/opt/patchkit/recipe.lock") == "format: 1\n"
    return dict(told)


def test_the_built_image_started_holds_the_patched_files(
    client: docker.DockerClient, base: str, toolkit: Toolkit, tmp_path: Path
) -> None:
    plan = plan_of(tmp_path, base=base)
    image = build_docker(toolkit, plan, tmp_path)
    told = check_patched(client, image.digest)
    assert told["root"] == ROOT
    assert told["removed"] == [f"{ROOT}/vllm/old.py"]
    built = client.images.get(image.tags[0])
    assert built.id == image.digest
    assert built.labels["io.patchkit.tree"] == plan.patched.id
    assert built.labels["org.opencontainers.image.base.name"] == base


def test_the_archive_loaded_into_docker_holds_the_same(
    client: docker.DockerClient, base: str, toolkit: Toolkit, tmp_path: Path
) -> None:
    save(client, base, tmp_path / "base.tar")
    archived = build_and_load(client, toolkit, plan_of(tmp_path, base="oci:base.tar"), tmp_path)
    told = check_patched(client, archived)
    built = check_patched(client, build_docker(toolkit, plan_of(tmp_path / "again", base=base), tmp_path).digest)
    assert {**told, "base": None} == {**built, "base": None}
    layers = [client.images.get(name).attrs["RootFS"]["Layers"] for name in (base, archived)]
    assert layers[1][:-1] == layers[0]


def test_stale_byte_code_is_not_believed_without_a_deletion_either(
    client: docker.DockerClient, base: str, toolkit: Toolkit, tmp_path: Path
) -> None:
    image = build_docker(toolkit, plan_of(tmp_path, {"vllm/envs.py": "A = 2\n"}, base=base), tmp_path)
    assert run_in(client, image.digest, "python3", "-c", "import vllm.envs; print(vllm.envs.A)") == "2\n"


@pytest.mark.parametrize("changes", [{"vllm/envs.py": "A = 2\n"}, CHANGES], ids=["changes", "deletes"])
def test_the_same_inputs_give_the_same_image_whenever_it_is_built(
    client: docker.DockerClient, base: str, toolkit: Toolkit, tmp_path: Path, changes: dict[str, str | None]
) -> None:
    first = build_docker(toolkit, plan_of(tmp_path / "first", changes, base=base), tmp_path)
    told = client.images.get(first.digest).attrs
    assert told["Created"] == "2025-06-15T15:06:40Z"
    assert client.api.history(first.digest)[0]["CreatedBy"] == "patchkit build"
    client.images.remove(first.digest, force=True)
    client.api.prune_builds()
    time.sleep(1.1)  # a layer that holds the time of the build would be another one now
    again = build_docker(toolkit, plan_of(tmp_path / "again", changes, base=base), tmp_path)
    assert again.digest == first.digest
    assert client.images.get(first.digest).attrs["Config"] == told["Config"]
    assert client.images.get(first.digest).attrs["RootFS"] == told["RootFS"]


def test_both_engines_write_the_same_layer(client: docker.DockerClient, toolkit: Toolkit, tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    archived = build_and_load(client, toolkit, plan, tmp_path)
    built = build_docker(toolkit, plan, tmp_path)
    layers = [client.images.get(name).attrs["RootFS"]["Layers"] for name in (archived, built.digest)]
    assert layers[0] == layers[1]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param(
            {"vllm/sub/op.py": None},
            {"vllm/sub": "nothing", "vllm/old.py": "file"},
            id="the last file of a folder",
        ),
        pytest.param(
            {"vllm/old.py": None, "vllm/old.py/inner.txt": "x"},
            {"vllm/old.py": "folder", "vllm/old.py/inner.txt": "file"},
            id="a folder where a file was",
        ),
        pytest.param(
            {"vllm/sub/op.py": None, "vllm/sub": "x"},
            {"vllm/sub": "file", "vllm/sub/op.py": "nothing"},
            id="a file where a folder was",
        ),
    ],
)
def test_what_the_series_deletes_is_gone_in_the_container(
    client: docker.DockerClient, base: str, tmp_path: Path, changes: dict[str, str | None], expected: dict[str, str]
) -> None:
    toolkit = Toolkit(Cache(tmp_path / "store"), env=dict(os.environ))
    image = build_docker(toolkit, plan_of(tmp_path, changes, base=base), tmp_path)
    script = """
import os, sys
for path in sys.argv[1:]:
    print("file" if os.path.isfile(path) else "folder" if os.path.isdir(path) else "nothing")
"""
    kinds = run_in(client, image.digest, "python3", "-c", script, *(f"{ROOT}/{path}" for path in expected))
    assert kinds.split() == list(expected.values())
    find = "import importlib.util as u; print(u.find_spec('vllm.sub') is None)"
    assert run_in(client, image.digest, "python3", "-c", find) == f"{'vllm/sub/op.py' in changes}\n"


def test_without_a_base_both_engines_hold_the_whole_package(
    client: docker.DockerClient, toolkit: Toolkit, tmp_path: Path
) -> None:
    plan = plan_of(tmp_path)
    built = read_files(client, build_docker(toolkit, plan, tmp_path).digest, "/opt/patchkit")
    loaded = read_files(client, build_and_load(client, toolkit, plan, tmp_path), "/opt/patchkit")
    assert built == loaded
    assert built[f"{BARE_ROOT}/vllm/envs.py"] == digest(b"A = 2\n")[7:]
    assert f"{BARE_ROOT}/vllm/sub/op.py" in built


def test_a_base_that_the_engine_lacks_and_cannot_pull_is_told(
    client: docker.DockerClient, toolkit: Toolkit, tmp_path: Path
) -> None:
    with pytest.raises(RequestError, match=r"localhost:1/none:1.*cannot pull") as caught:
        build_docker(toolkit, plan_of(tmp_path, base="localhost:1/none:1"), tmp_path)
    assert "docker pull" in caught.value.hint
    with pytest.raises(RequestError, match="offline"):
        build_docker(replace(toolkit, offline=True), plan_of(tmp_path / "b", base="localhost:1/none:1"), tmp_path)


def test_a_base_of_another_release_is_refused(
    client: docker.DockerClient, base: str, toolkit: Toolkit, tmp_path: Path
) -> None:
    plan = make_plan(tmp_path, CHANGES, base=base, version="0.25.1", tags=(f"{REPOSITORY}/refused:1",))
    with pytest.raises(RequestError, match=r"0\.26\.0.*0\.25\.1"):
        build_docker(toolkit, plan, tmp_path)
    assert client.images.list(name=f"{REPOSITORY}/refused") == []


def test_a_base_without_the_package_or_without_python_is_told(
    client: docker.DockerClient, toolkit: Toolkit, tmp_path: Path
) -> None:
    with pytest.raises(RequestError, match="has no vllm"):
        build_docker(toolkit, plan_of(tmp_path, base=BASE), tmp_path)
    bare = build_docker(toolkit, plan_of(tmp_path / "bare"), tmp_path)
    before = {container.id for container in client.containers.list(all=True)}
    with pytest.raises(RequestError, match="python3 does not run"):
        build_docker(toolkit, plan_of(tmp_path / "over", base=bare.tags[0]), tmp_path)
    assert {container.id for container in client.containers.list(all=True)} <= before  # none is left behind


@pytest.mark.parametrize(
    "script",
    ["while :; do echo yes; done", "sleep 1000", "echo hello", "exit 1"],
    ids=["babbles", "hangs", "other", "no"],
)
def test_a_base_whose_python_is_none_is_told_in_time(
    client: docker.DockerClient, toolkit: Toolkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    monkeypatch.setattr("patchkit.tools.docker.SCRIPT_SECONDS", 3)
    (tmp_path / "python3").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "python3").chmod(0o755)
    (tmp_path / "Dockerfile").write_text(f"FROM {BASE}\nCOPY python3 /usr/local/bin/python3\n")
    name = f"{REPOSITORY}/odd:1"
    build_image_from(client, tmp_path, name)
    before = {container.id for container in client.containers.list(all=True)}
    with pytest.raises(RequestError, match=r"python3 does not run|does not tell where vllm is"):
        build_docker(toolkit, plan_of(tmp_path / "plan", base=name), tmp_path)
    assert {container.id for container in client.containers.list(all=True)} <= before


def test_patchkit_s_own_image_runs_it_as_nobody_in_particular(client: docker.DockerClient, tmp_path: Path) -> None:
    env = dict(os.environ)
    builder = find_builder(env)
    if builder is None:
        pytest.skip("no docker client with BuildKit")
    tag = f"{REPOSITORY}/self:1"
    command = [builder, "build", "--build-arg", f"BASE={BASE}", "--tag", tag]
    if bundle := env.get("PATCHKIT_CA_BUNDLE") or env.get("SSL_CERT_FILE"):
        command += ["--secret", f"id=ca,src={bundle}"]
    root = Path(__file__).parents[2]
    env["DOCKER_BUILDKIT"] = "1"
    built = subprocess.run([*command, str(root)], env=env, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-2000:]
    assert run_in(client, tag, "patchkit", "--version") == f"patchkit {__version__}\n"
    assert "Verbs" in run_in(client, tag, "patchkit", "--help")
    assert run_in(client, tag, "id", "-u") == "10001\n"
    assert run_in(client, tag, "sh", "-c", "touch /cache/x x && git --version").startswith("git version")
