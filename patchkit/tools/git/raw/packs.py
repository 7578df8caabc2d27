"""Many objects written as one pack with its index (gitformat-pack(5), versions 2): two files instead of hundreds."""

from __future__ import annotations

import hashlib
import os
import secrets
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

COMMIT, TREE, BLOB = 1, 2, 3  # git's numbers for kinds of objects
NAMES = {COMMIT: b"commit", TREE: b"tree", BLOB: b"blob"}
LEVEL = 0  # of zlib: a patched tree is read soon and seldom kept; `git gc` compresses what is
FEW = 100  # below it git unpacks what it is sent into loose objects (receive.unpackLimit)


class RawObject(NamedTuple):
    """An object: git's number for its kind, and its bytes."""

    kind: int
    data: bytes


def object_id(kind: int, data: bytes) -> str:
    """Return git's id of an object (SHA-1)."""
    digest = hashlib.sha1(b"%s %d\0" % (NAMES[kind], len(data)), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


def write_pack(folder: Path, objects: Sequence[tuple[str, RawObject]]) -> None:
    """Store objects, each once, in the folder of a repository's packs; the same objects again are the same pack.

    Like loose objects of git, it is not synced to the disk. Raises `OSError`.
    """
    ordered = sorted(objects)
    name = hashlib.sha1("".join(key for key, _ in ordered).encode(), usedforsecurity=False).hexdigest()
    place = folder / f"pack-{name}.idx"
    if place.exists():
        return
    pieces = [b"PACK" + _number(2) + _number(len(ordered))]
    offset = len(pieces[0])
    offsets, checks = [], []
    for _, one in ordered:
        packed = _pack_object(one)
        pieces.append(packed)
        offsets.append(offset)
        checks.append(zlib.crc32(packed))
        offset += len(packed)
    if offset >= 1 << 31:
        raise OSError(f"{offset} bytes are too many for one pack")
    body = b"".join(pieces)
    pack = _sealed(body)
    ids = [bytes.fromhex(key) for key, _ in ordered]
    index = [b"\xfftOc", _number(2), _fan_out(ids), *ids, *map(_number, checks), *map(_number, offsets), pack[-20:]]
    folder.mkdir(parents=True, exist_ok=True)
    _write(place.with_suffix(".pack"), pack)
    _write(place, _sealed(b"".join(index)))  # last: a pack without an index is not there for git


def _pack_object(one: RawObject) -> bytes:
    """Return an object as it stands in a pack: kind and size (4 bits, then 7 a byte, lowest first), then zlib's."""
    size = len(one.data)
    byte, size = (one.kind << 4) | (size & 0x0F), size >> 4
    head = bytearray()
    while size:
        head.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    head.append(byte)
    return bytes(head) + zlib.compress(one.data, LEVEL)


def _fan_out(ids: Sequence[bytes]) -> bytes:
    """Return how many ids begin with each byte or a lower one."""
    counts = [0] * 256
    for one in ids:
        counts[one[0]] += 1
    total, table = 0, []
    for count in counts:
        total += count
        table.append(_number(total))
    return b"".join(table)


def _sealed(data: bytes) -> bytes:
    return data + hashlib.sha1(data, usedforsecurity=False).digest()


def _number(value: int) -> bytes:
    return value.to_bytes(4, "big")


def _write(path: Path, data: bytes) -> None:
    """Write a read-only file beside its place, under a name that git's own cleaning knows, then rename it."""
    fresh = path.with_name(f"tmp_{secrets.token_hex(6)}")
    try:
        with open(fresh, "xb", opener=lambda name, flags: os.open(name, flags, 0o444)) as file:
            file.write(data)
        fresh.rename(path)
    finally:
        fresh.unlink(missing_ok=True)
