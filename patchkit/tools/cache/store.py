"""The store: folders named by a hash of what went into them, made once, whole or not at all.

One rule: same id, same thing. A folder is built beside its final place and renamed, so a killed process leaves
rubbish under `partial/`, never a half entry; whoever makes an entry later sweeps it. Locks are files, so processes can
share a store.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from patchkit.errors import StoreFailure
from patchkit.tools.cache.files import DAY_SECONDS, age_seconds, remove_path, storage_errors, write_atomically


def _flock(descriptor: int, alone: bool) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB if alone else fcntl.LOCK_SH)
    except BlockingIOError as error:
        raise TimeoutError("users") from error
    except OSError:  # a file system without locks
        return


def _acquire(lock: FileLock, name: str) -> None:
    try:
        lock.acquire()
    except Timeout as error:
        raise TimeoutError(name) from error


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
        if _use(target):
            return target
        with self.lock(f"{kind}-{key}"):
            if _use(target):
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

    @contextlib.contextmanager
    def in_use(self, alone: bool = False) -> Iterator[None]:
        """Say, while the block runs, that this process uses the store, or that it must be the only one that does.

        Waits for one that must be alone; raises `TimeoutError` when others use the store and we must be alone.
        """
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(StoreFailure):  # whoever needs to write is told then
                with storage_errors(self.root):
                    users = (self.scratch("locks") / "users").open("ab")
                _flock(stack.enter_context(users).fileno(), alone)
            yield

    def _sweep(self) -> None:
        """Remove what killed processes left half made: what was not touched for a day is nobody's any more."""
        now = time.time()
        for path in self.scratch("partial").iterdir():
            if age_seconds(path, now) > DAY_SECONDS:
                remove_path(path)

    def read_record(self, kind: str, key: str) -> dict[str, Any] | None:
        """Return a stored JSON record, or None; a record that does not parse counts as absent."""
        try:
            value = json.loads(self.folder(kind, f"{key}.json").read_bytes())
        except (OSError, ValueError):
            return None
        return value if isinstance(value, dict) else None

    def write_record(self, kind: str, key: str, record: dict[str, Any]) -> None:
        """Store a JSON record, replacing an earlier one atomically; one that a power cut emptied counts as absent."""
        data = json.dumps(record, sort_keys=True, indent=1).encode()
        write_atomically(self.folder(kind, f"{key}.json"), data, durable=False)


def _use(entry: Path) -> bool:
    """Return whether an entry is there, and note that it was used: pruning goes by this."""
    with contextlib.suppress(OSError):  # not there, or a store that is only read
        os.utime(entry)
    return entry.exists()
