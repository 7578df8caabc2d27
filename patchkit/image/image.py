"""What `build` is asked for, and the image that it makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from patchkit.recipe.model import ImageSpec, Target
from patchkit.source.source import Origin
from patchkit.stack.outcome import PatchedTree
from patchkit.tools.registry import parse_reference

EngineChoice = Literal["auto", "docker", "oci"]


@dataclass(frozen=True)
class ImagePlan:
    """All that goes into an image: equal plans over equal bases give equal layers. `origins` is by upstream."""

    spec: ImageSpec
    name: str
    version: str
    patched: PatchedTree
    origins: Mapping[str, Origin]
    lock_text: bytes  # empty when the recipe has no lock
    target: Target
    recipe_folder: Path  # what `oci:PATH` is relative to
    base_digest: str = ""  # the lock's digest of the base; empty takes what the name means now
    is_installed: bool = False  # patched as a wheel installs it: the base must hold this very version
    beside: tuple[ImagePlan, ...] = ()  # the other upstreams of the recipe whose patched files go into the same layer

    @property
    def root(self) -> str | None:
        """Return the folder of the base that holds the package, None to look for it."""
        return self.spec.roots.get(self.patched.base.commit.upstream, self.spec.root)

    @property
    def parts(self) -> tuple[ImagePlan, ...]:
        """Return this plan and those beside it."""
        return (self, *self.beside)

    @property
    def package(self) -> str:
        """Return the folder of the tree that is the product, as Python imports it."""
        return self.patched.base.commit.upstream.replace("-", "_")

    @property
    def base(self) -> str:
        """Return the base to ask for: a registry's image by the lock's digest, since tags move."""
        name = self.spec.base
        if not self.base_digest or name == "none" or name.startswith("oci:") or "@" in name:
            return name
        return f"{parse_reference(name).untagged}@{self.base_digest}"

    @property
    def time(self) -> int:
        """Return the one time that stands in the image: the upstream commit's, in seconds since 1970 UTC."""
        return self.patched.base.commit.time


@dataclass(frozen=True)
class BaseName:
    """What the image stands on, for labels and provenance. `digest` is empty for no base."""

    name: str
    digest: str


@dataclass(frozen=True)
class Image:
    """A built image. `digest` is the manifest's sha256 (oci) or the image id (docker); `archive` only for oci."""

    engine: str
    digest: str
    tags: tuple[str, ...]
    archive: Path | None
    files: tuple[str, ...]  # absolute paths in the image that the overlay put there
