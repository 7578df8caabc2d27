"""Write a series into a folder as files that `git am` or `git apply` take; all of it, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from patchkit.errors import RequestError
from patchkit.pipeline import open_recipe, resolve_commit, series_of, source_of
from patchkit.recipe.writing.folder import write_folder
from patchkit.source.commit import Commit
from patchkit.source.source import Preference
from patchkit.stack.apply import open_lineage, walk_series
from patchkit.stack.carry.export import SERIES, Exporter, exported_names, series_file
from patchkit.stack.carry.refresh import Press
from patchkit.stack.change import Ground
from patchkit.stack.outcome import PatchRecord
from patchkit.tools.toolkit import Toolkit

Form = Literal["am", "diff"]


@dataclass(frozen=True)
class ExportRequest:
    """Which series to write, for which commit, where to, and as what. `upstream` None is the main one."""

    recipe: Path
    to: Path
    form: Form = "am"
    at: str | None = None
    source: Preference = "auto"
    upstream: str | None = None
    locked: bool = False


@dataclass(frozen=True)
class ExportReport:
    """What became of the series. `tree` is what the files make of the commit, None when a patch does not stand.

    `files` are the names in the folder, in order; `changed` says whether it holds other bytes than before.
    """

    commit: Commit
    records: tuple[PatchRecord, ...]
    tree: str | None
    files: tuple[str, ...] = ()
    changed: bool = False


def export_recipe(toolkit: Toolkit, request: ExportRequest) -> ExportReport:
    """Write the series of one upstream of a recipe for a commit: of the request, the lock, or the recipe.

    Raises `RequestError` when the folder holds something else than an earlier export.
    """
    held = _read_export(request.to)
    opened = open_recipe(toolkit, request.recipe, request.source, request.locked)
    commit = resolve_commit(opened, request.at, request.upstream)
    source = source_of(opened, commit.upstream)
    series = series_of(opened, commit.upstream)
    press = Press(source.repository, open_lineage(source, commit), source.facts(commit, opened.settings))
    steps = list(walk_series(Ground(source, commit, commit.tree, press.lineage), series, press.facts))
    records = tuple(step.record for step in steps)
    if not all(record.outcome.stands for record in records):
        return ExportReport(commit, records, None)
    tree = steps[-1].attempt.tree if steps else commit.tree
    about = {slug: loaded.patch for slug, loaded in opened.loaded.patches.items()}
    exporter = Exporter(source, commit, press, about)
    files = (
        exporter.mails(steps) if request.form == "am" else {f"{opened.loaded.recipe.name}.diff": exporter.diff(steps)}
    )
    names = tuple(files)
    files[SERIES] = series_file(commit, tree, names)
    if files != held:
        write_folder(request.to, files)
    return ExportReport(commit, records, tree, names, files != held)


def _read_export(folder: Path) -> dict[str, bytes]:
    """Return the files of an earlier export. Raises `RequestError` for anything else that is there."""
    hint = "name a folder that does not exist, or one that an export wrote"
    if not folder.exists() and not folder.is_symlink():
        return {}
    if folder.is_symlink() or not folder.is_dir():
        raise RequestError(f"{folder}: is no folder", hint)
    found = {path.name: path for path in folder.iterdir()}
    if not found:
        return {}
    listed = exported_names(found[SERIES].read_bytes()) if SERIES in found and found[SERIES].is_file() else None
    if listed is None:
        raise RequestError(f"{folder}: is not empty, and was not written by `patchkit export`", hint)
    if others := sorted(found.keys() - listed):
        raise RequestError(f"{folder}: holds {others[0]}, which no export wrote", f"move it away; or {hint}")
    return {name: path.read_bytes() for name, path in found.items()}
