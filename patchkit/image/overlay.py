"""Which files of the patched tree go into the image, and the one layer that holds them.

The layer is an uncompressed tar: gzip's output depends on the zlib at hand, and the same inputs must give the same
digest on every machine. Both engines use the same layer.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import IO

from packaging.version import InvalidVersion, Version

from patchkit.errors import BuildFailed, RequestError
from patchkit.image.image import ImagePlan
from patchkit.image.listing import Folder, Listing
from patchkit.source.commit import Commit
from patchkit.tools.git.objects import Entry, Repository
from patchkit.tools.git.paths import check_path

OWN_FOLDER = "/opt/patchkit"
BARE_ROOT = f"{OWN_FOLDER}/site-packages"  # where the whole package lies when there is no base
SYMLINK, SUBMODULE = 0o120000, 0o160000
NATIVE_SUFFIXES = frozenset([".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".inl", ".hip", ".rs", ".cmake"])
NATIVE_NAMES = frozenset({"CMakeLists.txt", "setup.py", "pyproject.toml", "Cargo.toml", "Cargo.lock"})


@dataclass(frozen=True)
class OverlayFile:
    """A file of the layer. `path` is absolute in the image; a symlink (`mode` 0o120000) has its target as `data`."""

    path: str
    mode: int
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class Overlay:
    """What the image gets over its base: absolute paths in the image, but for the paths of the tree left out."""

    root: str
    files: tuple[OverlayFile, ...]
    removed: tuple[str, ...]
    stale: tuple[str, ...]  # byte code in the base of modules that are replaced or removed
    left_out: tuple[str, ...]
    native: tuple[str, ...]  # those left out that need a native build


@dataclass(frozen=True)
class LayerContent:
    """A layer. `whiteouts` hide paths of the base; all times are `time`."""

    files: tuple[OverlayFile, ...]
    whiteouts: tuple[str, ...]
    folders: Mapping[str, Folder]
    time: int


def select_overlay(plan: ImagePlan, listing: Listing | None) -> Overlay:
    """Choose the files: those that the series changed or, without a base, the whole package.

    Raises `BuildFailed` for a file that no layer can hold.
    """
    tree, repository = plan.patched, plan.patched.base.repository
    changes = {delta.path: delta.new for delta in repository.diff(tree.base.id, tree.id)}
    outside = tuple(sorted(path for path in changes if not path.startswith(plan.package + "/")))
    chosen: dict[str, Entry | None] = dict(repository.walk(tree.id)) if listing is None else dict(changes)
    product = {path: entry for path, entry in chosen.items() if path.startswith(plan.package + "/")}
    root = BARE_ROOT if listing is None else listing.root
    files = tuple(_read_files(repository, root, product))
    gone = (f"{root}/{path}" for path, entry in product.items() if entry is None)
    present = tuple(path for path in gone if listing is not None and listing.may_have(path))
    touched = [file.path for file in files] + list(present)
    native = tuple(path for path in (*outside, *product) if path in changes and _is_native(path))
    stale = listing.byte_code_of(touched) if listing is not None else ()
    return Overlay(root, files, _hideable(present, files), stale, outside, native)


def _read_files(repository: Repository, root: str, product: Mapping[str, Entry | None]) -> Iterable[OverlayFile]:
    for path, entry in sorted(product.items()):
        _check_name(path)
        if entry is None or entry.mode == SUBMODULE:
            continue
        if any(part.startswith(".wh.") for part in path.split("/")):
            raise BuildFailed(f"{path}: a layer would read this name as a deletion", "rename the file in the patch")
        yield OverlayFile(f"{root}/{path}", entry.mode, repository.read_blob(entry.blob))


def _check_name(path: str) -> None:
    try:
        check_path(path)
    except ValueError as error:
        raise BuildFailed(f"no layer can hold the tree: {error}", "a tree that git made has no such path") from error


def _hideable(removed: Iterable[str], files: Iterable[OverlayFile]) -> tuple[str, ...]:
    """Leave out deletions that an addition already makes: a folder where a file was, or a file where a folder was."""
    added = {file.path for file in files}
    above = {str(parent) for path in added for parent in PurePosixPath(path).parents}
    return tuple(
        path
        for path in removed
        if path not in above and added.isdisjoint({path, *map(str, PurePosixPath(path).parents)})
    )


def hide_paths(overlay: Overlay, listing: Listing) -> tuple[str, ...]:
    """Return what the layer hides of the base: removed files, stale byte code, and folders that lose all they have.

    An empty folder that stays would still be imported, as a namespace package.
    """
    hidden = {*overlay.removed, *overlay.stale}
    kept = {*(listing.files or ()), *(file.path for file in overlay.files)} - hidden
    needed = {str(parent) for path in kept for parent in PurePosixPath(path).parents}
    inside = len(PurePosixPath(overlay.root).parts)
    empty = {
        str(parent)
        for path in hidden
        for parent in list(PurePosixPath(path).parents)[:-inside]
        if listing.files is not None and str(parent) not in needed
    }
    topmost = (path for path in hidden | empty if str(PurePosixPath(path).parent) not in empty)
    return tuple(sorted(_hideable(topmost, overlay.files)))


def _is_native(path: str) -> bool:
    name = PurePosixPath(path)
    return name.suffix in NATIVE_SUFFIXES or name.name in NATIVE_NAMES


def check_version(listing: Listing, commit: Commit, package: str, is_installed: bool = False) -> str:
    """Compare the base's version of the package with the commit's; return a warning, empty when they agree.

    Local parts (+cu130) do not count. Raises `RequestError` when both are releases and differ; of a package that is
    patched `as it is installed` also when they differ otherwise, or when the base's version is not known.
    """
    hint = "take the base image of the same version, or --at the version of the base"
    if commit.version is None or not listing.versions:
        told = f"cannot tell whether the base holds {package} {commit.version or commit.id[:12]}: no version is known"
        if is_installed:
            raise RequestError(told, "its metadata (*.dist-info) tells it; a base without it cannot be patched")
        return told
    wanted, found = _public(commit.version), {_public(version) for version in listing.versions}
    if found == {wanted}:
        return ""
    names = " and ".join(sorted(listing.versions))
    told = f"the base holds {package} {names}, the series is applied to {package} {commit.version}"
    if not is_installed and any(version is None or version.is_devrelease for version in (wanted, *found)):
        return told
    if is_installed:
        hint = f"take the wheel of {names} in the recipe, or a base with {package} {commit.version}"
    raise RequestError(told, hint)


def _public(version: str) -> Version | None:
    try:
        return Version(Version(version).public)
    except InvalidVersion:
        return None


def write_layer(stream: IO[bytes], content: LayerContent) -> None:
    """Write the layer as a tar: sorted, one time, folders above each file with the attributes they have in the base."""
    members = {file.path: file for file in content.files}
    members |= {mark: OverlayFile(mark, 0o100644, b"") for mark in map(_whiteout, content.whiteouts)}
    above = {str(parent) for path in members for parent in PurePosixPath(path).parents} - {"/"}
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(above | set(members), key=lambda path: path.split("/")):
            if path in above:
                tar.addfile(_folder_member(path, content))
            else:
                _add_file(tar, members[path], content.time)


def _whiteout(path: str) -> str:
    place = PurePosixPath(path)
    return str(place.with_name(f".wh.{place.name}"))


def _folder_member(path: str, content: LayerContent) -> tarfile.TarInfo:
    known = content.folders.get(path, Folder(0o755, 0, 0))
    member = tarfile.TarInfo(path.lstrip("/"))
    member.type, member.mtime = tarfile.DIRTYPE, content.time
    member.mode, member.uid, member.gid = known.mode, known.uid, known.gid
    return member


def _add_file(tar: tarfile.TarFile, file: OverlayFile, time: int) -> None:
    member = tarfile.TarInfo(file.path.lstrip("/"))
    member.mtime = time
    if file.mode == SYMLINK:
        member.type, member.mode = tarfile.SYMTYPE, 0o777
        member.linkname = file.data.decode("utf-8", "surrogateescape")
        tar.addfile(member)
    else:
        member.mode, member.size = file.mode & 0o777, len(file.data)
        tar.addfile(member, io.BytesIO(file.data))
