"""The base of an image: an archive, a layout folder or a registry, read where it lies.

Archives are never unpacked: a layer is a range of bytes in the archive's file, so a hostile name can go nowhere.
Digests are checked when layers are copied.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from patchkit.errors import RemoteUnavailable, RequestError
from patchkit.image.image import BaseName
from patchkit.source.archive import BoundedMember
from patchkit.tools.registry import Registry, parse_reference
from patchkit.tools.toolkit import Toolkit

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
INDEX_KINDS = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
TAR_LAYER = "application/vnd.oci.image.layer.v1.tar"
LAYER_KINDS = {  # the same bytes under the name that an OCI manifest gives them
    TAR_LAYER: TAR_LAYER,
    "application/vnd.oci.image.layer.v1.tar+gzip": "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd": "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar": TAR_LAYER,
    "application/vnd.docker.image.rootfs.diff.tar.gzip": "application/vnd.oci.image.layer.v1.tar+gzip",
}


@dataclass(frozen=True)
class Blob:
    """A range of bytes in a file."""

    path: Path
    offset: int
    size: int

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open it for reading, with no more than its bytes to be seen."""
        with self.path.open("rb") as stream:
            stream.seek(self.offset)
            yield io.BufferedReader(Window(stream, self.size))

    def read(self) -> bytes:
        """Return all of it; for manifests and configs."""
        with self.open() as stream:
            return stream.read()


class Window(io.RawIOBase):
    """The next `size` bytes of a stream, as a stream."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        """Show at most `size` bytes from where the stream stands."""
        self._stream, self._left = stream, size

    def readable(self) -> bool:
        """Say yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read on into a buffer."""
        data = self._stream.read(min(len(buffer), self._left))
        buffer[: len(data)] = data
        self._left -= len(data)
        return len(data)


@dataclass(frozen=True)
class BaseLayer:
    """A layer as it lies in the base. `digest` names its bytes, `diff_id` those of the tar inside."""

    digest: str
    diff_id: str
    media_type: str
    blob: Blob


@dataclass(frozen=True)
class Base:
    """An image to stand on. Not `at_hand` are layers whose bytes only an engine has."""

    name: BaseName
    config: Mapping[str, Any]
    layers: tuple[BaseLayer, ...]
    at_hand: bool = True


Find = Callable[[str], Blob]  # a digest's bytes


def host_platform() -> tuple[str, str]:
    """Return os and architecture of this machine, as images name them."""
    machine = platform.machine()
    return "linux", MACHINES.get(machine, machine)


def open_base(toolkit: Toolkit, name: str, folder: Path) -> Base | None:
    """Open the base that a recipe names: none, `oci:PATH` (relative to `folder`), or a registry's image.

    Raises `RequestError` for what is no image, `RemoteUnavailable` for a registry that does not give it.
    """
    if name == "none":
        return None
    if not name.startswith("oci:"):
        return _from_registry(toolkit, name)
    path = folder / name.removeprefix("oci:")
    try:
        return open_layout(name, path) if path.is_dir() else _from_archive(name, path)
    except FileNotFoundError as error:
        raise RequestError(f"{path}: there is no base image here", "image.base is relative to the recipe") from error
    except (tarfile.TarError, ValueError, KeyError, TypeError, IndexError, AttributeError, OSError) as error:
        hint = "write it anew, e.g. docker save -o base.tar IMAGE (an archive must not be compressed)"
        raise RequestError(f"{path}: not a whole image archive or layout: {error}", hint) from error


def resolve_base_digest(toolkit: Toolkit, name: str, folder: Path) -> str:
    """Return the digest of what a base's name means now, for the lock; empty for none. No layer is fetched.

    Raises as `open_base` does.
    """
    if name == "none" or name.startswith("oci:"):
        base = open_base(toolkit, name, folder)
        return base.name.digest if base else ""
    reference = parse_reference(name)
    return reference.digest or Registry(toolkit, reference).read_manifest(reference.tag)[0]


def _from_registry(toolkit: Toolkit, name: str) -> Base:
    reference = parse_reference(name)
    registry = Registry(toolkit, reference)
    asked = reference.digest or reference.tag

    def find(digest: str) -> Blob:
        path = registry.download_blob(digest)
        return Blob(path, 0, path.stat().st_size)

    try:
        digest, manifest = registry.read_manifest(asked)
        if _is_index(manifest):
            _, manifest = registry.read_manifest(_choose_manifest(manifest, name)["digest"])
        return _assemble(BaseName(name, digest), manifest, find)
    except (ValueError, KeyError, TypeError) as error:
        raise RemoteUnavailable(f"{name}: the registry sent no image: {error!r}") from error


def open_layout(name: str, folder: Path) -> Base:
    """Read the index, manifest and config of a layout folder. Raises what reading wrong JSON raises."""

    def find(digest: str) -> Blob:
        path = folder / "blobs" / "sha256" / _hexadecimal(digest)
        return Blob(path, 0, path.stat().st_size)

    return _from_index(name, json.loads((folder / "index.json").read_bytes()), find)


def _from_archive(name: str, path: Path) -> Base:
    """Read an archive's table of contents: an OCI layout if it is one, else what `docker save` wrote before."""
    size = path.stat().st_size
    with tarfile.open(path, "r:", tarinfo=BoundedMember) as tar:
        members = {str(PurePosixPath(member.name)): member for member in tar}
    for member in members.values():
        if member.offset_data + member.size > size:
            raise ValueError(f"truncated in {member.name}")

    def open_member(place: str) -> Blob:
        member = members[place]
        if member.issym():  # docker save links a layer that two images share
            parts = (PurePosixPath(place).parent / member.linkname).parts
            member = members["/".join(_without_dots(parts))]
        return Blob(path, member.offset_data, member.size)

    if "index.json" in members:
        index = json.loads(open_member("index.json").read())
        return _from_index(name, index, lambda digest: open_member(f"blobs/sha256/{_hexadecimal(digest)}"))
    return _from_docker_save(name, json.loads(open_member("manifest.json").read()), open_member)


def _without_dots(parts: tuple[str, ...]) -> list[str]:
    kept: list[str] = []
    for part in parts:
        if part == "..":
            kept.pop()
        else:
            kept.append(part)
    return kept


def _from_docker_save(name: str, manifests: list[dict[str, Any]], open_member: Callable[[str], Blob]) -> Base:
    if len(manifests) != 1:
        raise ValueError(f"holds {len(manifests)} images, not one")
    written = open_member(manifests[0]["Config"]).read()
    config = json.loads(written)
    diff_ids = config["rootfs"]["diff_ids"]
    layers = tuple(
        BaseLayer(diff_id, diff_id, TAR_LAYER, open_member(place))
        for diff_id, place in zip(diff_ids, manifests[0]["Layers"], strict=True)
    )
    return Base(BaseName(name, f"sha256:{hashlib.sha256(written).hexdigest()}"), config, layers)


def _from_index(name: str, index: dict[str, Any], find: Find) -> Base:
    """Follow an index to one manifest, through indexes inside it (buildx nests them)."""
    descriptor = _choose_manifest(index, name)
    document = json.loads(_checked(find, descriptor["digest"]))
    while _is_index(document):
        descriptor = _choose_manifest(document, name)
        document = json.loads(_checked(find, descriptor["digest"]))
    return _assemble(BaseName(name, descriptor["digest"]), document, find)


def _is_index(document: Mapping[str, Any]) -> bool:
    return document.get("mediaType") in INDEX_KINDS or "manifests" in document


def _choose_manifest(index: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the manifest for this machine, or the only one there is. Raises `RequestError`."""
    found = {entry["digest"]: entry for entry in index["manifests"]}  # an archive names one image once a tag
    images = [entry for entry in found.values() if entry.get("platform", {}).get("os") != "unknown"]
    if len(images) == 1:
        return dict(images[0])
    os_name, architecture = host_platform()
    for entry in images:
        at = entry.get("platform", {})
        if (at.get("os"), at.get("architecture")) == (os_name, architecture):
            return dict(entry)
    offered = ", ".join(sorted("/".join(map(str, entry.get("platform", {}).values())) for entry in images))
    raise RequestError(
        f"{name}: no image for {os_name}/{architecture} among: {offered or 'none'}",
        "for another machine name its manifest: image.base: NAME@sha256:…",
    )


def _assemble(name: BaseName, manifest: Mapping[str, Any], find: Find) -> Base:
    config = json.loads(_checked(find, manifest["config"]["digest"]))
    layers = tuple(
        BaseLayer(entry["digest"], diff_id, _layer_kind(entry["mediaType"]), find(entry["digest"]))
        for entry, diff_id in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True)
    )
    return Base(name, config, layers)


def _layer_kind(media_type: str) -> str:
    if media_type not in LAYER_KINDS:
        raise RequestError(f"a layer of the base is of the kind {media_type}", "take a base with tar layers")
    return LAYER_KINDS[media_type]


def _checked(find: Find, digest: str) -> bytes:
    """Return a small blob whose bytes are those that its digest names."""
    data = find(digest).read()
    if hashlib.sha256(data).hexdigest() != _hexadecimal(digest):
        raise ValueError(f"{digest} names other bytes than there are")
    return data


def _hexadecimal(digest: str) -> str:
    if not DIGEST.fullmatch(digest):
        raise ValueError(f"{digest!r} is no sha256 digest")
    return digest.removeprefix("sha256:")
