"""A downstream package on disk: all uses in its files, and the plugin groups that its entry points name."""

from __future__ import annotations

import ast
import tomllib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from patchkit.errors import RequestError
from patchkit.stack.symbols.downstream.read import read_uses
from patchkit.stack.symbols.downstream.use import Kind, Need, Use


@dataclass(frozen=True)
class Downstream:
    """What a package asks of the product. `unreadable` are files that do not parse."""

    folder: Path
    files: int
    uses: tuple[Use, ...]
    unreadable: tuple[str, ...]

    @property
    def provided(self) -> frozenset[str]:
        """Return the names that the package itself puts into the product."""
        return frozenset(use.symbol for use in self.uses if use.kind is Kind.REPLACES)


def read_downstream(folder: Path, package: str) -> Downstream:
    """Read a folder: every Python file below it that is not hidden, and the entry points beside or in it.

    Raises `RequestError` when it is no folder, or nothing in it uses the package.
    """
    if not folder.is_dir():
        raise RequestError(f"{folder}: is no folder", "name the folder of a Python package, as vllm_ascend/")
    folder = folder.resolve()
    uses: list[Use] = []
    unreadable: list[str] = []
    files = 0
    for path in sorted(_python_files(folder)):
        name = path.relative_to(folder.parent).as_posix()
        text = path.read_bytes()
        files += 1
        if package.encode() not in text:
            continue
        try:
            own = ".".join(path.relative_to(folder.parent).parts[:-1])
            uses += read_uses(text, name, package, own)
        except (SyntaxError, ValueError, RecursionError) as error:
            unreadable.append(f"{name}: {error}")
    uses += [*_entry_points(folder, package), *_entry_points(folder.parent, package)]
    if not uses:
        raise RequestError(f"{folder}: no file of it uses {package}", "name the folder of the downstream package")
    return Downstream(folder, files, tuple(uses), tuple(unreadable))


def _python_files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*.py"):
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts):
            yield path


def _entry_points(folder: Path, package: str) -> Iterator[Use]:
    """Yield the groups of a project's entry points that are the product's, as `vllm.general_plugins`."""
    for name, read in (("setup.py", _groups_of_setup), ("pyproject.toml", _groups_of_project)):
        path = folder / name
        if path.is_file():
            for group, line in read(path):
                if group.startswith(f"{package}."):
                    yield Use(group, Kind.PLUGIN, Need.REQUIRED, name, line)


def _groups_of_setup(path: Path) -> Iterator[tuple[str, int]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            return
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "entry_points" and isinstance(node.value, ast.Dict):
            for key in node.value.keys:
                if isinstance(key, ast.Constant) and isinstance(key.value, str):
                    yield key.value, key.lineno


def _groups_of_project(path: Path) -> Iterator[tuple[str, int]]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return
    lines = path.read_text(encoding="utf-8").splitlines()
    for group in document.get("project", {}).get("entry-points", {}):
        yield group, next((at for at, line in enumerate(lines, 1) if group in line), 1)
