"""Files → LoadedRecipe, LoadedPatch, LoadedIssue, with every complaint at once: `recipe.yaml:12:5: series[1]: …`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

from patchkit.errors import Problem, RequestError
from patchkit.recipe.document import Node, YamlPath
from patchkit.recipe.folder import (
    VERSIONED,
    check_conditions,
    check_names,
    find_file,
    is_slug,
    read_issue,
    read_patch,
    read_rewrite,
    read_tree,
    shown,
)
from patchkit.recipe.include import OWN_PATHS, read_recipe_tree
from patchkit.recipe.library import (
    USAGE,
    Library,
    LoadedIssue,
    LoadedPatch,
    LoadedRecipe,
    explain_kind,
    explain_missing,
    names_beside,
    open_library,
    shipped_library,
)
from patchkit.recipe.lock import check_lock
from patchkit.recipe.model import Recipe, Repro
from patchkit.recipe.validate import Complaints, nearest, validate

Loaded = TypeVar("Loaded")
RECIPE: TypeAdapter[Recipe] = TypeAdapter(Recipe)
KINDS = ("recipe.yaml", "patch.yaml", "issue.yaml")
RECIPE_KEYS = {"name", "upstream", "series", "issues", "include", "image", "target", "environment"}
OTHER_KEYS = {"title", "change", "repros", "signature"}  # of patches and issues


def load_recipe(path: Path) -> LoadedRecipe:
    """Return a recipe with everything that it names.

    `path` is a file, a folder with recipe.yaml in it, or the bare name of a shipped recipe. Raises `InvalidFile` with
    all problems of all files, `RequestError` when there is no such recipe.
    """
    complaints = Complaints()
    file = find_recipe(path)
    if file.name in KINDS[1:]:
        raise explain_kind(file)
    loaded = _RecipeReader(file, complaints).read()
    complaints.raise_any()
    return _present(loaded)


def load_patch(folder: Path) -> LoadedPatch:
    """Return a patch folder. Raises `InvalidFile` with all its problems."""
    complaints = Complaints()
    loaded = read_patch(folder.absolute(), open_library(folder), complaints)
    complaints.raise_any()
    return _present(loaded)


def load_issue(folder: Path) -> LoadedIssue:
    """Return an issue folder. Raises `InvalidFile` with all its problems."""
    complaints = Complaints()
    loaded = read_issue(folder.absolute(), open_library(folder), complaints)
    complaints.raise_any()
    return _present(loaded)


def find_recipe(path: Path) -> Path:
    """Return the recipe file that an argument means. Raises `RequestError` when there is none."""
    try:
        found = _find_recipe(path)
    except OSError as error:  # a name too long, a folder that may not be entered
        raise RequestError(f"{path}: {error.strerror}") from error
    if found is not None:
        return found
    raise explain_missing(path, [*_shipped().names("recipes"), *names_beside(path)])


def _find_recipe(path: Path) -> Path | None:
    if path.is_dir() and (path / "recipe.yaml").is_file():
        return path / "recipe.yaml"
    if path.is_file():
        return path
    folder = _shipped().find("recipes", str(path)) if is_slug(str(path)) and not path.exists() else None
    return folder / "recipe.yaml" if folder is not None and (folder / "recipe.yaml").is_file() else None


def _shipped() -> Library:
    return Library(shipped_library() or Path.cwd(), None)


def check_files(paths: tuple[Path, ...]) -> tuple[Problem, ...]:
    """Return everything that is wrong with recipe, patch, issue and rewrite files, and with all of them below folders.

    Raises `RequestError` when a path does not exist, or when there is nothing to check below any of them.
    """
    files = [file for path in paths for file in _checkable(path)]
    if not files:
        hint = f"{', '.join(KINDS)} below a folder would be"
        raise RequestError(f"{', '.join(map(str, paths))}: holds nothing that can be checked", hint)
    complaints = Complaints()
    for file in files:
        _check_file(file, complaints)
    return complaints.sorted()


def _checkable(path: Path) -> list[Path]:
    """Return the files that a path stands for."""
    try:
        if path.is_file():
            return [path]
        folder = path.exists()
    except OSError as error:
        raise RequestError(f"{path}: {error.strerror}") from error
    if not folder:
        return [_find_recipe(path) or _nothing_at(path)]
    found = []
    for parent, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += [Path(parent) / name for name in (*KINDS, "recipe.lock") if name in files]
    return found


def _nothing_at(path: Path) -> Path:
    names = [*_shipped().names("recipes"), *names_beside(path)]
    raise RequestError(f"{path}: there is no such file or folder", nearest(path.name, names) or USAGE)


def _check_file(file: Path, complaints: Complaints) -> None:
    """Add what is wrong with one file; its kind is told by its name, else by its keys."""
    if file.suffix == ".lock":
        check_lock(file, complaints)
        return
    kind = file.name if file.name in KINDS else _guess_kind(file, complaints)
    library = open_library(file.parent)
    if kind == "recipe.yaml":
        _RecipeReader(file, complaints).read()
    elif kind == "patch.yaml":
        read_patch(file.parent, library, complaints)
    elif kind == "issue.yaml":
        read_issue(file.parent, library, complaints)
    elif kind == "rewrite":
        read_rewrite(file, file.parent, complaints)


def _guess_kind(file: Path, complaints: Complaints) -> str:
    root = read_tree(file, complaints)
    if root is None:
        return ""
    if isinstance(root.content, tuple):
        return "rewrite"
    keys = set(root.keys)
    if keys & RECIPE_KEYS and not keys & OTHER_KEYS:
        return "recipe.yaml"
    hint = f"patches and issues are named {KINDS[1]} and {KINDS[2]}; a list of steps is a rewrite file"
    complaints.add_at(root.place, (), "is no recipe, patch, issue or rewrite file", hint)
    return ""


class _RecipeReader:
    """Reads one recipe; every method adds to the complaints and goes on."""

    def __init__(self, file: Path, complaints: Complaints) -> None:
        self.file = file
        self.library = open_library(file.parent)
        self.complaints = complaints

    def read(self) -> LoadedRecipe | None:
        """Return the recipe, or None when anything is wrong."""
        root = read_recipe_tree(self.file, self.library, self.complaints)
        if root is None:
            return None
        recipe = validate(RECIPE, root, self.complaints)
        upstreams = {str(path[1]) for path, _ in root.select("upstream", None)}
        patches = self._patches(root, upstreams)
        issues, selected = self._issues(root, upstreams)
        self._check_paths(root)
        self._check_pairs(root, upstreams)
        check_conditions(root, (("series", None, "when"),), VERSIONED | upstreams, self.complaints)
        if recipe is None:
            return None
        return LoadedRecipe(self.file.absolute(), recipe, patches, issues, selected, self.library.root)

    def _patches(self, root: Node, upstreams: set[str]) -> dict[str, LoadedPatch]:
        """Return the patches of the series, and complain of those that miss another one before them."""
        named: dict[YamlPath, str] = {}
        for pattern in (("series", None), ("series", None, "patch")):
            named.update(check_names(root, pattern, self.library, "patches", self.complaints))
        standing: dict[str, LoadedPatch | None] = {}
        for path, slug in sorted(named.items(), key=lambda item: item[0][1]):
            if slug in standing:
                self._complain(root, path, f"{slug} stands twice in the series")
                continue
            folder = self.library.find("patches", slug)
            patch = None if folder is None else read_patch(folder, self.library, self.complaints)
            for required in patch.patch.requires if patch else ():
                if required not in standing and self.library.find("patches", required):
                    hint = f"move {required} up" if required in named.values() else f"add {required} before it"
                    self._complain(root, path, f"{slug} needs {required} before it in the series", hint)
            if patch and patch.patch.upstream not in upstreams:
                self._complain(
                    root, path, f"{slug} patches {patch.patch.upstream}, which is no upstream of this recipe"
                )
            standing[slug] = patch
        return {slug: patch for slug, patch in standing.items() if patch is not None}

    def _issues(
        self, root: Node, upstreams: set[str]
    ) -> tuple[dict[str, LoadedIssue], tuple[tuple[LoadedIssue, Repro], ...]]:
        issues: dict[str, LoadedIssue | None] = {}
        selected: dict[tuple[str, str], tuple[LoadedIssue, Repro]] = {}
        for path, node in root.select("issues", None):
            slug, slash, name = str(node.content).partition("/")
            if not is_slug(slug) or (slash and not is_slug(name)):
                continue  # the model complains of it
            if slug not in issues:
                issues[slug] = self._issue(root, path, slug, upstreams)
            issue = issues[slug]
            repros = {repro.name: repro for repro in issue.issue.repros} if issue else {}
            if issue and slash and name not in repros:
                self._complain(root, path, f"{slug} has no repro {name}", nearest(name, repros) or _listed(repros))
            anywhere = [repro.name for repro in repros.values() if repro.fidelity != "needs-gpu"]
            for repro in repros.values():
                if issue and repro.name in ([name] if slash else anywhere or repros):
                    selected.setdefault((slug, repro.name), (issue, repro))
        return {slug: issue for slug, issue in issues.items() if issue is not None}, tuple(selected.values())

    def _issue(self, root: Node, path: YamlPath, slug: str, upstreams: set[str]) -> LoadedIssue | None:
        folder = self.library.find("issues", slug)
        if folder is None:
            hint = (
                nearest(slug, self.library.names("issues"))
                or f"it would be a folder of {shown(self.library.root / 'issues')}"
            )
            self._complain(root, path, f"there is no issue {slug}", hint)
            return None
        issue = read_issue(folder, self.library, self.complaints)
        if issue and issue.issue.upstream not in upstreams:
            self._complain(root, path, f"{slug} is about {issue.issue.upstream}, which is no upstream of this recipe")
        installed = [path[1] for key in ("wheel", "site-packages") for path, _ in root.select("upstream", None, key)]
        if issue and issue.issue.upstream in installed:
            hint = "give the issue the upstream that uses it: that tree is run, and what is installed beside it"
            self._complain(root, path, f"{slug} is about {issue.issue.upstream}, which is no tree to run here", hint)
        return issue

    def _check_paths(self, root: Node) -> None:
        for pattern in OWN_PATHS:
            for path, node in root.select(*pattern):
                try:
                    if isinstance(node.content, str) and node.content and not node.content.startswith("/"):
                        find_file(self.file.parent, node.content, self.library.root)
                except ValueError as error:
                    self.complaints.add_at(node.place, path, str(error), f"it must be below {shown(self.library.root)}")

    def _check_pairs(self, root: Node, upstreams: set[str]) -> None:
        for path, node in root.select("upstream", None, "pairs-with"):
            if isinstance(node.content, str) and node.content not in upstreams - {path[1]}:
                hint = nearest(node.content, upstreams - {str(path[1])})
                self.complaints.add_at(node.place, path, f"{node.content} is no other upstream of this recipe", hint)

    def _complain(self, root: Node, path: YamlPath, message: str, hint: str = "") -> None:
        self.complaints.add_at(root.at(path).place, path, message, hint)


def _listed(names: Iterable[str]) -> str:
    return f"there is {', '.join(names)}"


def _present(loaded: Loaded | None) -> Loaded:
    if loaded is None:
        raise AssertionError("a file was refused without a complaint")
    return loaded
