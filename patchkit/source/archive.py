"""Reads an sdist as a stream of files, and refuses whatever is not a plain source tree; nothing is unpacked to disk."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from patchkit.errors import RemoteUnavailable
from patchkit.tools.git.paths import check_path, leaves_root

MEMBERS_LIMIT = 200_000  # thirty times vLLM's
TOTAL_LIMIT = 2 << 30  # bytes unpacked; vLLM has 0.15 GB. A gzip bomb grows a thousandfold
MEMBER_LIMIT = 128 << 20  # bytes of one file, which is read into memory; vLLM's largest has a few MB
HEADER_LIMIT = 1 << 20  # bytes of a long name or of extended attributes
HEADERS = {
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
}
BLOCK = 512  # a tar file is made of blocks, and ends with two of zeros


LONGEST_MESSAGE = 400
LATEST_TIME = 1 << 40  # seconds since 1970, 34,000 years on: what comes later is no date
BROKEN = (
    tarfile.TarError,
    EOFError,
    OSError,
    zlib.error,
    ValueError,
    OverflowError,
    RecursionError,
)  # as readers say it


@dataclass(frozen=True)
class Member:
    """One file of an sdist. `path` is below the archive's top folder; `mode` is git's; `link` names an earlier path."""

    path: str
    mode: int
    data: bytes
    time: int
    link: str | None = None


def read_archive(path: Path) -> Iterator[Member]:
    """Yield the files of a .tar.gz in its order, each checked before it is yielded.

    Raises `RemoteUnavailable` for an archive that is cut off, too large, or holds what no source tree holds: paths that
    leave the top folder, a second top folder, `.git`, duplicates, devices, links out of the tree.
    """
    try:
        with gzip.open(path) as unzipped:
            measured = _Measured(unzipped)
            with tarfile.open(fileobj=measured, mode="r|", errorlevel=2, tarinfo=BoundedMember) as archive:  # type: ignore[call-overload]
                yield from _read_members(archive)
            measured.finish()
    except BROKEN as error:
        hint = "the archive is broken or hostile: nothing of it was kept"
        raise RemoteUnavailable(f"{path.name}: {shorten(str(error))}", hint) from error


def shorten(text: str) -> str:
    """Return a message that holds a name of the archive, which may be as long as the archive likes."""
    return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE // 2]} … {text[-LONGEST_MESSAGE // 2 :]}"


class BoundedMember(tarfile.TarInfo):
    """A member whose extended headers are short, since they go into memory, and whose size leads on, not back."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:  # the entry that tarfile names for subclasses
        if self.type in HEADERS and self.size > HEADER_LIMIT:
            raise ValueError(f"has a header of {self.size} bytes")
        member: tarfile.TarInfo = self if self.size < 0 else super()._proc_member(archive)  # type: ignore[misc]
        if member.size < 0:  # tarfile before 3.11.14 would read the same headers without end
            raise ValueError(f"has a member of {member.size} bytes")
        return member


class _Measured:
    """A stream that counts what is read from it, and remembers its end: a cut tar file looks like a short one."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream
        self._total = 0
        self._end = b""

    def read(self, size: int) -> bytes:
        piece = self._stream.read(size)
        self._total += len(piece)
        if self._total > TOTAL_LIMIT:
            raise ValueError(f"unpacks to more than {TOTAL_LIMIT >> 20} MiB")
        self._end = (self._end + piece)[-2 * BLOCK :]
        return piece

    def finish(self) -> None:
        while self.read(1 << 20):
            pass
        if self._end != bytes(2 * BLOCK):
            raise ValueError("is cut off: the end mark of the archive is missing")


def _read_members(archive: tarfile.TarFile) -> Iterator[Member]:
    names = _Names()
    for count, info in enumerate(archive):
        if count >= MEMBERS_LIMIT:
            raise ValueError(f"has more than {MEMBERS_LIMIT} members")
        path = names.check(info)
        if info.isdir():
            continue
        yield _read_member(archive, info, path, names)
    names.finish()


def _read_member(archive: tarfile.TarFile, info: tarfile.TarInfo, path: str, names: _Names) -> Member:
    time = max(int(info.mtime), 0)
    if time > LATEST_TIME:
        raise ValueError(f"{info.name}: has no possible date")
    if info.issym():
        if leaves_root(path, info.linkname):
            raise ValueError(f"{info.name}: symbolic link out of the tree, to {info.linkname}")
        return Member(path, 0o120000, info.linkname.encode("utf-8", "surrogateescape"), time)
    mode = 0o100755 if info.mode & 0o100 else 0o100644
    if info.islnk():
        return Member(path, mode, b"", time, names.earlier(info))
    if not info.isreg() or info.issparse():
        raise ValueError(f"{info.name}: is neither file, folder nor link")
    if info.size > MEMBER_LIMIT:
        raise ValueError(f"{info.name}: is larger than {MEMBER_LIMIT >> 20} MiB")
    content = archive.extractfile(info)
    if content is None:
        raise ValueError(f"{info.name}: cannot be read")
    return Member(path, mode, content.read(), time)


class _Names:
    """The paths seen so far. An archive may name a path once, and nothing may lie below a file or link."""

    def __init__(self) -> None:
        self._top = ""
        self._files: set[str] = set()
        self._links: set[str] = set()
        self._folders: set[str] = set()

    def check(self, info: tarfile.TarInfo) -> str:
        """Return a member's path below the top folder ('' for the folder itself). Raises `ValueError`."""
        name = info.name
        check_path(name)
        top, _, path = name.partition("/")
        self._top = self._top or top
        if top != self._top:
            raise ValueError(f"{name}: lies outside the top folder {self._top}")
        if not path and not info.isdir():
            raise ValueError(f"{name}: lies in no top folder")
        self._add(path, info)
        return path

    def earlier(self, info: tarfile.TarInfo) -> str:
        """Return the path of the regular file that a hard link repeats."""
        top, _, path = info.linkname.partition("/")
        if top != self._top or path not in self._files or path in self._links:
            raise ValueError(f"{info.name}: hard link to {info.linkname}, which is no earlier file")
        return path

    def _add(self, path: str, info: tarfile.TarInfo) -> None:
        parts = path.split("/")
        self._folders |= {"/".join(parts[:depth]) for depth in range(1, len(parts))}
        if info.isdir():
            self._folders.add(path)
        elif path in self._files:
            raise ValueError(f"{info.name}: is there twice")
        else:
            self._files.add(path)
        if info.issym():
            self._links.add(path)

    def finish(self) -> None:
        """Raise `ValueError` when a file or link is a folder too, or when there was no file at all."""
        for path in sorted(self._files & self._folders):
            raise ValueError(f"{self._top}/{path}: is a file or link, and something lies below it")
        if not self._files:
            raise ValueError("holds no files")
