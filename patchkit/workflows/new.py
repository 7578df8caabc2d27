"""Make a new recipe, patch or issue in a library: valid, marked where it has to be filled in, never over another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from patchkit.errors import RequestError
from patchkit.recipe.library import open_library
from patchkit.recipe.writing.folder import check_absent, check_name, check_valid, write_folder
from patchkit.recipe.writing.scaffold import FOLDERS, Kind, scaffold
from patchkit.tools.toolkit import Toolkit


@dataclass(frozen=True)
class NewReport:
    """The folder that was made, and the names of its files."""

    folder: Path
    files: tuple[str, ...]


def make_new(toolkit: Toolkit, kind: Kind, name: str, library: Path | None = None) -> NewReport:
    """Write a scaffold into a library: the one named, else that of the current folder.

    Raises `RequestError` for a name that is none or is taken, `StoreFailure` where it cannot be written.
    """
    check_name(name)
    if library is not None and not library.is_dir():
        raise RequestError(f"{library}: is no folder", "name the folder that holds patches/, issues/ and recipes/")
    found = open_library(library or Path.cwd())
    root = library or found.root
    folder = root / FOLDERS[kind] / name
    check_absent(folder, "choose another name, or edit that")
    if found.find(FOLDERS[kind], name) is not None:
        toolkit.progress.warn(f"patchkit ships {FOLDERS[kind]}/{name}: yours takes its place in this library")
    files = scaffold(kind, name)
    write_folder(folder, files, check_valid)
    return NewReport(folder, tuple(files))
