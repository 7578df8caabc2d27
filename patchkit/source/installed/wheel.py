"""A wheel: a zip file with one distribution, read without unpacking it, and refused where it is not a plain one."""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from patchkit.errors import RequestError
from patchkit.source.installed.distribution import Distribution, check_contents, read_distribution
from patchkit.tools.git.paths import check_path

MEMBERS_LIMIT = 200_000  # fifteen times torch's
MEMBER_LIMIT = 128 << 20  # bytes of a file that is read into memory; RECORD says that those are smaller by far
PLAIN = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
ENCRYPTED = 0x1


@dataclass(frozen=True)
class Wheel:
    """A wheel with the text files of its distribution; `members` are all that the zip holds, in its order."""

    path: Path
    distribution: Distribution
    members: tuple[zipfile.ZipInfo, ...]
    contents: Mapping[str, bytes]


def read_wheel(path: Path) -> Wheel:
    """Read a wheel. Raises `RequestError` for a name that is no wheel's, and for a zip with paths out of the wheel,
    links, duplicates, encryption, a signature, two dist-info folders, or files that are not those of its RECORD."""
    name, version = parse_name(path.name)
    try:
        with zipfile.ZipFile(path) as archive:
            members = _check_members(path, archive.infolist())
            info = _find_info(path, members)
            names = {member.filename for member in members}
            distribution = read_distribution(info, lambda file: _read(archive, f"{info}/{file}", names), str(path))
            if (canonicalize_name(distribution.name), Version(distribution.version)) != (name, version):
                raise RequestError(f"{path}: is {distribution.label} inside, not what its name says", "rename it")
            found = {file: _read(archive, file, names) for file in distribution.files}
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError) as error:
        raise RequestError(f"{path}: is no wheel that can be read: {error}", "download it again") from error
    check_contents(distribution, found, str(path))
    return Wheel(path, distribution, members, {file: data for file, data in found.items() if data is not None})


def _read(archive: zipfile.ZipFile, name: str, names: set[str]) -> bytes | None:
    """Return the bytes of a member, None when it is not there. Raises `RuntimeError` for a bomb."""
    if name not in names:
        return None
    with archive.open(name) as stream:
        data = stream.read(MEMBER_LIMIT + 1)
    if len(data) > MEMBER_LIMIT:
        raise RuntimeError(f"{name} is larger than {MEMBER_LIMIT >> 20} MiB")
    return data


def parse_name(filename: str) -> tuple[str, Version]:
    """Return the (normal) name and the version that a wheel's file name says. Raises `RequestError`."""
    try:
        name, version, _, _ = parse_wheel_filename(filename)
    except InvalidWheelFilename as error:
        hint = "wheels are named NAME-VERSION-PYTHON-ABI-PLATFORM.whl"
        raise RequestError(f"{filename}: is no name of a wheel: {error}", hint) from error
    return name, version


def _check_members(path: Path, members: list[zipfile.ZipInfo]) -> tuple[zipfile.ZipInfo, ...]:
    """Return the files of a zip. Raises `RequestError` for what no build tool writes."""
    if len(members) > MEMBERS_LIMIT:
        raise RequestError(f"{path}: has more than {MEMBERS_LIMIT} members", "is it a wheel?")
    seen: set[str] = set()
    for member in members:
        if wrong := _complaint(member, seen):
            raise RequestError(f"{path}: refused: {member.filename}: {wrong}", "the wheel is broken or hostile")
        seen.add(member.filename)
    return tuple(member for member in members if not member.is_dir())


def _complaint(member: zipfile.ZipInfo, seen: set[str]) -> str:
    """Return why a member is refused, '' when it is not."""
    try:
        check_path(member.filename.rstrip("/"))
    except ValueError as error:
        return str(error)
    kind = stat.S_IFMT(member.external_attr >> 16)
    if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
        return "is neither file nor folder"
    if member.filename in seen:
        return "is there twice"
    if "\\" in member.filename or member.orig_filename != member.filename:
        return "has an impossible name"
    if member.flag_bits & ENCRYPTED or member.compress_type not in PLAIN:
        return "is encrypted, or compressed in a way that pip does not read"
    return ""


def _find_info(path: Path, members: tuple[zipfile.ZipInfo, ...]) -> str:
    """Return the name of the one dist-info folder."""
    tops = {member.filename.partition("/")[0] for member in members if "/" in member.filename}
    infos = sorted(top for top in tops if top.endswith(".dist-info"))
    if len(infos) != 1:
        raise RequestError(f"{path}: has {len(infos)} dist-info folders instead of one", "download it again")
    signed = [member.filename for member in members if member.filename.endswith(("/RECORD.jws", "/RECORD.p7s"))]
    if signed:
        raise RequestError(f"{path}: is signed ({signed[0]}), and a patch would break that", "take an unsigned wheel")
    return infos[0]
