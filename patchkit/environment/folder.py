"""Write git trees to disk: whole into a new folder, or into a folder that holds another tree and whatever a probe left.

Order is what keeps it safe: first everything wrong goes (never through a symbolic link), then folders are made, then
files are created where nothing is. So no write can land outside, whatever the folder held before.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from patchkit.errors import BuildFailed, RequestError, StoreFailure
from patchkit.tools.cache import ensure_folder, remove_path, storage_errors
from patchkit.tools.git.objects import Entry, Repository
from patchkit.tools.git.paths import check_path

LONGEST_NAME, LONGEST_PATH = 255, 3000  # what file systems take; of a path's 4095 bytes the store needs some
MOST_HOPS = 40  # symbolic links in a row; Linux gives up there too


class Stamp(NamedTuple):
    """What the file system says of a file. The change time betrays an edit whose size and mtime were put back."""

    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


@dataclass(frozen=True)
class Found:
    """What lies in a folder: files (symbolic links and all else that is no folder too) and folders, relative paths."""

    files: Mapping[str, Stamp]
    folders: frozenset[str]


def write_tree(repository: Repository, tree: str, folder: Path) -> None:
    """Write a tree to a folder that is absent or empty, whole or not at all. Submodules become empty folders.

    Raises `RequestError` when the folder holds something, `BuildFailed` for a tree that would leave the folder,
    `StoreFailure` when it cannot be written.
    """
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise RequestError(f"{folder}: is there already", "name a folder that does not exist or is empty")
    partial = folder.parent / f".{folder.name}.{secrets.token_hex(4)}"
    try:
        with storage_errors(folder.parent):
            partial.mkdir(parents=True)
        sync_tree(repository, tree, partial)
        with storage_errors(folder.parent):
            partial.rename(folder)
    finally:
        remove_path(partial)


def sync_tree(repository: Repository, tree: str, root: Path) -> dict[str, Stamp]:
    """Make a folder hold a tree and nothing else; every file that is there is compared by its bytes, and kept if right.

    Returns the stamps of all files. Raises `BuildFailed`, `StoreFailure`.
    """
    wanted = dict(repository.walk(tree))
    check_entries(repository, wanted)
    with storage_errors(root):
        found = scan_folder(root)
        keep = {path: found.files[path] for path in found.files if _is_same(root, path, wanted.get(path))}
        return settle(repository, root, found, Plan(wanted, keep))


@dataclass(frozen=True)
class Plan:
    """What a folder is to hold: `entries` are written unless `keep` says that the file there is right already."""

    entries: Mapping[str, Entry]
    keep: Mapping[str, Stamp]


def settle(repository: Repository, root: Path, found: Found, plan: Plan) -> dict[str, Stamp]:
    """Remove what is not kept, write what is missing; return the stamps of all files.

    Raises `OSError` (the caller knows the store), `StoreFailure` for a repository that lacks a file's content.
    """
    missing = {path: entry for path, entry in plan.entries.items() if path not in plan.keep}
    submodules = {path for path, entry in missing.items() if stat.S_IFMT(entry.mode) == 0o160000}
    folders = folders_of([*plan.keep, *missing]) | submodules
    for path in found.files:
        if path not in plan.keep:
            (root / path).unlink()
    for path in sorted(found.folders - folders, reverse=True):  # the inner ones first
        (root / path).rmdir()
    for path in sorted(folders - found.folders):
        (root / path).mkdir()
    stamps = dict(plan.keep)
    for path, entry in missing.items():
        if path not in submodules:
            stamps[path] = _write_entry(f"{root}/{path}", entry.mode, _read_blob(repository, path, entry.blob))
    return stamps


def _read_blob(repository: Repository, path: str, blob: str) -> bytes:
    try:
        return repository.read_blob(blob)
    except KeyError as error:
        hint = "the mirror is not whole; to make it anew: patchkit cache --prune --unused-days 0 mirrors"
        raise StoreFailure(f"{path}: its content {blob[:12]} is not in {repository.path}", hint) from error


def scan_folder(root: Path) -> Found:
    """Return all that lies below a folder, following no symbolic link; a folder that was locked is opened up.

    The folder is made when it is not there, or when a probe left something else in its place.
    """
    ensure_folder(root)
    files: dict[str, Stamp] = {}
    folders: list[str] = []
    waiting = [""]
    while waiting:
        prefix = waiting.pop()
        with os.scandir(f"{root}/{prefix}") as entries:
            for entry in entries:
                info = entry.stat(follow_symlinks=False)
                path = prefix + entry.name
                if not stat.S_ISDIR(info.st_mode):
                    files[path] = stamp_of(info)
                    continue
                if info.st_mode & 0o700 != 0o700:
                    Path(entry.path).chmod(0o755)
                folders.append(path)
                waiting.append(path + "/")
    return Found(files, frozenset(folders))


def stamp_of(info: os.stat_result) -> Stamp:
    """Return the stamp of a file."""
    return Stamp(info.st_mode, info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino)


def folders_of(paths: Iterable[str]) -> set[str]:
    """Return all folders that hold one of the paths, the root left out."""
    folders: set[str] = set()
    for path in paths:
        parent = path.rpartition("/")[0]
        while parent and parent not in folders:
            folders.add(parent)
            parent = parent.rpartition("/")[0]
    return folders


def check_entries(repository: Repository, entries: Mapping[str, Entry]) -> dict[str, str]:
    """Return the symbolic links among the entries of a tree with their targets.

    Raises `BuildFailed` for a path or a link that leaves the tree.
    """
    links = {
        path: os.fsdecode(_read_blob(repository, path, entry.blob))
        for path, entry in entries.items()
        if stat.S_ISLNK(entry.mode)
    }
    check_names(entries)
    check_links(links)
    return links


def check_names(paths: Collection[str]) -> None:
    """Raise `BuildFailed` when one of the paths could leave the folder it is written to."""
    try:
        for part in {part for path in paths for part in path.split("/")}:
            check_path(part)
            if len(part.encode("utf-8", "surrogateescape")) > LONGEST_NAME:
                raise ValueError(f"{part[:40]}…: a name of more than {LONGEST_NAME} bytes")
        for path in paths:
            if len(path) > LONGEST_PATH:
                raise ValueError(f"{path[:40]}…: a path of more than {LONGEST_PATH} letters")
    except ValueError as error:
        raise BuildFailed(
            f"the tree cannot be written to disk: {error}", "a tree that git made has no such path"
        ) from error


def check_links(links: Mapping[str, str]) -> None:
    """Raise `BuildFailed` when a symbolic link, followed through all others, leaves the tree."""
    for path, target in links.items():
        if _leaves(path, links):
            raise BuildFailed(
                f"{path}: the symbolic link to {target} leaves the tree", "take the link out with a patch"
            )


def _leaves(path: str, links: Mapping[str, str]) -> bool:
    """Walk a link as the kernel would: `..` after a link is the parent of where the link leads, not of the link."""
    place = path.split("/")
    waiting: list[str] = []
    for _ in range(MOST_HOPS):
        target = links.get("/".join(place))
        if target is None:
            return False
        if target.startswith("/"):
            return True
        place.pop()
        waiting = [*target.split("/"), *waiting]
        while waiting and "/".join(place) not in links:
            part = waiting.pop(0)
            if part == ".." and not place:
                return True
            if part == "..":
                place.pop()
            elif part not in {"", "."}:
                place.append(part)
    return False  # a loop leads nowhere


def _is_same(root: Path, path: str, entry: Entry | None) -> bool:
    """Return whether the file on disk is what the tree says: kind, executable bit, bytes."""
    if entry is None:
        return False
    file = root / path
    mode = file.lstat().st_mode
    if stat.S_ISLNK(mode):
        return stat.S_ISLNK(entry.mode) and _blob_id(os.fsencode(file.readlink())) == entry.blob
    executable = bool(mode & 0o100) == bool(entry.mode & 0o100)
    return stat.S_ISREG(mode) and stat.S_ISREG(entry.mode) and executable and _blob_id(_read(file)) == entry.blob


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except PermissionError:  # a probe took the permission away: it is not what was written
        return b""


def _blob_id(data: bytes) -> str:
    """Return git's id of a file: sha1 over a header and the bytes."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _write_entry(path: str, mode: int, data: bytes) -> Stamp:
    """Create a file or symbolic link where nothing is."""
    if stat.S_ISLNK(mode):
        Path(path).symlink_to(os.fsdecode(data))
        return stamp_of(os.lstat(path))
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o777 if mode & 0o100 else 0o666)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        return stamp_of(os.fstat(descriptor))
    finally:
        os.close(descriptor)
