"""An append-only file of JSON lines that survives kill -9: each event is on the disk before the next step is taken."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchkit.errors import StoreFailure
from patchkit.tools.cache import storage_errors


@dataclass(frozen=True)
class Journal:
    """A journal file; whoever writes to it holds a lock of the store, so that there is one writer."""

    path: Path

    def read(self) -> tuple[dict[str, Any], ...]:
        """Return all whole events; a last line that a killed process left torn is no event.

        Raises `StoreFailure` when an earlier line is not a JSON object: that is no accident of writing.
        """
        with storage_errors(self.path.parent):
            data = self.path.read_bytes() if self.path.exists() else b""
        return tuple(self._parse(number, line) for number, line in enumerate(_whole(data).splitlines(), 1))

    def append(self, event: Mapping[str, Any]) -> None:
        """Write one event and wait until it is on the disk; a torn last line is cut off. Raises `StoreFailure`."""
        line = json.dumps(event, sort_keys=True, separators=(",", ":")).encode() + b"\n"
        with storage_errors(self.path.parent):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new = not self.path.exists()
            with self.path.open("a+b") as stream:
                stream.seek(0)
                stream.truncate(len(_whole(stream.read())))
                stream.write(line)
                stream.flush()
                os.fsync(stream.fileno())
            if new:
                _sync_folder(self.path.parent)

    def clear(self) -> None:
        """Forget all events."""
        with storage_errors(self.path.parent):
            self.path.unlink(missing_ok=True)

    def _parse(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if not isinstance(event, dict):
            raise StoreFailure(f"{self.path}:{number}: not an event", "begin anew with --restart")
        return event


def _whole(data: bytes) -> bytes:
    """Return the data up to the last end of line."""
    return data[: data.rfind(b"\n") + 1]


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder outlive a crash of the machine."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
