"""Builds plans and base images for the tests: a real git tree, real tars, fixed times."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchkit.image.image import ImagePlan
from patchkit.recipe.model import ImageSpec, Target
from patchkit.source.commit import Commit, Tree
from patchkit.source.source import Origin
from patchkit.stack.outcome import Outcome, PatchedTree, PatchRecord
from patchkit.tools.cache import Cache
from patchkit.tools.toolkit import Toolkit
from tests.support.repositories import Files, GitRepository

TIME = 1_750_000_000  # 2025-06-15 15:06:40 UTC
ROOT = "/usr/lib/python3/dist-packages"
UPSTREAM: Files = {
    "vllm/__init__.py": "",
    "vllm/envs.py": "A = 1\n",
    "vllm/old.py": "gone = True\n",
    "vllm/sub/op.py": "def op(): return 1\n",
    "tests/test_envs.py": "",
    "csrc/op.cu": "",
}


@dataclass
class Told:
    """Progress that remembers warnings."""

    warnings: list[str] = field(default_factory=list)

    def step(self, message: str) -> None: ...

    def advance(self, message: str, done: int, total: int | None) -> None: ...

    def warn(self, message: str, hint: str = "") -> None:
        self.warnings.append(message)


def make_toolkit(tmp_path: Path, env: Mapping[str, str] | None = None) -> tuple[Toolkit, Told]:
    told = Told()
    return Toolkit(Cache(tmp_path / "store"), told, dict(env or {})), told


def make_plan(tmp_path: Path, changes: Files, version: str | None = "0.26.0", **spec: Any) -> ImagePlan:
    """Plan an image of a small vllm with some changes on it; `spec` is the recipe's `image:`."""
    upstream = GitRepository(tmp_path / "upstream")
    first = upstream.commit(UPSTREAM)
    tree = upstream.tree_of(first)
    patched = upstream.objects.edit(tree, {path: upstream.entry(value) for path, value in changes.items()})
    commit = Commit("vllm", first, tree, "v0.26.0", "first", TIME, version)
    record = PatchRecord("guard", Outcome.CLEAN, "exact", "", tuple(changes), "5" * 64)
    return ImagePlan(
        spec=ImageSpec(**spec),
        name="quickstart",
        version=version or "unknown",
        patched=PatchedTree(patched, Tree(commit, tree, upstream.objects), (record,)),
        origins={"vllm": Origin("git", "https://example.org/vllm.git", None)},
        lock_text=b"format: 1\n",
        target=Target(),
        recipe_folder=tmp_path,
    )


# --- bases ---------------------------------------------------------------------------------------------------------

Members = Sequence[tuple[str, "bytes | str | None"]]  # bytes: a file, str: a symlink's target, None: a folder


def tar_of(members: Members, mode: int = 0o755, owner: int = 0) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.mode, member.uid, member.gid = mode, owner, owner
            if content is None:
                member.type = tarfile.DIRTYPE
            elif isinstance(content, str):
                member.type, member.linkname = tarfile.SYMTYPE, content
            else:
                member.size = len(content)
            tar.addfile(member, io.BytesIO(content) if isinstance(content, bytes) else None)
    return stream.getvalue()


def vllm_layer(version: str = "0.26.0", root: str = ROOT) -> bytes:
    """Return a layer with vllm installed, byte code included."""
    place = root.lstrip("/")
    cached = f"{place}/vllm/__pycache__"
    return tar_of(
        [
            (place, None),
            (f"{place}/vllm", None),
            (f"{place}/vllm/__init__.py", b""),
            (f"{place}/vllm/envs.py", b"A = 1\n"),
            (f"{place}/vllm/old.py", b"gone = True\n"),
            (f"{cached}/envs.cpython-312.pyc", b"x"),
            (f"{cached}/envs.cpython-312.opt-1.pyc", b"x"),
            (f"{cached}/envs_other.cpython-312.pyc", b"x"),
            (f"{cached}/old.cpython-312.pyc", b"x"),
            (f"{place}/vllm-{version}.dist-info/METADATA", b""),
        ]
    )


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def oci_files(layers: Sequence[bytes], compress: bool = True) -> dict[str, bytes]:
    """Return the files of an OCI layout with one image."""
    blobs = [gzip.compress(layer, 1, mtime=0) if compress else layer for layer in layers]
    kind = "application/vnd.oci.image.layer.v1.tar" + ("+gzip" if compress else "")
    config = json.dumps(
        {
            "os": "linux",
            "architecture": "amd64",
            "config": {"Env": ["PATH=/usr/bin"], "Labels": {"from": "base"}},
            "rootfs": {"type": "layers", "diff_ids": [digest(layer) for layer in layers]},
            "history": [{"created_by": "ENV", "empty_layer": True}, *[{"created_by": "ADD"} for _ in layers]],
        }
    ).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": digest(config)},
            "layers": [{"mediaType": kind, "digest": digest(blob), "size": len(blob)} for blob in blobs],
        }
    ).encode()
    index = json.dumps({"schemaVersion": 2, "manifests": [{"digest": digest(manifest), "size": len(manifest)}]})
    files = {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}', "index.json": index.encode()}
    return files | {f"blobs/sha256/{digest(blob)[7:]}": blob for blob in (config, manifest, *blobs)}


def write_archive_of(path: Path, files: Mapping[str, bytes]) -> Path:
    path.write_bytes(tar_of(list(files.items())))
    return path


def docker_save_files(layers: Sequence[bytes]) -> dict[str, bytes]:
    """Return what `docker save` wrote before it knew OCI layouts."""
    diff_ids = [digest(layer) for layer in layers]
    config = {"os": "linux", "architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": diff_ids}}
    places = [f"{diff_id[7:]}/layer.tar" for diff_id in diff_ids]
    manifest = [{"Config": "config.json", "RepoTags": ["base:1"], "Layers": places}]
    files = {"manifest.json": json.dumps(manifest).encode(), "config.json": json.dumps(config).encode()}
    return files | dict(zip(places, layers, strict=True))


# --- what was written ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Written:
    """An archive that the engine `oci` wrote, read back."""

    index: dict[str, Any]
    docker: list[dict[str, Any]]
    manifest: dict[str, Any]
    config: dict[str, Any]
    layers: tuple[bytes, ...]

    def own(self) -> dict[str, tarfile.TarInfo]:
        """Return the members of the top layer."""
        with tarfile.open(fileobj=io.BytesIO(self.layers[-1])) as tar:
            return {member.name: member for member in tar}

    def read(self, path: str) -> bytes:
        """Return a file of the top layer."""
        with tarfile.open(fileobj=io.BytesIO(self.layers[-1])) as tar:
            stream = tar.extractfile(path.lstrip("/"))
            assert stream is not None
            return stream.read()


def read_back(path: Path) -> Written:
    """Read an archive; every blob must have the digest that names it."""
    with tarfile.open(path) as tar:
        files = {member.name: (tar.extractfile(member) or io.BytesIO()).read() for member in tar}
    for name, data in files.items():
        if name.startswith("blobs/"):
            assert name == f"blobs/sha256/{digest(data)[7:]}"

    def blob(entry: Mapping[str, Any]) -> bytes:
        data = files[f"blobs/sha256/{entry['digest'][7:]}"]
        assert len(data) == entry["size"]
        return data

    index = json.loads(files["index.json"])
    manifest = json.loads(blob(index["manifests"][0]))
    layers = tuple(blob(layer) for layer in manifest["layers"])
    config = json.loads(blob(manifest["config"]))
    return Written(index, json.loads(files["manifest.json"]), manifest, config, layers)
