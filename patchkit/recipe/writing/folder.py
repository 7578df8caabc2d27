"""A folder of files, written whole or not at all: made beside its place, then renamed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from patchkit.errors import InvalidFile, RequestError
from patchkit.recipe.folder import is_slug
from patchkit.recipe.load import check_files
from patchkit.tools.cache import replaced_folder, storage_errors

LONGEST_NAME = 80  # as the model has it


def write_folder(folder: Path, files: Mapping[str, bytes], check: Callable[[Path], None] | None = None) -> None:
    """Make a folder of files by their names, which may have folders in them; replaces what is there.

    `check` sees the folder before it gets its name, and may raise. Raises `StoreFailure`. Either way, what was there is
    there again.
    """
    with replaced_folder(folder) as fresh:
        with storage_errors(folder.parent):
            fresh.mkdir(parents=True)
            for name, data in files.items():
                (fresh / name).parent.mkdir(parents=True, exist_ok=True)
                (fresh / name).write_bytes(data)
        if check is not None:
            check(fresh)


def check_valid(folder: Path) -> None:
    """Raise `InvalidFile` with everything that is wrong with the recipe, patch and issue files of a folder."""
    if problems := check_files((folder,)):
        raise InvalidFile(problems)


def check_name(name: str) -> None:
    """Raise `RequestError` for a text that is no name of a folder of a library."""
    if not is_slug(name) or len(name) > LONGEST_NAME:
        message = f"{name}: must be lower-case letters, digits, `.`, `_` and `-`, at most {LONGEST_NAME}"
        raise RequestError(message, "like long-prefill")


def check_absent(folder: Path, hint: str) -> None:
    """Raise `RequestError` when something is at a path, be it a link that leads nowhere."""
    if folder.exists() or folder.is_symlink():
        raise RequestError(f"{folder}: is there already", hint)
