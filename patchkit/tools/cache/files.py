"""Files and folders on a disk that may be full, locked or shared: written whole, told in one kind of error."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from patchkit.errors import StoreFailure

DAY_SECONDS = 86_400
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def digest_of(value: Any) -> str:
    """Return the sha256 (hex) of a JSON-like value; keys are sorted, so equal values have equal digests."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def digest_file(path: Path) -> str:
    """Return the sha256 (hex) of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextlib.contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn an `OSError` from writing below `path` into a `StoreFailure` that says where and what next."""
    try:
        yield
    except TimeoutError:  # an OSError too, but a lock that is held is no fault of the disk
        raise
    except OSError as error:
        where = path if error.errno in FULL else error.filename or path
        raise StoreFailure(f"{where}: {error.strerror or error}", storage_hint(error, path)) from error


def storage_hint(error: OSError, path: Path) -> str:
    """Return what to do about an `OSError` from writing at `path`: a wrong name needs no free space."""
    if error.errno in FULL:
        return f"free space on the disk of {path}, or set PATCHKIT_CACHE to another one"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "write elsewhere, or get the permission to; PATCHKIT_CACHE names the store"
    return "name a place where files can be made; PATCHKIT_CACHE names the store"


def _make_beside(path: Path) -> tuple[int, str]:
    """Open a new temporary file beside `path`. Raises `OSError` with the name that the user gave."""
    try:
        return tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_atomically(path: Path, data: bytes, durable: bool = True) -> None:
    """Write a file whole or not at all: temporary file beside it, fsync, rename. Raises `StoreFailure`.

    Not `durable`: without the fsync, so a power cut may leave an empty file; for what its reader can do without.
    What is there and is no file (/dev/stdout, a pipe) is written to, not replaced.
    """
    with storage_errors(path):
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "is a folder", str(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = _make_beside(path)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(data)
                stream.flush()
                if durable:
                    os.fsync(stream.fileno())
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise


def ensure_folder(path: Path, mode: int = 0o755) -> None:
    """Make `path` a folder that we may enter and write to, whatever a program left in its place.

    A file or symbolic link there is removed, never followed: what it points to belongs to somebody else.
    """
    if path.is_symlink() or (os.path.lexists(path) and not path.is_dir()):
        path.unlink()
    path.mkdir(mode=mode, parents=True, exist_ok=True)
    if path.stat().st_mode & 0o700 != 0o700:
        path.chmod(mode)


def remove_path(path: Path) -> None:
    """Remove a file, link or folder, locked folders (chmod 000) too; what cannot be removed is left."""
    with contextlib.suppress(OSError):
        if path.is_symlink() or not path.is_dir():
            path.unlink()
            return
    shutil.rmtree(path, ignore_errors=True)
    if path.is_dir():
        _open_up(path)
        shutil.rmtree(path, ignore_errors=True)


def _open_up(folder: Path) -> None:
    """Give ourselves back all folders below one."""
    waiting = [folder]
    while waiting:
        current = waiting.pop()
        with contextlib.suppress(OSError):
            current.chmod(0o700)
            waiting.extend(Path(entry.path) for entry in os.scandir(current) if entry.is_dir(follow_symlinks=False))


def age_seconds(path: Path, now: float) -> float:
    """Return how long ago a path was touched: 0 for the future (the clock was set back), less for one just removed."""
    try:
        return max(now - path.lstat().st_mtime, 0.0)
    except FileNotFoundError:
        return -1.0


@contextlib.contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """Give the place of a new folder beside one; at the end it takes the name, so no reader sees half of it.

    When the block raises, what was there is there still. Raises `StoreFailure`.
    """
    fresh = folder.parent / f".{folder.name}.{secrets.token_hex(4)}"
    old = fresh.with_name(fresh.name + ".old")
    try:
        yield fresh
        with storage_errors(folder.parent):
            if folder.exists():
                folder.rename(old)
            fresh.rename(folder)
    finally:
        if old.exists() and not folder.exists():
            old.rename(folder)
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
