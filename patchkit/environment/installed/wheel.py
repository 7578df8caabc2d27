"""Writes a patched wheel: members that do not change are copied as they are packed, the others stored, RECORD made new.

Equal inputs give equal bytes on every machine: nothing is packed anew (that depends on the zlib at hand), and no clock
is read. The version gets a local part, in METADATA, in the folders' names and in the file's name alike, so that pip
and people see that it is not upstream's.
"""

from __future__ import annotations

import copy
import re
import secrets
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from packaging.utils import canonicalize_name
from packaging.version import Version

from patchkit.errors import RequestError
from patchkit.source.installed.record import Row, dump_record, edit_rows
from patchkit.source.installed.wheel import Wheel, parse_name
from patchkit.tools.cache import storage_errors

NOTE = "patchkit.json"  # in the dist-info: which series this is, on which wheel
BEGIN_OF_ZIP = (1980, 1, 1, 0, 0, 0)
LOCAL_HEADER = 30  # bytes before a member's name; PKWARE APPNOTE 4.3.7
DATA_FOLLOWS = 0x08  # a flag: sizes stand after the data; they are known here
REGULAR = 0o100644 << 16
ID_DIGITS = 12


@dataclass(frozen=True)
class Repack:
    """What the new wheel is to be: its version, and the files that differ (None: gone) with those of the dist-info."""

    wheel: Wheel
    version: str
    changes: Mapping[str, bytes | None]

    def renamed(self, path: str) -> str:
        """Return the name of a member in the new wheel: the dist-info and data folders carry the version."""
        top, slash, rest = path.partition("/")
        old = self.wheel.distribution.info.removesuffix(".dist-info")
        if slash and top in {f"{old}.dist-info", f"{old}.data"}:
            return f"{old.rpartition('-')[0]}-{self.version}{top.removeprefix(old)}/{rest}"
        return path


def choose_target(wheel: Wheel, out: Path, tree: str) -> tuple[Path, str]:
    """Return the file to write and its version: for a folder both are chosen, a file's name decides the local version.

    Raises `RequestError` for a name that pip would refuse, or that looks like upstream's own wheel.
    """
    distribution = wheel.distribution
    upstream = Version(distribution.version)
    local = f"{upstream.local}." if upstream.local else ""
    version = f"{upstream.public}+{local}patchkit.p{tree[:ID_DIGITS]}"
    name = _renamed_file(wheel.path.name, version)
    if out.is_dir():
        return out / name, version
    found, chosen = parse_name(out.name)
    same = (found, chosen.public) == (canonicalize_name(distribution.name), upstream.public)
    fits = same and out.name == _renamed_file(wheel.path.name, str(chosen))
    if not fits or chosen == upstream or chosen.local is None:
        hint = f"name a folder, or a local version of your own: {name}"
        raise RequestError(f"{out}: is no name for a patched {wheel.path.name}", hint)
    return out, str(chosen)


def _renamed_file(name: str, version: str) -> str:
    """Return a wheel's file name with another version; tags, and a build number, stay."""
    parts = name.split("-")
    return "-".join([parts[0], version, *parts[2:]])


def check_target(source: Path, target: Path) -> None:
    """Raise `RequestError` when writing would replace the wheel that is read, or one that patchkit did not write."""
    if not target.exists():
        return
    if target.samefile(source):
        raise RequestError(f"{target}: is the wheel that is read", "name another file")
    try:
        with zipfile.ZipFile(target) as archive:
            ours = any(name.endswith(f".dist-info/{NOTE}") for name in archive.namelist())
    except (OSError, zipfile.BadZipFile):
        ours = False
    if not ours:
        raise RequestError(f"{target}: is there, and was not written by patchkit", "name another file, or remove it")


def is_patched(wheel: Wheel) -> bool:
    """Return whether a wheel was written here: its upstream's is wanted, since a series has one base."""
    return any(member.filename == f"{wheel.distribution.info}/{NOTE}" for member in wheel.members)


def write_wheel(repack: Repack, note: bytes, target: Path) -> bool:
    """Write a wheel whole or not at all; return whether it is another one than was there. Raises `StoreFailure`."""
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with storage_errors(target):
            with repack.wheel.path.open("rb") as source, zipfile.ZipFile(partial, "w", strict_timestamps=False) as out:
                _fill(repack, note, source, out)
            if target.exists() and _same(partial, target):
                return False
            partial.chmod(0o644)
            partial.replace(target)
            return True
    finally:
        partial.unlink(missing_ok=True)


def _fill(repack: Repack, note: bytes, source: IO[bytes], out: zipfile.ZipFile) -> None:
    info = repack.wheel.distribution.info
    changes = {**repack.changes, f"{info}/METADATA": _metadata(repack), f"{info}/{NOTE}": note}
    record = f"{info}/RECORD"
    for member in repack.wheel.members:
        if member.filename == record:
            continue
        if member.filename not in changes:
            _copy(source, member, repack.renamed(member.filename), out)
        elif (data := changes[member.filename]) is not None:
            _store(out, repack.renamed(member.filename), data, member)
    written = set(out.NameToInfo)
    for path, added in sorted(changes.items()):
        if added is not None and repack.renamed(path) not in written:
            _store(out, repack.renamed(path), added, None)
    _store(out, repack.renamed(record), _record(repack, changes), None)


def _record(repack: Repack, changes: Mapping[str, bytes | None]) -> bytes:
    """Return the new RECORD: rows of changed files made new, all others kept under the new names."""
    old = repack.wheel.distribution
    kept = [row for row in old.rows if row.path != f"{old.info}/RECORD"]
    rows = [replace(row, path=repack.renamed(row.path)) for row in edit_rows(kept, changes)]
    return dump_record([*rows, Row(repack.renamed(f"{old.info}/RECORD"), "", "")])


def _metadata(repack: Repack) -> bytes:
    """Return METADATA with the new version; its text may have such a line too, so only the head is looked at."""
    with zipfile.ZipFile(repack.wheel.path) as archive:
        text = archive.read(f"{repack.wheel.distribution.info}/METADATA")
    end = re.search(rb"\r?\n\r?\n", text)
    head, rest = (text, b"") if end is None else (text[: end.start()], text[end.start() :])
    return re.sub(rb"(?mi)^(Version:[ \t]*)[^\r\n]*", rb"\g<1>" + repack.version.encode(), head, count=1) + rest


def _copy(source: IO[bytes], member: zipfile.ZipInfo, name: str, out: zipfile.ZipFile) -> None:
    """Copy a member as it is packed."""
    if out.fp is None:
        raise ValueError("the wheel is closed")
    source.seek(member.header_offset + 26)
    lengths = source.read(4)
    names, extra = (int.from_bytes(lengths[at : at + 2], "little") for at in (0, 2))
    source.seek(member.header_offset + LOCAL_HEADER + names + extra)
    fresh = copy.copy(member)
    fresh.filename, fresh.extra, fresh.flag_bits = name, b"", member.flag_bits & ~DATA_FOLLOWS
    fresh.header_offset = out.fp.tell()
    out.fp.write(fresh.FileHeader())
    _copy_bytes(source, out.fp, member.compress_size)
    out.filelist.append(fresh)
    out.NameToInfo[name] = fresh
    out.start_dir = out.fp.tell()


def _copy_bytes(source: IO[bytes], out: IO[bytes], size: int) -> None:
    while size > 0:
        piece = source.read(min(size, 1 << 20))
        if not piece:
            raise RequestError("the wheel ends in the middle of a file", "download it again")
        out.write(piece)
        size -= len(piece)


def _store(out: zipfile.ZipFile, name: str, data: bytes, like: zipfile.ZipInfo | None) -> None:
    info = zipfile.ZipInfo(name, BEGIN_OF_ZIP if like is None else like.date_time)
    info.external_attr = REGULAR if like is None else like.external_attr
    info.create_system = 3  # Unix, whose modes those are
    out.writestr(info, data, zipfile.ZIP_STORED)


def _same(left: Path, right: Path) -> bool:
    with left.open("rb") as one, right.open("rb") as other:
        while (piece := one.read(1 << 20)) == other.read(1 << 20):
            if not piece:
                return True
    return False
