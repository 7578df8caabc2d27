"""The engine `docker`: stand on an image that a Docker engine has, and hand it one layer more.

No builder is used. A builder hides files with a RUN only, whose layer holds the time of the build, so equal inputs gave
other ids. An engine loads an archive that carries the new layer alone and names those that it has: the layer is the one
of the engine `oci`, byte for byte.
"""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from patchkit.errors import RequestError
from patchkit.image.base import TAR_LAYER, Base, BaseLayer, Blob, open_layout
from patchkit.image.image import BaseName
from patchkit.image.layout import Description, write_archive
from patchkit.image.overlay import LayerContent
from patchkit.tools.cache import storage_errors
from patchkit.tools.docker import Engine
from patchkit.tools.toolkit import Progress

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
ELSEWHERE = Blob(Path("/dev/null"), 0, 0)  # the bytes of a layer that only the engine has


def open_engine_base(engine: Engine, name: BaseName, image: str, folder: Path) -> Base:
    """Return an image of the engine as a base without the bytes of its layers; `folder` is empty, for what it tells.

    `image` names it to the engine. Raises `RequestError` for an image that cannot be understood.
    """
    try:
        attrs, history = engine.inspect(image)
        if engine.keeps_blobs():
            engine.save_documents(image, folder)
            platform = (attrs["Os"], attrs["Architecture"])  # the engine's, which may be another machine
            return replace(open_layout(name.name, folder, platform), name=name, at_hand=False)
        layers = tuple(BaseLayer(layer, layer, TAR_LAYER, ELSEWHERE) for layer in attrs["RootFS"]["Layers"])
        return Base(name, read_config(attrs, history), layers, at_hand=False)
    except (tarfile.TarError, ValueError, KeyError, TypeError, IndexError, OSError) as error:
        raise RequestError(f"{image}: the engine does not tell what is in it: {error!r}", "use --engine oci") from error


def read_config(attrs: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the config of an image that an engine has: settings, layers and history.

    `attrs` and `history` (newest first) are the engine's words; what else they say is about the builder.
    """
    return {
        **{name.lower(): attrs[name] for name in ("Architecture", "Os", "Variant") if attrs.get(name)},
        "config": {name: value for name in SETTINGS if (value := attrs["Config"].get(name))},
        "rootfs": {"type": "layers", "diff_ids": list(attrs["RootFS"]["Layers"])},
        "history": [_read_entry(entry) for entry in reversed(history)],
    }


def load_image(
    engine: Engine, base: Base | None, content: LayerContent, description: Description, progress: Progress
) -> str:
    """Give the engine an image of a base that it has and one layer; return the id that the engine knows it by.

    Raises `BuildFailed` when the engine does not take it, `StoreFailure`; all tags are set, or none.
    """
    with storage_errors(Path(tempfile.gettempdir())), tempfile.TemporaryDirectory(prefix="patchkit-") as folder:
        archive = Path(folder) / "image.tar"
        written = write_archive(archive, base, content, description, progress)
        return engine.load(archive, (written.manifest, written.config))


def _read_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    told = {"created_by": entry["CreatedBy"], "empty_layer": entry["Size"] == 0}
    if entry["Created"] <= 0:  # the engine's way to say that nobody knows
        return told
    return {**told, "created": datetime.fromtimestamp(entry["Created"], UTC).isoformat()}
