"""The Docker engine: its API through the SDK. No client is needed, and no builder."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import socket
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from patchkit.errors import BuildFailed, RequestError, ToolMissing
from patchkit.tools.toolkit import Toolkit

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.images import Image as DockerImage

API_TIMEOUT_SECONDS = 600  # an engine may need minutes to unpack a large image
SCRIPT_SECONDS = 300  # to list a package of 20,000 files; a slow disk needs one
OUTPUT_SIZE = "64m"  # of a script; the list of those files has 2 MB
PING_TIMEOUT_SECONDS = 5  # a socket that nobody serves must not hold up `--engine auto`
DEFAULT_HOST = "unix:///var/run/docker.sock"
SNAPSHOTTER = ["driver-type", "io.containerd.snapshotter.v1"]  # how an engine tells of the containerd image store
DOCUMENTS = re.compile(r"index\.json|blobs/sha256/[0-9a-f]{64}")  # what a saved image is understood by
DOCUMENT_BYTES = 4 << 20  # the most that registries take for a manifest
LOAD_HINT = "use --engine oci, then docker load"
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
        """Run a Python script in an image, without network, and return its output; None when it did not run to its end.

        The image may be anybody's: time and output are bounded.
        """
        from docker.errors import APIError
        from docker.types import LogConfig

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
                log_config=LogConfig(type="json-file", config={"max-size": OUTPUT_SIZE, "max-file": "1"}),
            )
            container.start()
            if container.wait(timeout=SCRIPT_SECONDS)["StatusCode"] != 0:
                return None
            return bytes(container.logs(stdout=True, stderr=False)).decode("utf-8", "replace")
        except (APIError, OSError):  # requests' time-out is an OSError
            return None
        finally:  # also when it could not start, which `remove=True` forgets, and when we are interrupted
            if container is not None:
                with contextlib.suppress(APIError, OSError):
                    container.remove(force=True)

    def keeps_blobs(self) -> bool:
        """Return whether the engine keeps images as a registry does, layers compressed: the containerd image store."""
        return SNAPSHOTTER in (self._client.info().get("DriverStatus") or [])

    def inspect(self, name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return what the engine says of an image, and its history, newest first. Raises `RequestError`."""
        from docker.errors import DockerException

        try:
            image = self._client.images.get(name)
            return dict(image.attrs), list(image.history())
        except DockerException as error:
            raise RequestError(
                f"{name}: the engine does not show it: {error}", f"docker image inspect {name}"
            ) from error

    def save_documents(self, name: str, folder: Path) -> None:
        """Save an image as an OCI layout whose large blobs are holes: what names the layers, without the layers.

        The engine sends all of it. Raises `RequestError`; `tarfile.TarError` and `OSError` when it breaks off.
        """
        from docker.errors import DockerException

        self._toolkit.progress.step(f"read what {name} is made of")
        try:
            chunks = self._client.api.get_image(name)
            with tarfile.open(fileobj=_Chunks(chunks), mode="r|") as tar:
                for member in tar:
                    if member.isreg() and (place := DOCUMENTS.fullmatch(member.name)):
                        _keep_document(tar, member, folder / place[0])
        except DockerException as error:
            raise RequestError(f"{name}: the engine does not save it: {error}", f"docker save {name}") from error

    def load(self, archive: Path, ids: Sequence[str]) -> str:
        """Load an archive that names layers which the engine has; return which of its possible ids the image got.

        Raises `BuildFailed`.
        """
        from docker.errors import DockerException

        try:
            with archive.open("rb") as stream:
                self._client.images.load(stream)
            known = [found.id for one in ids if (found := self.find_image(one))]
        except (DockerException, OSError) as error:  # requests' errors are OSErrors
            raise BuildFailed(f"the engine does not load the image: {error}", LOAD_HINT) from error
        if not known:
            raise BuildFailed("the engine loaded the image and does not know it", LOAD_HINT)
        return known[0]


def _keep_document(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    """Write a small member below a folder, and of a large one only a file of its size without content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as sink:
        if member.size > DOCUMENT_BYTES:
            sink.truncate(member.size)
        elif (stream := tar.extractfile(member)) is not None:
            shutil.copyfileobj(stream, sink)


class _Chunks(io.RawIOBase):
    """An answer that comes in chunks, as a stream."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks, self._rest = iter(chunks), b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while len(self._rest) < size and (chunk := next(self._chunks, b"")):
            self._rest += chunk
        data, self._rest = self._rest[:size], self._rest[size:]
        return data


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
