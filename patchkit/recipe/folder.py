"""A patch or issue folder → LoadedPatch, LoadedIssue. What is named must be there, and not lead out of the folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from patchkit.errors import Problem
from patchkit.recipe.condition import ConditionError, parse_condition
from patchkit.recipe.document import MAX_BYTES, Node, YamlPath, parse_document
from patchkit.recipe.library import Library, LoadedIssue, LoadedPatch
from patchkit.recipe.model import Issue, Patch, RewriteStep, Steps
from patchkit.recipe.model.fields import SLUG
from patchkit.recipe.validate import Complaints, check_format, nearest, validate
from patchkit.tools.cache import digest_file, digest_of

PATCH: TypeAdapter[Patch] = TypeAdapter(Patch)
ISSUE: TypeAdapter[Issue] = TypeAdapter(Issue)
VERSIONED = {"vllm", "vllm-ascend", "torch", "python"}  # what every recipe's conditions may ask the version of


def is_slug(value: Any) -> bool:
    """Return whether a value is the name of a folder of the library: no path."""
    return isinstance(value, str) and re.fullmatch(SLUG, value) is not None


def shown(path: Path) -> str:
    """Return a path as messages show it: relative to the current folder where it lies below it."""
    absolute = Path(os.path.normpath(path.absolute()))
    if absolute == Path.cwd():
        return "the current folder"
    return str(absolute.relative_to(Path.cwd())) if absolute.is_relative_to(Path.cwd()) else os.path.normpath(path)


def read_tree(file: Path, complaints: Complaints) -> Node | None:
    """Return the tree of a YAML file whose format we know, or None; what is wrong is added to the complaints."""
    name = shown(file)
    complaints.read_file(name)
    try:
        if not file.is_file():
            complaints.add(Problem(name, 0, 0, "", "is not a file" if file.exists() else "there is no such file"))
            return None
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        complaints.add(Problem(name, 0, 0, "", f"cannot be read: {error.strerror}"))
        return None
    document = parse_document(data, name)
    if document.root is not None and not check_format(document.root, complaints):
        return None
    complaints.add(*document.problems)
    return document.root


def find_file(base: Path, name: str, bound: Path) -> Path:
    """Return a file named in YAML. Raises `ValueError` when it is not there or (`..`, a symlink) outside `bound`."""
    path = base / name
    try:
        if not path.resolve().is_relative_to(bound.resolve()):
            raise ValueError(f"{name} leads out of {shown(bound)}")
        if path.is_file():
            if not os.access(path, os.R_OK):
                raise ValueError(f"{name} cannot be read: no permission")
            return path
    except (OSError, RuntimeError) as error:  # a name too long, a circle of symlinks
        raise ValueError(f"{name} cannot be read: {error}") from error
    raise ValueError(f"there is no file {name} in {shown(base)}")


def check_conditions(
    root: Node, patterns: Iterable[tuple[str | None, ...]], known: set[str], complaints: Complaints
) -> None:
    """Complain of version names that are one slip of the pen away from a known one; they would never be decided."""
    for pattern in patterns:
        for path, node in root.select(*pattern):
            try:
                names = parse_condition(node.content).version_names if isinstance(node.content, str) else frozenset()
            except ConditionError:
                continue  # the model complains of it
            for name in sorted(names - known):
                hint = nearest(name, known, cutoff=0.8)
                if hint:
                    complaints.add_at(node.place, path, f"nobody knows a version of {name}", hint)


def read_patch(folder: Path, library: Library, complaints: Complaints) -> LoadedPatch | None:
    """Return a patch folder, or None when anything is wrong with it."""
    root = read_tree(folder / "patch.yaml", complaints)
    if root is None:
        return None
    patch = validate(PATCH, root, complaints)
    files = {"patch.yaml": folder / "patch.yaml"}
    for key in ("patch", "rewrite", "source"):
        files.update(_named_files(root, ("change", None, key), folder, complaints))
    rewrites = {}
    for _, node in root.select("change", None, "rewrite"):
        if node.content in files:
            steps, created = read_rewrite(files[node.content], folder, complaints)
            files.update(created)
            rewrites[node.content] = steps or ()
    check_names(root, ("requires", None), library, "patches", complaints)
    check_names(root, ("issue", None), library, "issues", complaints)
    known = VERSIONED | ({patch.upstream} if patch else set())
    check_conditions(root, (("when",), ("remove-when",), ("change", None, "when")), known, complaints)
    if patch is None:
        return None
    digest = digest_of({name: digest_file(path) for name, path in files.items()})
    return LoadedPatch(folder.name, folder, patch, rewrites, digest)


def read_rewrite(
    file: Path, folder: Path, complaints: Complaints
) -> tuple[tuple[RewriteStep, ...] | None, dict[str, Path]]:
    """Return the steps of a rewrite file (None when wrong) and the files that they create from, by name."""
    root = read_tree(file, complaints)
    if root is None:
        return None, {}
    steps = validate(Steps, root, complaints)
    return steps, _named_files(root, (None, "create"), folder, complaints)


def read_issue(folder: Path, library: Library, complaints: Complaints) -> LoadedIssue | None:
    """Return an issue folder, or None when anything is wrong with it."""
    root = read_tree(folder / "issue.yaml", complaints)
    if root is None:
        return None
    issue = validate(ISSUE, root, complaints)
    _named_files(root, ("repros", None, "script"), folder, complaints)
    _check_repro_names(root, complaints)
    known = VERSIONED | ({issue.upstream} if issue else set())
    check_conditions(root, (("affects", None),), known, complaints)
    environments = {}
    for path, node in root.select("repros", None, "environment"):
        if is_slug(node.content):
            found = library.find_environment(node.content)
            if found is None:
                hint = nearest(node.content, library.environment_names()) or "it is a file of recipes/environments"
                complaints.add_at(node.place, path, f"there is no environment {node.content}", hint)
            else:
                environments[node.content] = found
    modules = _shared_modules(root, library, complaints)
    digest = _digest_issue(folder, modules, complaints)
    return None if issue is None else LoadedIssue(folder.name, folder, issue, digest, environments, modules)


def _shared_modules(root: Node, library: Library, complaints: Complaints) -> dict[str, Path]:
    """Return the modules of issues/shared that an issue uses, by name; complain of those that are not there."""
    modules = {}
    for path, node in root.select("uses", None):
        if not isinstance(node.content, str) or not re.fullmatch(r"[a-z][a-z0-9_]*", node.content):
            continue  # the model complains of it
        folder = library.find_shared(node.content) or library.root / "issues" / "shared"
        try:
            modules[node.content] = find_file(folder, f"{node.content}.py", folder)
        except ValueError as error:
            hint = nearest(node.content, library.shared_names()) or "it is a file of issues/shared"
            complaints.add_at(node.place, path, str(error), hint)
    return modules


def check_names(
    root: Node, pattern: tuple[str | None, ...], library: Library, kind: Any, complaints: Complaints
) -> dict[YamlPath, str]:
    """Return the names at a pattern of which the library has a folder, by path; complain of the others."""
    found = {}
    for path, node in root.select(*pattern):
        if not is_slug(node.content):
            continue  # the model complains of it
        if library.find(kind, node.content) is None:
            noun = {"patches": "patch", "issues": "issue"}[kind]
            hint = nearest(node.content, library.names(kind)) or f"it would be a folder of {shown(library.root / kind)}"
            complaints.add_at(node.place, path, f"there is no {noun} {node.content}", hint)
        else:
            found[path] = node.content
    return found


def _named_files(root: Node, pattern: tuple[str | None, ...], folder: Path, complaints: Complaints) -> dict[str, Path]:
    """Return the files that are named at a pattern, by name; complain of those that are not there or lead out."""
    files = {}
    for path, node in root.select(*pattern):
        if not isinstance(node.content, str) or not node.content or node.content.startswith("/"):
            continue  # the model complains of it
        try:
            files[node.content] = find_file(folder, node.content, folder)
        except ValueError as error:
            complaints.add_at(node.place, path, str(error), "name a file inside this folder")
    return files


def _check_repro_names(root: Node, complaints: Complaints) -> None:
    seen: dict[Any, Node] = {}
    for path, node in root.select("repros", None, "name"):
        first = seen.setdefault(node.value() if isinstance(node.content, str) else id(node), node)
        if first is not node:
            complaints.add_at(node.place, path, f"there is another repro {node.content} at line {first.place.line}")


def _digest_issue(folder: Path, modules: dict[str, Path], complaints: Complaints) -> str:
    """Return the digest of an issue's files, and of what it shares with others."""
    digest = _digest_folder(folder, complaints)
    return digest_of([digest, {name: digest_file(path) for name, path in modules.items()}]) if modules else digest


def _digest_folder(folder: Path, complaints: Complaints) -> str:
    """Return the digest of every file that is not hidden and no cache of Python's."""
    digests = {}
    for path in _files_below(folder):
        try:
            if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
                complaints.add(Problem(shown(path), 0, 0, "", f"is a symbolic link out of {shown(folder)}"))
            elif path.is_file():
                digests[path.relative_to(folder).as_posix()] = digest_file(path)
        except (OSError, RuntimeError) as error:
            complaints.add(Problem(shown(path), 0, 0, "", f"cannot be read: {error}"))
    return digest_of(digests)


def _files_below(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        links = [name for name in folders if (Path(parent) / name).is_symlink()]
        yield from (Path(parent) / name for name in sorted((*files, *links)) if not name.startswith("."))
