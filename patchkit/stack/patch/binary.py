"""Git's binary patches: base 85, zlib, and the delta format of packs (gitformat-pack(5), deltified objects)."""

from __future__ import annotations

import base64
import hashlib
import zlib
from dataclasses import dataclass
from typing import Literal

SIZE_LIMIT = 256 << 20  # bytes; no source file is that large, so a larger claim is a bomb or a mistake


@dataclass(frozen=True, slots=True)
class BinaryHunk:
    """The way from one content to another: the whole of it (`literal`) or a delta. `data` is inflated."""

    kind: Literal["literal", "delta"]
    data: bytes

    def apply(self, old: bytes) -> bytes:
        """Return the new content. Raises `ValueError` when a delta does not fit `old`."""
        return self.data if self.kind == "literal" else _apply_delta(self.data, old)


@dataclass(frozen=True, slots=True)
class Binary:
    """A binary change; `backward` is None when the patch holds one direction only."""

    forward: BinaryHunk | None
    backward: BinaryHunk | None

    def reverse(self) -> Binary:
        """Return the change that undoes this one."""
        return Binary(self.backward, self.forward)


def blob_id(data: bytes) -> str:
    """Return the id git gives to a file's bytes (SHA-1)."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def decode_hunk(kind: Literal["literal", "delta"], size: int, lines: list[bytes]) -> BinaryHunk:
    """Return a hunk from its base-85 lines; `size` is the inflated length that its head names. Raises `ValueError`."""
    if size > SIZE_LIMIT:
        raise ValueError(f"a binary patch of {size} bytes")
    packed = b"".join(map(_decode_line, lines))
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(packed, size + 1)
    except zlib.error as error:
        raise ValueError(f"binary data that does not inflate ({error})") from error
    if len(data) != size or not inflater.eof:
        raise ValueError(f"binary data of another length than the {size} bytes it names")
    return BinaryHunk(kind, data)


def _decode_line(line: bytes) -> bytes:
    """Decode one line: its first letter is the number of bytes (A–Z 1–26, a–z 27–52), the rest base 85."""
    first = line[:1]
    if b"A" <= first <= b"Z":
        length = first[0] - ord("A") + 1
    elif b"a" <= first <= b"z":
        length = first[0] - ord("a") + 27
    else:
        raise ValueError("a line that is no base-85 data")
    try:
        data = base64.b85decode(line[1:])
    except ValueError as error:
        raise ValueError("a line that is no base-85 data") from error
    if not length <= len(data) < length + 4:
        raise ValueError("a base-85 line of the wrong length")
    return data[:length]


def _apply_delta(delta: bytes, old: bytes) -> bytes:
    """Return what a delta makes of `old`. Raises `ValueError` when it does not fit."""
    try:
        source_size, at = _read_size(delta, 0)
        target_size, at = _read_size(delta, at)
        if source_size != len(old) or target_size > SIZE_LIMIT:
            raise ValueError("the delta is for another content")
        pieces = []
        while at < len(delta):
            piece, at = _read_piece(delta, at, old)
            pieces.append(piece)
    except IndexError as error:
        raise ValueError("the delta ends too early") from error
    made = b"".join(pieces)
    if len(made) != target_size:
        raise ValueError("the delta makes another length than it names")
    return made


def _read_size(delta: bytes, at: int) -> tuple[int, int]:
    size = shift = 0
    while True:
        byte = delta[at]
        at += 1
        size |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return size, at


def _read_piece(delta: bytes, at: int, old: bytes) -> tuple[bytes, int]:
    """Return the next piece: copied from `old` (high bit set: up to 4 offset and 3 size bytes follow) or literal."""
    command = delta[at]
    at += 1
    if not command & 0x80:
        if command == 0 or at + command > len(delta):
            raise ValueError("the delta holds an unknown instruction")
        return delta[at : at + command], at + command
    numbers = [0] * 7
    for bit in range(7):
        if command & (1 << bit):
            numbers[bit] = delta[at]
            at += 1
    offset = int.from_bytes(bytes(numbers[:4]), "little")
    size = int.from_bytes(bytes(numbers[4:]), "little") or 0x10000
    if offset + size > len(old):
        raise ValueError("the delta copies beyond the end")
    return old[offset : offset + size], at
