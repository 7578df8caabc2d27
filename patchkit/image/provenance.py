"""What is in an image, told by the image itself: a file and labels. No clock, no host: same inputs, same bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from patchkit import __version__
from patchkit.image.image import BaseName, ImagePlan
from patchkit.image.overlay import OWN_FOLDER, SYMLINK, Overlay, OverlayFile
from patchkit.stack.outcome import PatchRecord

PROVENANCE_PATH = f"{OWN_FOLDER}/provenance.json"
LOCK_PATH = f"{OWN_FOLDER}/recipe.lock"


def provenance_files(plan: ImagePlan, overlays: Sequence[Overlay], base: BaseName) -> tuple[OverlayFile, ...]:
    """Return the files that tell where the image comes from: provenance.json and, with a lock, recipe.lock.

    `overlays` are those of the plan's parts.
    """
    document = json.dumps(describe(plan, overlays, base), indent=1, sort_keys=True, ensure_ascii=False)
    files = [OverlayFile(PROVENANCE_PATH, 0o100644, document.encode() + b"\n")]
    if plan.lock_text:
        files.append(OverlayFile(LOCK_PATH, 0o100644, plan.lock_text))
    return tuple(files)


def describe(plan: ImagePlan, overlays: Sequence[Overlay], base: BaseName) -> dict[str, Any]:
    """Return the content of provenance.json; `beside` only where several upstreams are patched."""
    beside = [_describe_part(part, overlay) for part, overlay in zip(plan.beside, overlays[1:], strict=True)]
    return {
        **({"beside": beside} if beside else {}),
        "format": 1,
        "patchkit": __version__,
        "recipe": plan.name,
        "version": plan.version,
        "target": plan.target.model_dump(mode="json", by_alias=True),
        "base": asdict(base),
        **_describe_part(plan, overlays[0]),
        "lock": {"path": LOCK_PATH, "sha256": _sha256(plan.lock_text)} if plan.lock_text else None,
    }


def _describe_part(plan: ImagePlan, overlay: Overlay) -> dict[str, Any]:
    return {
        "upstream": _describe_upstream(plan),
        "tree": plan.patched.id,
        "series": [_describe_patch(record) for record in plan.patched.applied],
        "root": overlay.root,
        "files": [_describe_file(file) for file in overlay.files],
        "removed": list(overlay.removed),
        "left_out": list(overlay.left_out),
    }


def _describe_upstream(plan: ImagePlan) -> dict[str, Any]:
    commit = plan.patched.base.commit
    origin = plan.origins.get(commit.upstream)
    return {
        "name": commit.upstream,
        "commit": commit.id,
        "tree": plan.patched.base.id,
        "version": commit.version,
        "time": _timestamp(commit.time),
        "origin": asdict(origin) if origin else None,
    }


def _describe_patch(record: PatchRecord) -> dict[str, Any]:
    names = ("patch", "sha256", "method", "detail")
    told = {name: getattr(record, name) for name in names}
    return {**told, "outcome": record.outcome.value, "files": list(record.files)}


def _describe_file(file: OverlayFile) -> dict[str, Any]:
    if file.mode == SYMLINK:
        return {"path": file.path, "target": file.data.decode("utf-8", "replace")}
    return {"path": file.path, "sha256": _sha256(file.data), "size": len(file.data)}


def image_labels(plan: ImagePlan, base: BaseName) -> dict[str, str]:
    """Return the image's labels: the OCI names where there is one, else `io.patchkit.*`. None is empty."""
    commit = plan.patched.base.commit
    origin = plan.origins.get(commit.upstream)
    labels = {
        "org.opencontainers.image.title": plan.name,
        "org.opencontainers.image.version": plan.version,
        "org.opencontainers.image.revision": commit.id,
        "org.opencontainers.image.source": origin.location if origin and origin.kind == "git" else "",
        "org.opencontainers.image.base.name": "" if base.name == "none" else base.name,
        "org.opencontainers.image.base.digest": base.digest,
        "io.patchkit.recipe": plan.name,
        "io.patchkit.tree": plan.patched.id,
        "io.patchkit.series": " ".join(record.patch for part in plan.parts for record in part.patched.applied),
        "io.patchkit.lock-sha256": _sha256(plan.lock_text) if plan.lock_text else "",
    }
    labels |= {f"io.patchkit.tree.{part.patched.base.commit.upstream}": part.patched.id for part in plan.beside}
    return {name: value for name, value in labels.items() if value}


def created_time(plan: ImagePlan) -> str:
    """Return the image's creation time, which is the upstream commit's."""
    return _timestamp(plan.time)


def _timestamp(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
