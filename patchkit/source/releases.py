"""A package's releases as git commits: each sdist is one parentless commit, in one bare repository of the store.

Ids come from the sdist's bytes alone, so every machine has the same ones. The sdist itself is not kept: its sha256 is,
and importing it again gives the same commit or proves that it changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from patchkit.errors import StoreFailure
from patchkit.source.archive import Member, read_archive
from patchkit.tools.git.client import fast_import, sweep
from patchkit.tools.git.objects import COMMITTER, Repository, create_repository
from patchkit.tools.toolkit import Toolkit

if TYPE_CHECKING:
    from patchkit.tools.index import PackageIndex, Sdist


@dataclass(frozen=True)
class Release:
    """A release that is in the store. `version` is PEP 440 in its normal form; `sha256` is the sdist's."""

    package: str
    version: str
    commit: str
    sha256: str
    filename: str


class ReleaseStore:
    """The imported releases of one package, and the way to more of them. Processes may share it."""

    def __init__(self, toolkit: Toolkit, package: str) -> None:
        """Name the store's repository of a package; it is made with the first release."""
        self.package = package
        self._toolkit = toolkit
        self.repository = Repository(toolkit.cache.folder("releases", f"{package}.git"))
        self._records = f"releases/{package}.git/sdists"

    @cached_property
    def index(self) -> PackageIndex:
        """Return the package index; a release that is in the store never needs it, nor the time to import it."""
        from patchkit.tools.index import PackageIndex

        return PackageIndex(self._toolkit)

    def find(self, version: str) -> Release | None:
        """Return a release that is in the store whole, else None."""
        record = self._toolkit.cache.read_record(self._records, version)
        if record is None or self.repository.find_commit(record["commit"]) is None:
            return None
        return Release(**record)

    def all(self) -> tuple[Release, ...]:
        """Return the releases in the store, oldest version first."""
        folder = self._toolkit.cache.folder("releases", f"{self.package}.git") / "sdists"
        found = (self.find(path.stem) for path in folder.glob("*.json"))
        return tuple(sorted((one for one in found if one is not None), key=lambda one: Version(one.version)))

    def take(self, sdist: Sdist) -> Release:
        """Return a release, downloaded and imported unless it is in the store; other processes wait.

        Raises `RemoteUnavailable` for an sdist that cannot be had or is not a plain source tree, and `StoreFailure`.
        """
        self._make_repository()
        with self._toolkit.cache.lock(f"releases-{self.package}.git"):
            if (found := self.find(sdist.version)) is not None:
                return found
            target = self._toolkit.cache.scratch("downloads") / sdist.filename
            self.index.download(sdist, target)
            try:
                return self._import(sdist, target)
            finally:
                target.unlink(missing_ok=True)

    def _make_repository(self) -> None:
        def build(folder: Path) -> None:
            create_repository(folder)

        self._toolkit.cache.make("releases", f"{self.package}.git", build)

    def _import(self, sdist: Sdist, archive: Path) -> Release:
        self._toolkit.progress.step(f"import {sdist.filename}")
        tag = f"refs/tags/v{sdist.version}"
        stream = import_stream(read_archive(archive), tag, f"{self.package} {sdist.version}\n")
        try:
            fast_import(self._toolkit, self.repository.path, stream)
        finally:
            sweep(self.repository.path)
        commit = self.repository.find_ref(tag)
        if commit is None:
            raise StoreFailure(f"{self.repository.path}: {tag} is not there after the import", "run again")
        release = Release(self.package, sdist.version, commit, sdist.sha256 or "", sdist.filename)
        self._toolkit.cache.write_record(self._records, sdist.version, asdict(release))
        return release


def import_stream(members: Iterable[Member], ref: str, message: str) -> Iterator[bytes]:
    """Yield a fast-import stream that puts the members into one parentless commit and points `ref` at it.

    The commit's time is that of the top PKG-INFO, which the release's build wrote; without one, the newest member's.
    """
    marks: dict[str, int] = {}
    lines: list[bytes] = []
    newest, built = 0, None
    for mark, member in enumerate(members, start=1):
        if member.link is None:
            yield b"blob\nmark :%d\ndata %d\n" % (mark, len(member.data))
            yield member.data
            yield b"\n"
        marks[member.path] = mark if member.link is None else marks[member.link]
        lines.append(b"M %06o :%d %s\n" % (member.mode, marks[member.path], _quote(member.path)))
        newest = max(newest, member.time)
        built = member.time if member.path == "PKG-INFO" else built
    committer = f"{COMMITTER[0]} <{COMMITTER[1]}> {newest if built is None else built} +0000"
    text = message.encode()
    yield b"commit %s\ncommitter %s\ndata %d\n%s" % (ref.encode(), committer.encode(), len(text), text)
    yield from lines
    yield b"\ndone\n"


def _quote(path: str) -> bytes:
    """Return a path as git quotes it: a line feed or a quotation mark in a name must not end it."""
    raw = path.encode("utf-8", "surrogateescape")
    return b'"' + raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n") + b'"'
