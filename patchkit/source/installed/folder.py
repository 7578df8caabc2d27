"""A site-packages folder: which distribution is in it, and the bytes of its files as upstream made them."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from patchkit.errors import RequestError
from patchkit.source.installed.distribution import (
    Distribution,
    check_contents,
    editable_folder,
    is_named,
    read_distribution,
)
from patchkit.source.installed.journal import BLOBS, PENDING, Journal, own_folder, read_journal


@dataclass(frozen=True)
class Installed:
    """A distribution in a folder. `contents` are its files before any patch of ours, `journal` tells of those."""

    root: Path
    distribution: Distribution
    journal: Journal | None
    contents: Mapping[str, bytes]

    @property
    def info(self) -> Path:
        """Return the dist-info folder."""
        return self.root / self.distribution.info


def find_info(root: Path, name: str) -> Path | None:
    """Return the dist-info folder of a distribution, None where it is not installed.

    Raises `RequestError` for an editable install, for two versions at once, and for what is no folder of packages.
    """
    if not root.is_dir():
        raise RequestError(f"{root}: is no folder", "name a site-packages folder: python -c 'import site; …'")
    found = sorted(path for path in root.glob("*.dist-info") if is_named(path.name, name) and path.is_dir())
    if len(found) > 1:
        names = ", ".join(path.name for path in found)
        raise RequestError(f"{root}: holds {name} more than once: {names}", f"pip install --force-reinstall {name}")
    if not found:
        _refuse_linked(root, name)
        return None
    if (checkout := editable_folder(_read_plain(found[0] / "direct_url.json"))) is not None:
        hint = f"patch the checkout: patchkit apply RECIPE, or `patchkit export` and `git am` in {checkout}"
        raise RequestError(f"{root}: {name} is an editable install of {checkout}: its files are not here", hint)
    return found[0]


def _refuse_linked(root: Path, name: str) -> None:
    """Tell of an editable install of the old kind, which leaves one link file and nothing else."""
    for path in root.glob("*.egg-link"):
        if is_named(f"{path.stem}-0.dist-info", name):
            checkout = path.read_text("utf-8", "replace").split("\n", 1)[0]
            hint = f"patch the checkout: `patchkit export` and `git am` in {checkout}"
            raise RequestError(f"{root}: {name} is an editable install of {checkout}: its files are not here", hint)


def peek_version(root: Path, name: str) -> str | None:
    """Return the version of a distribution in a folder, None where it is not installed or does not say."""
    info = next((path for path in sorted(root.glob("*.dist-info")) if is_named(path.name, name)), None)
    return None if info is None else info.name.removesuffix(".dist-info").rpartition("-")[2]


def read_installed(root: Path, info: Path) -> Installed:
    """Read a distribution with all its files; those that a journal of ours changed, as they were before.

    Raises `RequestError` when files are not those that RECORD or the journal lists, are links, or when a change that
    was begun waits to be finished.
    """
    if (own_folder(root, info.name) / PENDING).exists():
        raise RequestError(f"{info}: a change was begun and not finished", "run `patchkit apply` on it once more")
    distribution = read_distribution(info.name, lambda name: _read_plain(info / name), str(root))
    journal = read_journal(root, info.name)
    now = {path: read_file(root, path) for path in distribution.files}
    check_contents(distribution, now, str(root))
    contents = {path: data for path, data in now.items() if data is not None}
    if journal is not None:
        contents = _as_before(root, info.name, journal, contents)
    return Installed(root, distribution, journal, contents)


def _as_before(root: Path, info: str, journal: Journal, contents: Mapping[str, bytes]) -> dict[str, bytes]:
    original = {path: data for path, data in contents.items() if path not in journal.after}
    for path, state in journal.before.items():
        if state is not None:
            data = _read_plain(own_folder(root, info) / BLOBS / state.sha256)
            if data is None or hashlib.sha256(data).hexdigest() != state.sha256:
                hint = "install the package again with --force-reinstall"
                raise RequestError(f"{root / info}: what {path} was before the patch is lost", hint)
            original[path] = data
    return original


def read_file(root: Path, path: str) -> bytes | None:
    """Return the bytes of a file below a folder, None when it is not there. Raises `RequestError` for a link."""
    place = root
    for part in path.split("/"):
        place /= part
        if place.is_symlink():
            target = place.resolve()
            where = "out of the folder " if root.resolve() not in target.parents else ""
            hint = "uv: install with --link-mode=copy; else name the folder that holds the files themselves"
            raise RequestError(f"{place}: is a link {where}to {target}, which is not followed", hint)
    return _read_plain(place)


def _read_plain(path: Path) -> bytes | None:
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return None
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise RequestError(f"{path}: cannot be read: {error.strerror}") from error
