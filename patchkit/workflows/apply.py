"""Apply a recipe's series to the tree of a commit, and write the result to a folder if asked to."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from patchkit.errors import RequestError
from patchkit.pipeline import OpenedRecipe, open_recipe, patch_tree, resolve_commit, source_of
from patchkit.source.commit import Tree
from patchkit.source.source import Preference
from patchkit.stack.outcome import SeriesResult
from patchkit.stack.patch.binary import blob_id
from patchkit.stack.series import load_series
from patchkit.tools.cache import digest_of, replaced_folder
from patchkit.tools.git.objects import Entry, Repository
from patchkit.tools.toolkit import Toolkit

KIND = "written-trees"  # of the store: which tree was last written to which folder


@dataclass(frozen=True)
class ApplyRequest:
    """What to apply, where, and where to write the result (None: nowhere). `dry_run`: tell only."""

    recipe: Path
    at: str | None = None
    to: Path | None = None
    dry_run: bool = False
    source: Preference = "auto"
    locked: bool = False


@dataclass(frozen=True)
class ApplyReport:
    """What became of the series on a base; `written` is the folder that now holds the result."""

    base: Tree
    result: SeriesResult
    written: Path | None


def apply_recipe(toolkit: Toolkit, request: ApplyRequest) -> ApplyReport:
    """Apply the series of the recipe's main upstream. Nothing is written unless every patch stands.

    Raises `RequestError` when the folder holds something else than a tree written here before.
    """
    opened = open_recipe(toolkit, request.recipe, request.source, request.locked)
    commit = resolve_commit(opened, request.at)
    base = source_of(opened, commit.upstream).tree(commit)
    if request.to is not None:
        check_folder(toolkit, base.repository, request.to)
    _tell_others(opened, commit.upstream)
    result = patch_tree(opened, commit)
    if request.to is None or request.dry_run or result.patched is None:
        return ApplyReport(base, result, None)
    write_folder(toolkit, base.repository, result.patched.id, request.to)
    return ApplyReport(base, result, request.to)


def _tell_others(opened: OpenedRecipe, upstream: str) -> None:
    """Warn of the patches that belong to another tree than the one that is patched: nothing is left out silently."""
    others = [patch.name for name in opened.sources if name != upstream for patch in load_series(opened.loaded, name)]
    if others:
        installed = any(one.is_installed for one in opened.loaded.recipe.upstream.values())
        hint = "--to-site-packages DIR applies those of what is installed" if installed else ""
        opened.toolkit.progress.warn(f"not applied, since not for {upstream}: {', '.join(others)}", hint)


def check_folder(toolkit: Toolkit, repository: Repository, folder: Path) -> None:
    """Raise `RequestError` unless a folder is absent, empty, or exactly what was last written there."""
    if not folder.exists() and not folder.is_symlink():
        return
    if folder.is_symlink() or not folder.is_dir():
        raise RequestError(f"{folder}: is no folder", "name a folder that does not exist")
    if not any(folder.iterdir()):
        return
    record = toolkit.cache.read_record(KIND, _key(folder))
    if record is None:
        raise RequestError(f"{folder}: is not empty, and was not written by patchkit", "name another folder")
    if not _holds(repository, str(record.get("tree")), folder):
        raise RequestError(f"{folder}: was changed since patchkit wrote it", "move it away, or name another folder")


def write_folder(toolkit: Toolkit, repository: Repository, tree: str, folder: Path) -> None:
    """Make a folder hold a tree: written beside it, then put in its place, so no reader sees half of it.

    The folder must have passed `check_folder`. Raises `BuildFailed` for a tree with links out of it, `StoreFailure`.
    """
    from patchkit.environment.folder import write_tree

    with replaced_folder(folder) as fresh:
        write_tree(repository, tree, fresh)
    toolkit.cache.write_record(KIND, _key(folder), {"folder": str(folder.resolve()), "tree": tree})


def _key(folder: Path) -> str:
    return digest_of(str(folder.resolve()))


def _holds(repository: Repository, tree: str, folder: Path) -> bool:
    """Return whether a folder holds a tree and nothing else; what Python caches beside its modules does not count."""
    from patchkit.environment.folder import scan_folder

    try:
        wanted = {path: entry for path, entry in repository.walk(tree) if entry.mode != 0o160000}
    except (KeyError, ValueError):
        return False
    found = {path for path in scan_folder(folder).files if "__pycache__" not in path.split("/")}
    return found == set(wanted) and all(_is_same(folder / path, entry) for path, entry in wanted.items())


def _is_same(path: Path, entry: Entry) -> bool:
    if path.is_symlink() or entry.mode == 0o120000:
        return path.is_symlink() and entry.mode == 0o120000 and blob_id(os.fsencode(path.readlink())) == entry.blob
    return blob_id(path.read_bytes()) == entry.blob and bool(path.stat().st_mode & 0o100) == (entry.mode == 0o100755)
