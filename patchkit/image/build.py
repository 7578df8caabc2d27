"""Make the image: choose an engine, find the package in the base, put the overlay on it.

Same inputs, same digest: both engines put the same layer on the base, and say the same of it. `oci` writes it all into
an archive; `docker` has the base already and gets the rest.
"""

from __future__ import annotations

import re
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchkit.errors import BuildFailed, RequestError, ToolMissing
from patchkit.image.base import Base, host_platform, open_base
from patchkit.image.daemon import load_image, open_engine_base
from patchkit.image.image import BaseName, EngineChoice, Image, ImagePlan
from patchkit.image.layout import Description, write_archive
from patchkit.image.listing import CONTAINER_PROBE, Listing, from_record, read_probe, scan_layers
from patchkit.image.overlay import LayerContent, Overlay, OverlayFile, check_version, hide_paths, select_overlay
from patchkit.image.provenance import created_time, image_labels, provenance_files
from patchkit.tools.cache import digest_of
from patchkit.tools.docker import Engine, open_engine
from patchkit.tools.registry import parse_reference
from patchkit.tools.toolkit import Progress, Toolkit

NO_BASE = BaseName("none", "")


@dataclass(frozen=True)
class _Content:
    """What goes into the layer, however it is built. `own` are the files that tell the provenance."""

    overlays: tuple[tuple[Overlay, Listing | None], ...]
    own: tuple[OverlayFile, ...]

    @property
    def files(self) -> tuple[OverlayFile, ...]:
        """Return all files of the layer."""
        return (*(file for overlay, _ in self.overlays for file in overlay.files), *self.own)


def build_image(toolkit: Toolkit, plan: ImagePlan, engine: EngineChoice, output: Path) -> Image:
    """Build the image of a plan; `auto` takes docker when it answers. `output` is the archive that `oci` writes.

    Raises `RequestError` for a base that does not fit, `ToolMissing` where docker is asked for and does not answer,
    `BuildFailed`, `RemoteUnavailable`, `StoreFailure`; then no image and no archive is left.
    """
    expand_tags(plan)
    archive_base = plan.spec.base.startswith("oci:")
    if engine == "oci" or (engine == "auto" and archive_base):
        return _build_archive(toolkit, plan, output)
    if archive_base:
        raise RequestError(f"{plan.spec.base}: the docker engine cannot stand on an archive", "use --engine oci")
    try:
        with open_engine(toolkit) as opened:
            return _build_docker(toolkit, plan, opened)
    except ToolMissing:
        if engine == "docker":
            raise
    return _build_archive(toolkit, plan, output)


def check_plan(toolkit: Toolkit, plan: ImagePlan, engine: EngineChoice, output: Path) -> None:
    """Raise what `build_image` would for a plan that is wrong from the start; no layer is read, nothing is written.

    That is a wrong tag, an archive that is a folder, a base that is not there, an engine that does not answer.
    """
    expand_tags(plan)
    if output.is_dir():
        raise RequestError(f"{output}: is a folder", "--output names the archive, a file")
    if plan.spec.base.startswith("oci:") and engine != "docker":
        open_base(toolkit, plan.base, plan.recipe_folder)
    elif engine == "docker":
        with open_engine(toolkit):
            pass


def expand_tags(plan: ImagePlan) -> tuple[str, ...]:
    """Return the image's names with {name} {version} {tree} {arch} filled in. Raises `RequestError`."""
    values = {
        "name": plan.name,
        "version": _for_tag(plan.version),
        "tree": plan.patched.id[:12],
        "arch": _for_tag(plan.target.arch or host_platform()[1]),
    }
    tags = []
    for template in plan.spec.tags:
        unknown = [field for field in re.findall(r"\{([^{}]*)\}", template) if field not in values]
        if unknown:
            known = " ".join(f"{{{field}}}" for field in values)
            raise RequestError(f"tag {template!r}: unknown field {{{unknown[0]}}}", f"the fields are {known}")
        reference = parse_reference(re.sub(r"\{(\w+)\}", lambda found: values[found[1]], template))
        if reference.digest:
            raise RequestError(f"tag {template!r}: a digest cannot be chosen", "use NAME:TAG")
        tags.append(reference.familiar)
    return tuple(dict.fromkeys(tags))


def _for_tag(text: str) -> str:
    """Return text with what a tag may not hold (the + of a local version) replaced."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)


def _collect(plan: ImagePlan, listings: Sequence[Listing | None], base: BaseName, progress: Progress) -> _Content:
    """Choose what goes into the image of each upstream; `listings` are those of the plan's parts."""
    chosen = [_select(part, listing, base, progress) for part, listing in zip(plan.parts, listings, strict=True)]
    return _Content(tuple(zip(chosen, listings, strict=True)), provenance_files(plan, chosen, base))


def _select(plan: ImagePlan, listing: Listing | None, base: BaseName, progress: Progress) -> Overlay:
    """Choose the files of one upstream, and tell which of its changes are left out."""
    if plan.is_installed and listing is None:
        raise RequestError(
            f"{plan.package} is patched as it is installed, and an image without a base has none", "name an image.base"
        )
    if listing is not None and listing.files is not None and not listing.files:
        raise RequestError(f"{base.name}: has no {plan.package} below {listing.root}", "correct or drop its root")
    if listing is not None:
        warning = check_version(listing, plan.patched.base.commit, plan.package, plan.is_installed)
        if warning:
            progress.warn(warning)
    overlay = select_overlay(plan, listing)
    if not overlay.files and not overlay.removed:
        _tell_nothing(plan, listing, progress)
    if overlay.native:
        progress.warn(
            f"needs a native build: {_shorten(overlay.native)}",
            "an overlay carries Python only: build those in the base image, or leave these patches out",
        )
    if others := [path for path in overlay.left_out if path not in overlay.native]:
        progress.warn(f"left out of the image, since not below {plan.package}/: {_shorten(others)}")
    return overlay


def _tell_nothing(plan: ImagePlan, listing: Listing | None, progress: Progress) -> None:
    """Tell that no file of the package goes into the image: a mistake without a base, else worth a look."""
    if listing is None:
        raise BuildFailed(f"the tree has no folder {plan.package}/", "the upstream must be named after its package")
    progress.warn(f"the series changes nothing below {plan.package}/: the image is its base with a provenance file")


def _shorten(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return ", ".join(paths[:3]) + more


# --- engine oci ----------------------------------------------------------------------------------------------------


def _build_archive(toolkit: Toolkit, plan: ImagePlan, output: Path) -> Image:
    base = open_base(toolkit, plan.base, plan.recipe_folder)
    name = BaseName(plan.spec.base, base.name.digest) if base else NO_BASE
    _check_pin(plan, name)
    listings = [_list_base(toolkit, part, base) if base else None for part in plan.parts]
    content = _collect(plan, listings, name, toolkit.progress)
    description = _describe(plan, name)
    toolkit.progress.step(f"write {output}")
    written = write_archive(output, base, _layer(plan, content), description, toolkit.progress)
    for part, listing in zip(plan.parts, listings, strict=True):
        if base and listing:  # now the layers have the digests that they claim: a base cannot tell of another one
            toolkit.cache.write_record("base-listings", _listing_key(part, base), listing.to_record())
    return Image("oci", written.manifest, description.tags, output, _paths(content))


def _check_pin(plan: ImagePlan, base: BaseName) -> None:
    if plan.base_digest and base.digest not in {plan.base_digest, NO_BASE.digest}:
        raise RequestError(
            f"{base.name}: is {base.digest} now, the lock says {plan.base_digest}",
            "bring the old base back, or take the new one: patchkit lock",
        )


def _layer(plan: ImagePlan, content: _Content) -> LayerContent:
    known = [(overlay, listing) for overlay, listing in content.overlays if listing is not None]
    folders = {path: folder for _, listing in known for path, folder in listing.folders.items()}
    hidden = {path for overlay, listing in known for path in hide_paths(overlay, listing)}
    return LayerContent(content.files, tuple(sorted(hidden)), folders, plan.time)


def _describe(plan: ImagePlan, base: BaseName) -> Description:
    labels, comment = image_labels(plan, base), f"recipe {plan.name}"
    return Description(labels, created_time(plan), comment, expand_tags(plan), plan.spec.env)


def _paths(content: _Content) -> tuple[str, ...]:
    return tuple(file.path for file in content.files)


def _list_base(toolkit: Toolkit, plan: ImagePlan, base: Base) -> Listing:
    """Return what the base has of the package, from the store if it can: a large base takes a minute to read."""
    if kept := toolkit.cache.read_record("base-listings", _listing_key(plan, base)):
        return from_record(kept)
    toolkit.progress.step(f"read the file list of {base.name.name}")
    try:
        return scan_layers([layer.blob.open for layer in base.layers], plan.package, plan.root)
    except (tarfile.TarError, OSError, EOFError, ValueError, zlib.error) as error:
        hint = "zstd layers cannot be read: use --engine docker, or a base with gzip layers"
        raise RequestError(f"{base.name.name}: a layer of the base cannot be read: {error}", hint) from error


def _listing_key(plan: ImagePlan, base: Base) -> str:
    layers = [layer.digest for layer in base.layers]
    return digest_of({"format": 2, "layers": layers, "package": plan.package, "root": plan.root})


# --- engine docker -------------------------------------------------------------------------------------------------


def _build_docker(toolkit: Toolkit, plan: ImagePlan, engine: Engine) -> Image:
    listings: list[Listing | None] = [None for _ in plan.parts]
    name, found = NO_BASE, None
    if plan.spec.base != "none":
        parse_reference(plan.base)
        found = engine.find_image(plan.base) or engine.pull(plan.base)
        name = BaseName(plan.spec.base, found.digest)
        _check_pin(plan, name)
        listings = [_ask_base(engine.run_python, part) for part in plan.parts]
    content = _collect(plan, listings, name, toolkit.progress)
    description = _describe(plan, name)
    toolkit.progress.step(f"give {description.tags[0] if description.tags else plan.name} to docker")
    with tempfile.TemporaryDirectory(prefix="patchkit-") as folder:
        base = open_engine_base(engine, name, found.id, Path(folder)) if found else None
        image_id = load_image(engine, base, _layer(plan, content), description, toolkit.progress)
    return Image("docker", image_id, description.tags, None, _paths(content))


def _ask_base(run_python: Callable[[str, str, Sequence[str]], str | None], plan: ImagePlan) -> Listing:
    output = run_python(plan.base, CONTAINER_PROBE, [plan.package, plan.root or ""])
    if output is None:
        raise RequestError(f"{plan.base}: python3 does not run in this base", "use --engine oci: it needs none")
    return read_probe(output, plan.package)
