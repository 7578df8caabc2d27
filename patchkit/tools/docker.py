"""The Docker engine: its API through the SDK, BuildKit builds through the client.

The SDK speaks the classic builder only, so a build looks for a client on PATH that has BuildKit; several may be there,
and a newer one without its buildx plugin refuses to build at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import socket
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchkit.errors import BuildFailed, RequestError, ToolMissing
from patchkit.tools.process import find_program, run_process
from patchkit.tools.toolkit import Toolkit

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.images import Image as DockerImage

API_TIMEOUT_SECONDS = 600  # an engine may need minutes to unpack a large image
PING_TIMEOUT_SECONDS = 5  # a socket that nobody serves must not hold up `--engine auto`
BUILDX_SINCE = 23  # clients before it have BuildKit inside, later ones need the buildx plugin
DEFAULT_HOST = "unix:///var/run/docker.sock"
LAYERED = ("ADD", "RUN")  # instructions of ours that make a layer
SETTINGS = (
    "User",
    "ExposedPorts",
    "Env",
    "Entrypoint",
    "Cmd",
    "Volumes",
    "WorkingDir",
    "Labels",
    "StopSignal",
    "Healthcheck",
    "Shell",
    "OnBuild",
)  # of the OCI image specification and Docker's own; what else an engine reports is about its build containers
VARIABLES = ("DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH")


@dataclass(frozen=True)
class LocalImage:
    """An image of the engine. `digest` is a registry's digest of it, else its id."""

    id: str
    digest: str


class Engine:
    """A Docker engine that answers."""

    def __init__(self, client: DockerClient, toolkit: Toolkit) -> None:
        """Wrap a client that was pinged."""
        self._client, self._toolkit = client, toolkit

    def find_image(self, name: str) -> LocalImage | None:
        """Return an image that the engine has, or None."""
        from docker.errors import ImageNotFound

        try:
            return _local(self._client.images.get(name))
        except ImageNotFound:
            return None

    def pull(self, name: str) -> LocalImage:
        """Let the engine pull an image. Raises `RequestError` when it cannot."""
        from docker.errors import APIError, DockerException

        hint = f"docker pull {name}, or image.base: oci:PATH"
        if self._toolkit.offline:
            raise RequestError(f"{name}: the engine does not have this base, and --offline forbids to pull it", hint)
        self._toolkit.progress.step(f"pull {name}")
        try:
            for event in self._client.api.pull(name, stream=True, decode=True):
                self._tell(name, event)
            return _local(self._client.images.get(name))
        except (APIError, DockerException) as error:
            reason = getattr(error, "explanation", None) or str(error)
            raise RequestError(f"{name}: the engine has no such base and cannot pull it: {reason}", hint) from error

    def _tell(self, name: str, event: Mapping[str, Any]) -> None:
        if "error" in event:
            raise RequestError(
                f"{name}: the engine cannot pull this base: {event['error']}", "docker login, or oci:PATH"
            )
        detail = event.get("progressDetail") or {}
        self._toolkit.progress.advance(
            f"{name} {event.get('id', '')}", int(detail.get("current", 0)), detail.get("total")
        )

    def run_python(self, image: str, script: str, arguments: Sequence[str]) -> str | None:
        """Run a Python script in an image, without network, and return its output; None when it did not run."""
        from docker.errors import APIError

        container = None
        try:
            container = self._client.containers.create(
                image,
                ["-c", script, *arguments],
                entrypoint=["python3"],
                working_dir="/",
                network_mode="none",
                user="0",
                environment={"PYTHONDONTWRITEBYTECODE": "1"},
            )
            container.start()
            if container.wait()["StatusCode"] != 0:
                return None
            return bytes(container.logs(stdout=True, stderr=False)).decode("utf-8", "replace")
        except APIError:
            return None
        finally:  # also when it could not start, which `remove=True` forgets, and when we are interrupted
            if container is not None:
                with contextlib.suppress(APIError):
                    container.remove(force=True)

    def build(self, context: Path, tags: Sequence[str], time_seconds: int) -> str:
        """Build the Dockerfile of a folder and return the image's id; all tags are set, or none.

        `time_seconds` since 1970 UTC is the time that the image says it was made at. Equal layers over an equal base
        give an equal id, whatever builder made them and when. Raises `BuildFailed` with the last lines of the log.
        """
        built = self._build(context, tags, time_seconds)
        instructions = [line.split(" ", 1)[0] for line in (context / "Dockerfile").read_text().splitlines()]
        return self._settle(built, tags, instructions, time_seconds)

    def _build(self, context: Path, tags: Sequence[str], time_seconds: int) -> str:
        env = {**self._toolkit.env, "DOCKER_BUILDKIT": "1", "SOURCE_DATE_EPOCH": str(time_seconds)}
        for client in find_clients(env):
            if has_buildkit(client, env):
                return _build_with([client, "build"], context, tags, env)
        self._toolkit.progress.warn(
            "no docker client with BuildKit on PATH: the engine's classic builder is used", "install docker-buildx"
        )
        return self._build_classic(context, tags)

    def _build_classic(self, context: Path, tags: Sequence[str]) -> str:
        from docker.errors import APIError, BuildError

        try:
            image, _ = self._client.images.build(
                path=str(context), tag=tags[0] if tags else None, rm=True, forcerm=True
            )
        except (APIError, BuildError) as error:
            raise BuildFailed(f"the engine's build failed: {error}") from error
        for tag in tags[1:]:
            image.tag(tag)
        return str(image.id)

    def _settle(self, built: str, tags: Sequence[str], instructions: Sequence[str], time_seconds: int) -> str:
        """Give an image the config that its layers, settings and `time_seconds` decide, and return its new id.

        Builders write their clock and name into the config. An engine that has the layers takes a config alone; one
        that does not (the containerd image store) keeps the image as it was built.
        """
        from docker.errors import APIError, ImageLoadError

        image = self._client.images.get(built)
        config = settled_config(image.attrs, image.history(), instructions, time_seconds)
        wanted = f"sha256:{hashlib.sha256(config).hexdigest()}"
        if wanted == built:
            return built
        try:
            self._client.images.load(_archive_of(config, wanted, tags, image.attrs["RootFS"]["Layers"]))
            self._client.images.get(wanted)
        except (APIError, ImageLoadError):
            return built
        with contextlib.suppress(APIError):  # another image may stand on it
            self._client.images.remove(built, noprune=True)
        return wanted


def settled_config(
    attrs: Mapping[str, Any], history: Sequence[Mapping[str, Any]], instructions: Sequence[str], time_seconds: int
) -> bytes:
    """Return an image's config as JSON with nothing in it of the builder: settings, layers, history, one time.

    `attrs` and `history` (newest first) are the engine's; `instructions` are those of the Dockerfile, FROM first.
    """
    layers = list(attrs["RootFS"]["Layers"])
    own = sum(one in LAYERED for one in instructions)
    below = [
        {"created": _rfc3339(entry["Created"]), "created_by": entry["CreatedBy"], "empty_layer": entry["Size"] == 0}
        for entry in reversed(history[len(instructions) - 1 :])
    ]
    if sum(not entry["empty_layer"] for entry in below) != len(layers) - own:  # a layer of the base that holds nothing
        below = [{"created": _rfc3339(0), "created_by": "base", "empty_layer": False} for _ in layers[own:]]
    made = {"created": _rfc3339(time_seconds), "created_by": "patchkit build"}
    settings = {name: value for name in SETTINGS if (value := attrs["Config"].get(name))}
    document = {
        **{name.lower(): attrs[name] for name in ("Architecture", "Os", "Variant") if attrs.get(name)},
        "created": made["created"],
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": layers},
        "history": [*below, *[made] * own],
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _archive_of(config: bytes, image_id: str, tags: Sequence[str], layers: Sequence[str]) -> bytes:
    """Return an archive for `docker load` that holds a config and only names its layers."""
    name = f"{image_id[7:]}.json"
    manifest = [{"Config": name, "RepoTags": list(tags), "Layers": [f"{layer[7:]}/layer.tar" for layer in layers]}]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, data in ((name, config), ("manifest.json", json.dumps(manifest).encode())):
            member = tarfile.TarInfo(path)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def _rfc3339(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _build_with(build: Sequence[str], context: Path, tags: Sequence[str], env: Mapping[str, str]) -> str:
    names = [part for tag in tags for part in ("--tag", tag)]
    with tempfile.TemporaryDirectory(prefix="patchkit-") as folder:
        id_file = Path(folder) / "id"
        done = run_process([*build, "--progress=plain", "--iidfile", str(id_file), *names, str(context)], env=env)
        if done.exit_code != 0:
            raise BuildFailed(f"docker build failed: {done.complaint}", "docker's own message says what is missing")
        return id_file.read_text().strip()


@contextmanager
def open_engine(toolkit: Toolkit) -> Iterator[Engine]:
    """Connect to the engine that DOCKER_HOST names, else to the local one. Raises `ToolMissing`."""
    import docker
    from docker.errors import DockerException

    environment = {name: toolkit.env[name] for name in VARIABLES if toolkit.env.get(name)}
    try:
        _knock(environment.get("DOCKER_HOST", DEFAULT_HOST))
        client = docker.from_env(environment=environment, timeout=PING_TIMEOUT_SECONDS)
    except (DockerException, OSError) as error:
        raise _no_engine(error) from error
    try:
        try:
            client.ping()
        except (DockerException, OSError) as error:  # requests' errors are OSErrors
            raise _no_engine(error) from error
        client.api.timeout = API_TIMEOUT_SECONDS
        yield Engine(client, toolkit)
    finally:
        client.close()


def _knock(host: str) -> None:
    """Raise `OSError` when nobody listens on a local socket; the SDK leaves its own socket open then."""
    if host.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as knocking:
            knocking.settimeout(PING_TIMEOUT_SECONDS)
            knocking.connect(host.removeprefix("unix://"))


def _no_engine(error: Exception) -> ToolMissing:
    return ToolMissing(
        f"the Docker engine does not answer: {error}", "start it (dockerd), set DOCKER_HOST, or use --engine oci"
    )


def _local(image: DockerImage) -> LocalImage:
    digests = sorted(str(name).rpartition("@")[2] for name in image.attrs.get("RepoDigests") or [])
    return LocalImage(str(image.id), digests[0] if digests else str(image.id))


def find_clients(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return every docker client on PATH, in order."""
    folders = env.get("PATH", os.defpath).split(os.pathsep)
    found = (Path(folder) / "docker" for folder in folders if folder)
    return tuple(dict.fromkeys(str(path) for path in found if find_program(str(path))))


def has_buildkit(client: str, env: Mapping[str, str]) -> bool:
    """Return whether a client can build with BuildKit: its plugin answers, or it has BuildKit inside."""
    if run_process([client, "buildx", "version"], env=env, timeout_seconds=30).exit_code == 0:
        return True
    version = re.search(r"version (\d+)", run_process([client, "--version"], env=env, timeout_seconds=30).text)
    return version is not None and int(version[1]) < BUILDX_SINCE
