"""What the store holds, and how it is freed."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from patchkit.tools.cache.files import DAY_SECONDS, age_seconds, remove_path
from patchkit.tools.cache.store import Cache


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

    Returns what was freed, by kind. Whoever holds an entry's lock keeps it. What was used today is removed only when
    nobody else uses the store: else raises `TimeoutError`.
    """
    with cache.in_use(alone=True) if unused_days < 1 else contextlib.nullcontext():
        return tuple(_prune_kind(cache, kind, unused_days, now) for kind in (*kinds, "partial"))


def _prune_kind(cache: Cache, kind: str, unused_days: float, now: float) -> Usage:
    days = 1.0 if kind == "partial" else unused_days  # a build of a day ago is not running any more
    old = [path for path in (cache.root / kind).glob("*") if age_seconds(path, now) >= days * DAY_SECONDS]
    return Usage(kind, len(old), sum(_remove(cache, kind, path) for path in old))


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
