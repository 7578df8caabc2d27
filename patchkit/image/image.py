"""The image that `build` makes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Image:
    """A built image. `digest` is the manifest's sha256 (oci) or the image id (docker); `archive` only for oci."""

    engine: str
    digest: str
    tags: tuple[str, ...]
    archive: Path | None
    files: tuple[str, ...]  # absolute paths in the image that the overlay put there
