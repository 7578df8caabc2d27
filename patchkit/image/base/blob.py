"""Bytes of a base where they lie: a range of a file, never unpacked."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from patchkit.tools.web.patience import DOCUMENT_BYTES


@dataclass(frozen=True)
class Blob:
    """A range of bytes in a file."""

    path: Path
    offset: int
    size: int

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """Open it for reading, with no more than its bytes to be seen."""
        with self.path.open("rb") as stream:
            stream.seek(self.offset)
            yield io.BufferedReader(Window(stream, self.size))

    def read(self) -> bytes:
        """Return all of it; for manifests and configs. Raises `ValueError` when it is larger than those are."""
        if self.size > DOCUMENT_BYTES:
            raise ValueError(f"a document of {self.size} bytes")
        with self.open() as stream:
            return stream.read()


class Window(io.RawIOBase):
    """The next `size` bytes of a stream, as a stream."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        """Show at most `size` bytes from where the stream stands."""
        self._stream, self._left = stream, size

    def readable(self) -> bool:
        """Say yes."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read on into a buffer."""
        data = self._stream.read(min(len(buffer), self._left))
        buffer[: len(data)] = data
        self._left -= len(data)
        return len(data)
