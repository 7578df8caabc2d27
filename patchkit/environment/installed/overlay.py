"""The patched files of a distribution that a probe's environment has installed, without touching that environment.

A folder on PYTHONPATH with the whole package: links to what is installed, folders where a patched file lies below, and
the patched files themselves. So every process of the probe sees one whole package on disk, compiled parts and data
included, also those that look at its files instead of importing it (inductor's cache keys hash torch's sources).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from patchkit.errors import BuildFailed
from patchkit.source.installed.folder import find_info
from patchkit.stack.outcome import PatchedTree
from patchkit.tools.cache import digest_of
from patchkit.tools.git.objects import Delta
from patchkit.tools.toolkit import Toolkit

KIND = "overlays"


@dataclass(frozen=True)
class Overlay:
    """A patched tree of a distribution that is installed under a name."""

    package: str
    patched: PatchedTree = field(repr=False)

    @property
    def id(self) -> str:
        """Return what names it: equal trees change an environment in the same way."""
        return f"{self.package} {self.patched.base.id} {self.patched.id}"

    @property
    def deltas(self) -> tuple[Delta, ...]:
        """Return the files that the series changes."""
        return self.patched.base.repository.diff(self.patched.base.id, self.patched.id)


def make_overlay(toolkit: Toolkit, overlay: Overlay, libraries: Sequence[Path]) -> Path:
    """Return the folder to put on PYTHONPATH, made in the store unless it is there.

    Raises `BuildFailed` when the environment has not the files that were patched: another version, or none.
    """
    site = find_site(overlay.package, libraries)
    _check_base(site, overlay)
    key = digest_of([str(site), overlay.id])
    return toolkit.cache.make(KIND, key[:20], lambda folder: _fill(site, folder, overlay))


def find_site(package: str, libraries: Sequence[Path]) -> Path:
    """Return the folder of an interpreter's libraries that a distribution is installed in. Raises `BuildFailed`."""
    below = ("", "site-packages", "dist-packages")
    for folder in (library / name for library in libraries for name in below):
        if folder.is_dir() and find_info(folder, package) is not None:
            return folder
    hint = f"add {package} to the requirements of the environment"
    raise BuildFailed(f"the series patches {package}, which the environment does not have", hint)


def _check_base(site: Path, overlay: Overlay) -> None:
    repository = overlay.patched.base.repository
    for delta in overlay.deltas:
        wanted = None if delta.old is None else repository.read_blob(delta.old.blob)
        place = site / delta.path
        found = place.read_bytes() if place.is_file() else None
        if found != wanted:
            commit = overlay.patched.base.commit
            hint = f"give the upstream {commit.upstream} the version that the environment installs"
            raise BuildFailed(f"{place}: is not the file of {commit.upstream} {commit.version} that is patched", hint)


def _fill(site: Path, folder: Path, overlay: Overlay) -> None:
    """Lay out the packages that have patched files."""
    repository = overlay.patched.base.repository
    contents = {
        delta.path: None if delta.new is None else repository.read_blob(delta.new.blob) for delta in overlay.deltas
    }
    for top in sorted({path.partition("/")[0] for path in contents}):
        _mirror(site, folder, top, contents)


def _mirror(site: Path, folder: Path, path: str, contents: Mapping[str, bytes | None]) -> None:
    """Make one path of the overlay: a patched file, a folder with one below, else a link to what is installed."""
    if path in contents:
        if (data := contents[path]) is not None:
            (folder / path).write_bytes(data)
        return
    below = {name.removeprefix(f"{path}/").partition("/")[0] for name in contents if name.startswith(f"{path}/")}
    if not below:
        (folder / path).symlink_to(site / path)
        return
    (folder / path).mkdir()
    for name in sorted({*below, *_names(site / path)}):
        _mirror(site, folder, f"{path}/{name}", contents)


def _names(folder: Path) -> Iterable[str]:
    """Return what lies in an installed folder; byte code is of the installed files."""
    return (path.name for path in folder.iterdir() if path.name != "__pycache__") if folder.is_dir() else ()
