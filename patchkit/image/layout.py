"""An image archive without a daemon: an OCI layout in a tar that `docker load` reads as well.

`docker load` before version 25 knows only `manifest.json`, whose paths may point anywhere: here into `blobs/`, so that
both readers share the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path
from typing import IO, Any

from patchkit.errors import RequestError, StoreFailure
from patchkit.image.base import TAR_LAYER, Base, BaseLayer, Blob, host_platform
from patchkit.image.overlay import LayerContent, write_layer
from patchkit.tools.cache import DAY_SECONDS, FULL
from patchkit.tools.registry import parse_reference
from patchkit.tools.toolkit import Progress

MANIFEST_KIND = "application/vnd.oci.image.manifest.v1+json"
CONFIG_KIND = "application/vnd.oci.image.config.v1+json"
INDEX_KIND = "application/vnd.oci.image.index.v1+json"


@dataclass(frozen=True)
class Description:
    """What the image says of itself."""

    labels: Mapping[str, str]
    created: str  # RFC 3339
    comment: str  # history's line for our layer
    tags: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Written:
    """What names the image that was written: the digests of its manifest and of its config."""

    manifest: str
    config: str


def write_archive(
    output: Path, base: Base | None, content: LayerContent, description: Description, progress: Progress
) -> Written:
    """Write the archive whole or not at all; layers of a base that are not at hand are named in it, not carried.

    Raises `StoreFailure` when it cannot be written, `RequestError` for a layer of the base with other bytes than its
    digest says.
    """
    if output.exists() and not output.is_file():
        raise RequestError(f"{output}: is there and is no file, so it is not replaced", "name a file with --output")
    with _output_errors(output):
        output.parent.mkdir(parents=True, exist_ok=True)
        with _partial_file(output) as (own, _), _partial_file(output) as (archive, stream):
            layer = _write_own_layer(own, content)
            layers = (*(base.layers if base else ()), layer)
            config = _encode(_config(base, layer, description))
            manifest = _encode(_manifest(config, layers))
            written = Written(_digest(manifest), _digest(config))
            carried = layers if base is None or base.at_hand else (layer,)
            with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
                _add(tar, "oci-layout", _encode({"imageLayoutVersion": "1.0.0"}))
                _add(tar, "index.json", _encode(_index(manifest, description.tags)))
                _add(tar, "manifest.json", _encode(_docker_manifest(config, layers, description.tags)))
                _add(tar, _place(written.manifest), manifest)
                _add(tar, _place(written.config), config)
                for one in {layer.digest: layer for layer in carried}.values():
                    _copy_layer(tar, one, progress)
            stream.flush()
            os.fsync(stream.fileno())
            archive.chmod(0o644)
            archive.replace(output)
    return written


@contextmanager
def _output_errors(output: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        hint = "write elsewhere with --output"
        hint = f"free space there, or {hint}" if error.errno in FULL else hint
        raise StoreFailure(f"{output}: {error.strerror or error}", hint) from error


@contextmanager
def _partial_file(output: Path) -> Iterator[tuple[Path, IO[bytes]]]:
    """Make a hidden file beside the output, gone at the end unless it was renamed; so are those of killed processes."""
    for left in output.parent.glob(f".{escape(output.name)}.????????"):
        with suppress(OSError):
            if time.time() - left.lstat().st_mtime > DAY_SECONDS:
                left.unlink()
    descriptor, name = tempfile.mkstemp(prefix=f".{output.name}.", dir=output.parent)
    try:
        stream = os.fdopen(descriptor, "wb")
        try:
            yield Path(name), stream
        finally:
            with suppress(OSError):  # what could not be flushed was reported by the write that failed
                stream.close()
    finally:
        Path(name).unlink(missing_ok=True)


def _write_own_layer(path: Path, content: LayerContent) -> BaseLayer:
    with path.open("wb") as stream:
        write_layer(stream, content)
    with path.open("rb") as stream:
        digest = f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"
    return BaseLayer(digest, digest, TAR_LAYER, Blob(path, 0, path.stat().st_size))


def _config(base: Base | None, layer: BaseLayer, description: Description) -> dict[str, Any]:
    """Return the base's config with our layer, labels, variables and time."""
    os_name, architecture = host_platform()
    config: dict[str, Any] = {"os": os_name, "architecture": architecture, **(base.config if base else {})}
    inner = dict(config.get("config") or {})
    inner["Labels"] = {**(inner.get("Labels") or {}), **description.labels}
    if description.env:
        kept = [line for line in inner.get("Env") or [] if line.partition("=")[0] not in description.env]
        inner["Env"] = [*kept, *(f"{name}={value}" for name, value in sorted(description.env.items()))]
    diff_ids = [known.diff_id for known in base.layers] if base else []
    entry = {"created": description.created, "created_by": "patchkit build", "comment": description.comment}
    return {
        **config,
        "created": description.created,
        "config": inner,
        "rootfs": {"type": "layers", "diff_ids": [*diff_ids, layer.diff_id]},
        "history": [*_history(config, len(diff_ids)), entry],
    }


def _history(config: Mapping[str, Any], layers: int) -> list[dict[str, Any]]:
    """Return the base's history; one that does not fit its layers is replaced, since readers count."""
    history = list(config.get("history") or [])
    if sum(not entry.get("empty_layer", False) for entry in history) == layers:
        return history
    return [{"created_by": "base"}] * layers


def _manifest(config: bytes, layers: Sequence[BaseLayer]) -> dict[str, Any]:
    return {
        "schemaVersion": 2,
        "mediaType": MANIFEST_KIND,
        "config": {"mediaType": CONFIG_KIND, "digest": _digest(config), "size": len(config)},
        "layers": [
            {"mediaType": layer.media_type, "digest": layer.digest, "size": layer.blob.size} for layer in layers
        ],
    }


def _index(manifest: bytes, tags: Sequence[str]) -> dict[str, Any]:
    entry = {"mediaType": MANIFEST_KIND, "digest": _digest(manifest), "size": len(manifest)}
    named = [{**entry, "annotations": _annotations(tag)} for tag in tags]
    return {"schemaVersion": 2, "mediaType": INDEX_KIND, "manifests": named or [entry]}


def _annotations(tag: str) -> dict[str, str]:
    reference = parse_reference(tag)
    return {"io.containerd.image.name": reference.full, "org.opencontainers.image.ref.name": reference.tag}


def _docker_manifest(config: bytes, layers: Sequence[BaseLayer], tags: Sequence[str]) -> list[dict[str, Any]]:
    names = [parse_reference(tag).familiar for tag in tags]
    places = [_place(layer.digest) for layer in layers]
    return [{"Config": _place(_digest(config)), "RepoTags": names or None, "Layers": places}]


def _copy_layer(tar: tarfile.TarFile, layer: BaseLayer, progress: Progress) -> None:
    member = _member(_place(layer.digest), layer.blob.size)
    with layer.blob.open() as stream:
        reader = _HashingReader(stream, layer, progress)
        tar.addfile(member, reader)  # type: ignore[arg-type]  # read() is all that tarfile asks for
    reader.check()


class _HashingReader:
    """A layer being read, checked against its digest at the end."""

    def __init__(self, stream: IO[bytes], layer: BaseLayer, progress: Progress) -> None:
        self._stream, self._layer, self._progress = stream, layer, progress
        self._hash, self._done = hashlib.sha256(), 0

    def read(self, size: int) -> bytes:
        data = self._stream.read(size)
        self._hash.update(data)
        self._done += len(data)
        self._progress.advance(f"layer {self._layer.digest[7:19]}", self._done, self._layer.blob.size)
        return data

    def check(self) -> None:
        if (found := f"sha256:{self._hash.hexdigest()}") != self._layer.digest:
            raise RequestError(
                f"{self._layer.blob.path}: the layer {self._layer.digest} has other bytes ({found})",
                "the base is damaged: fetch or save it anew",
            )


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    tar.addfile(_member(name, len(data)), io.BytesIO(data))


def _member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime = size, 0o644, 0
    return member


def _place(digest: str) -> str:
    return f"blobs/sha256/{digest.removeprefix('sha256:')}"


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _encode(document: Any) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
