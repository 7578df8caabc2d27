"""The store: folders named by a hash of what went into them, made once, whole or not at all.

One rule: same id, same thing. A folder is built beside its final place and renamed, so a killed process leaves
rubbish under `partial/`, never a half entry; whoever makes an entry later sweeps it. Locks are files, so processes can
share a store.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

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


def _acquire(lock: FileLock, name: str) -> None:
    try:
        lock.acquire()
    except Timeout as error:
        raise TimeoutError(name) from error


def _make_beside(path: Path) -> tuple[int, str]:
    """Open a new temporary file beside `path`. Raises `OSError` with the name that the user gave."""
    try:
        return tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file whole or not at all: temporary file beside it, fsync, rename. Raises `StoreFailure`.

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


@dataclass(frozen=True)
class Cache:
    """A content-addressed store below one folder."""

    root: Path

    def __post_init__(self) -> None:
        """Raise `StoreFailure` for a path that git objects cannot be opened by."""
        if os.fsencode(self.root).decode("utf-8", "replace") != str(self.root):
            shown = os.fsencode(self.root).decode("utf-8", "backslashreplace")
            raise StoreFailure(f"{shown}: the path of the store is no UTF-8", "PATCHKIT_CACHE names another place")

    def folder(self, kind: str, key: str) -> Path:
        """Return where the entry `key` of a kind lies (or would lie). Nothing is created."""
        return self.root / kind / key

    def scratch(self, kind: str) -> Path:
        """Return the folder of a kind, created; for things that are kept but not content-addressed."""
        path = self.root / kind
        with storage_errors(self.root):
            path.mkdir(parents=True, exist_ok=True)
        return path

    @contextlib.contextmanager
    def lock(self, name: str, timeout_seconds: float = -1) -> Iterator[None]:
        """Hold a lock shared with all processes on this store; waits without end when `timeout_seconds` is negative.

        Raises `TimeoutError` when the lock cannot be had in time.
        """
        path = self.scratch("locks") / (name.replace("/", "-") + ".lock")
        lock = FileLock(path, timeout=timeout_seconds)
        with storage_errors(self.root):
            _acquire(lock, name)
        try:
            yield
        finally:
            lock.release()

    def make(self, kind: str, key: str, build: Callable[[Path], None]) -> Path:
        """Return the folder of an entry, made by `build(folder)` when it is not there; built once, renamed when whole.

        A second process waits for the first. When `build` raises, nothing is kept.
        """
        target = self.folder(kind, key)
        if target.exists():
            return target
        with self.lock(f"{kind}-{key}"):
            if target.exists():
                return target
            self._sweep()
            with storage_errors(self.root):
                partial = Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=self.scratch("partial")))
            try:
                build(partial)
                with storage_errors(self.root):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    partial.rename(target)
            finally:
                remove_path(partial)
        return target

    def _sweep(self) -> None:
        """Remove what killed processes left half made: what was not touched for a day is nobody's any more."""
        prune_store(self, (), 1.0, time.time())

    def read_record(self, kind: str, key: str) -> dict[str, Any] | None:
        """Return a stored JSON record, or None; a record that does not parse counts as absent."""
        try:
            value = json.loads(self.folder(kind, f"{key}.json").read_bytes())
        except (OSError, ValueError):
            return None
        return value if isinstance(value, dict) else None

    def write_record(self, kind: str, key: str, record: dict[str, Any]) -> None:
        """Store a JSON record, replacing an earlier one atomically."""
        write_atomically(self.folder(kind, f"{key}.json"), json.dumps(record, sort_keys=True, indent=1).encode())


@dataclass(frozen=True)
class Usage:
    """What one kind of entry takes: `size_bytes` on disk, `entries` of it."""

    kind: str
    entries: int
    size_bytes: int


def measure_store(cache: Cache) -> tuple[Usage, ...]:
    """Return what each kind takes, largest first. An entry that vanishes meanwhile counts as nothing."""
    kinds = sorted(path for path in cache.root.glob("*") if path.is_dir() and path.name != "locks")
    usages = [Usage(kind.name, sum(1 for _ in kind.iterdir()), _size_of(kind)) for kind in kinds]
    return tuple(sorted(usages, key=lambda usage: -usage.size_bytes))


def prune_store(cache: Cache, kinds: Sequence[str], unused_days: float, now: float) -> tuple[Usage, ...]:
    """Remove entries of `kinds` not touched for `unused_days` (`now`: seconds since 1970), and left-over partial ones.

    Returns what was freed, by kind. Whoever holds an entry's lock keeps it.
    """
    freed = []
    for kind in (*kinds, "partial"):
        folder = cache.root / kind
        days = 1.0 if kind == "partial" else unused_days  # a build of a day ago is not running any more
        old = [path for path in folder.glob("*") if _age_seconds(path, now) >= days * DAY_SECONDS]
        size = sum(_remove(cache, kind, path) for path in old)
        freed.append(Usage(kind, len(old), size))
    return tuple(freed)


def _age_seconds(path: Path, now: float) -> float:
    """Return how long ago an entry was touched: 0 for the future (the clock was set back), less for one just removed."""
    try:
        return max(now - path.lstat().st_mtime, 0.0)
    except FileNotFoundError:
        return -1.0


def _remove(cache: Cache, kind: str, path: Path) -> int:
    try:
        with cache.lock(f"{kind}-{path.name}", timeout_seconds=0):
            size = _size_of(path)
            remove_path(path)
            return size
    except TimeoutError:
        return 0


def _size_of(path: Path) -> int:
    """Return the bytes that a file or folder takes; symbolic links are not followed."""
    total = 0
    waiting = [path]
    while waiting:
        current = waiting.pop()
        with contextlib.suppress(OSError):  # gone meanwhile, or a folder that a probe locked
            info = current.lstat()
            total += info.st_blocks * 512
            if stat.S_ISDIR(info.st_mode):
                waiting.extend(Path(entry.path) for entry in os.scandir(current))
    return total
