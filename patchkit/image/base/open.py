"""The base of an image: an archive, a layout folder or a registry, read where it lies.

Archives are never unpacked: a layer is a range of bytes in the archive's file, so a hostile name can go nowhere.
Digests are checked when layers are copied. Whoever wrote the base may be hostile: what is read into memory is bounded,
and what is built upon has the kind that it should have.
"""

from __future__ import annotations

import hashlib
import json
import platform
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from patchkit.errors import RemoteUnavailable, RequestError
from patchkit.image.base.blob import Blob
from patchkit.image.base.config import DIGEST, parse_config
from patchkit.image.image import BaseName
from patchkit.source.archive import BoundedMember
from patchkit.tools.registry import Registry, parse_reference
from patchkit.tools.toolkit import Toolkit
from patchkit.tools.web.patience import DOCUMENT_BYTES

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


MALFORMED = (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError)  # JSON of other kinds
MEMBERS_LIMIT = 100_000  # of an archive: a blob each, and an image has at most 127 layers


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


Platform = tuple[str, str]  # os and architecture, as images name them
Find = Callable[[str, int], Blob]  # a digest's bytes, of which there are at most so many


def host_platform() -> Platform:
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
    except (tarfile.TarError, OSError, *MALFORMED) as error:
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

    def find(digest: str, most_bytes: int) -> Blob:
        path = registry.download_blob(digest, most_bytes)
        return Blob(path, 0, path.stat().st_size)

    try:
        digest, manifest = registry.read_manifest(asked)
        if _is_index(manifest):
            _, manifest = registry.read_manifest(_choose_manifest(manifest, name)["digest"])
        return _assemble(BaseName(name, digest), manifest, find)
    except MALFORMED as error:
        raise RemoteUnavailable(f"{name}: the registry sent no image: {error!r}") from error


def open_layout(name: str, folder: Path, platform: Platform | None = None) -> Base:
    """Read the index, manifest and config of a layout folder, for this machine or another platform.

    Raises what reading wrong JSON raises.
    """

    def open_file(path: Path) -> Blob:
        if not path.is_file() and path.exists():
            raise ValueError(f"{path.name} is no file")
        return Blob(path, 0, path.stat().st_size)

    def find(digest: str, _most_bytes: int) -> Blob:
        return open_file(folder / "blobs" / "sha256" / _hexadecimal(digest))

    return _from_index(name, json.loads(open_file(folder / "index.json").read()), find, platform)


def _from_archive(name: str, path: Path) -> Base:
    """Read an archive's table of contents: an OCI layout if it is one, else what `docker save` wrote before."""
    size = path.stat().st_size
    if not path.is_file():
        raise ValueError("is no file")
    members: dict[str, tarfile.TarInfo] = {}
    with tarfile.open(path, "r:", tarinfo=BoundedMember) as tar:
        for member in tar:
            if member.offset_data + member.size > size:
                raise ValueError(f"truncated in {member.name}")
            members[str(PurePosixPath(member.name))] = member
            if len(members) > MEMBERS_LIMIT:
                raise ValueError(f"more than {MEMBERS_LIMIT} members")

    def open_member(place: str) -> Blob:
        member = members[place]
        if member.issym():  # docker save links a layer that two images share
            parts = (PurePosixPath(place).parent / member.linkname).parts
            member = members["/".join(_without_dots(parts))]
        return Blob(path, member.offset_data, member.size)

    if "index.json" in members:
        index = json.loads(open_member("index.json").read())
        return _from_index(name, index, lambda digest, _: open_member(f"blobs/sha256/{_hexadecimal(digest)}"))
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
    config = parse_config(written)
    diff_ids = config["rootfs"]["diff_ids"]
    layers = tuple(
        BaseLayer(diff_id, diff_id, TAR_LAYER, open_member(place))
        for diff_id, place in zip(diff_ids, manifests[0]["Layers"], strict=True)
    )
    return Base(BaseName(name, f"sha256:{hashlib.sha256(written).hexdigest()}"), config, layers)


def _from_index(name: str, index: dict[str, Any], find: Find, platform: Platform | None = None) -> Base:
    """Follow an index to one manifest, through indexes inside it (buildx nests them)."""
    descriptor = _choose_manifest(index, name, platform)
    document = json.loads(_checked(find, descriptor["digest"]))
    while _is_index(document):
        descriptor = _choose_manifest(document, name, platform)
        document = json.loads(_checked(find, descriptor["digest"]))
    return _assemble(BaseName(name, descriptor["digest"]), document, find)


def _is_index(document: Mapping[str, Any]) -> bool:
    return document.get("mediaType") in INDEX_KINDS or "manifests" in document


def _choose_manifest(index: Mapping[str, Any], name: str, platform: Platform | None = None) -> dict[str, Any]:
    """Return the manifest for a platform, or the only one there is. Raises `RequestError`."""
    found = {entry["digest"]: entry for entry in index["manifests"]}  # an archive names one image once a tag
    images = [entry for entry in found.values() if entry.get("platform", {}).get("os") != "unknown"]
    if len(images) == 1:
        return dict(images[0])
    os_name, architecture = platform or host_platform()
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
    config = parse_config(_checked(find, manifest["config"]["digest"]))
    layers = tuple(
        BaseLayer(entry["digest"], diff_id, _layer_kind(entry["mediaType"]), find(entry["digest"], entry["size"]))
        for entry, diff_id in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True)
    )
    return Base(name, config, layers)


def _layer_kind(media_type: str) -> str:
    if media_type not in LAYER_KINDS:
        raise RequestError(f"a layer of the base is of the kind {media_type}", "take a base with tar layers")
    return LAYER_KINDS[media_type]


def _checked(find: Find, digest: str) -> bytes:
    """Return a small blob whose bytes are those that its digest names."""
    data = find(digest, DOCUMENT_BYTES).read()
    if hashlib.sha256(data).hexdigest() != _hexadecimal(digest):
        raise ValueError(f"{digest} names other bytes than there are")
    return data


def _hexadecimal(digest: str) -> str:
    if not DIGEST.fullmatch(digest):
        raise ValueError(f"{digest!r} is no sha256 digest")
    return digest.removeprefix("sha256:")
