"""The real Docker engine for contract tests, and what is in its images."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

import docker
import pytest
from docker.errors import DockerException

from patchkit.errors import ToolMissing
from patchkit.tools.docker import open_engine
from patchkit.tools.toolkit import Toolkit

BASE = "patchkit-base:bookworm"  # made by .ci/docker.sh


@contextlib.contextmanager
def running_engine(toolkit: Toolkit) -> Iterator[docker.DockerClient]:
    """Connect to the engine; skip where none answers (a failure in CI)."""
    try:
        with open_engine(toolkit):
            pass
    except ToolMissing as error:
        pytest.skip(error.message)
    client = docker.from_env(timeout=300)
    try:
        yield client
    finally:
        client.close()


def need_base(client: docker.DockerClient) -> None:
    """Skip where the local base image was not made (a failure in CI)."""
    try:
        client.images.get(BASE)
    except DockerException:
        pytest.skip(f"no image {BASE}: run .ci/docker.sh")


def build_image_from(client: docker.DockerClient, folder: Path, tag: str) -> str:
    """Build a folder's Dockerfile and return the image's id."""
    image, _ = client.images.build(path=str(folder), tag=tag, rm=True)
    return str(image.id)


def run_in(client: docker.DockerClient, image: str, *command: str, user: str = "") -> str:
    """Start a container, without network, and return what the command printed."""
    output = client.containers.run(
        image, list(command[1:]), entrypoint=list(command[:1]), network_mode="none", remove=True, user=user or None
    )
    return bytes(output).decode()


def read_files(client: docker.DockerClient, image: str, folder: str) -> dict[str, str]:
    """Return path and sha256 of every file below a folder of an image, without starting it."""
    container = client.containers.create(image, ["/none"])
    try:
        chunks, _ = container.get_archive(folder)
        with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as tar:
            return {
                str(PurePosixPath(folder).parent / member.name): hashlib.sha256(stream.read()).hexdigest()
                for member in tar
                if (stream := tar.extractfile(member)) is not None
            }
    finally:
        container.remove()


def find_builder(env: Mapping[str, str]) -> str | None:
    """Return a docker client that can build with BuildKit: one before 23 has it inside, later ones need a plugin."""
    for folder in env.get("PATH", os.defpath).split(os.pathsep):
        client = shutil.which("docker", path=folder or "/none")
        if client is None:
            continue
        if subprocess.run([client, "buildx", "version"], capture_output=True, check=False).returncode == 0:
            return client
        told = subprocess.run([client, "--version"], capture_output=True, text=True, check=False).stdout
        if (version := re.search(r"version (\d+)", told)) and int(version[1]) < 23:
            return client
    return None


def remove_images(client: docker.DockerClient, prefix: str) -> None:
    """Remove all images whose names begin so, and the nameless ones that tests left."""
    for tag in [tag for image in client.images.list() for tag in image.tags if tag.startswith(prefix)]:
        client.images.remove(tag, force=True)
    client.images.prune(filters={"dangling": True, "label": "io.patchkit.recipe=quickstart"})
