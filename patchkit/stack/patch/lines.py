"""The lines of a patch file while it is read, and where the reader stands, for messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from patchkit.stack.patch.model import MalformedPatch


def split_lines(data: bytes) -> list[bytes]:
    """Return the lines of a file with their ends; only LF ends a line (a lone CR is text)."""
    parts = data.split(b"\n")
    last = parts.pop()
    lines = [part + b"\n" for part in parts]
    return [*lines, last] if last else lines


@dataclass
class Lines:
    """Lines with a position. `at` is the index of the next one; `first` is the number of the first one in its file."""

    lines: list[bytes]
    first: int = 1
    at: int = 0

    @property
    def number(self) -> int:
        """Return the number of the next line in its file."""
        return self.first + self.at

    @property
    def ended(self) -> bool:
        """Return whether there is no next line."""
        return self.at >= len(self.lines)

    def peek(self, ahead: int = 0) -> bytes:
        """Return the next line, or one after it; empty beyond the end."""
        index = self.at + ahead
        return self.lines[index] if index < len(self.lines) else b""

    def fail(self, message: str, number: int | None = None) -> NoReturn:
        """Raise `MalformedPatch` at the next line, or at another one."""
        raise MalformedPatch(number or self.number, message)
