"""A recipe with everything it names, loaded: what the later rooms work on; and where names are looked up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import patchkit
from patchkit.errors import RequestError
from patchkit.recipe.model import Issue, Patch, Recipe, Repro, RewriteStep
from patchkit.recipe.validate import nearest

USAGE = "give a file, a folder with recipe.yaml, or the name of a shipped recipe"
Kind = Literal["patches", "issues", "recipes"]


@dataclass(frozen=True)
class LoadedPatch:
    """A patch folder. `rewrites` holds the steps of each rewrite file by its name in patch.yaml."""

    slug: str
    folder: Path
    patch: Patch
    rewrites: Mapping[str, tuple[RewriteStep, ...]]
    sha256: str  # over all files of the folder that count: patch.yaml and every file that it names


@dataclass(frozen=True)
class LoadedIssue:
    """An issue folder. `sha256` covers every file of it but hidden ones: a changed repro is another repro.

    `environments` are the requirements files that its repros name, `modules` the shared ones that its scripts import:
    `sha256` covers these, too.
    """

    slug: str
    folder: Path
    issue: Issue
    sha256: str
    environments: Mapping[str, Path] = field(default_factory=dict)
    modules: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class LoadedRecipe:
    """A recipe file, its patches and issues.

    `selected` are the (issue, repro) pairs that `issues:` names, in order. An issue named alone means all its repros
    but those that need a GPU: these are named as `issue/repro`, where there is one.
    """

    path: Path
    recipe: Recipe
    patches: Mapping[str, LoadedPatch]
    issues: Mapping[str, LoadedIssue]
    selected: tuple[tuple[LoadedIssue, Repro], ...]
    root: Path  # the library; see `open_library`

    @property
    def folder(self) -> Path:
        """Return the folder that the recipe's paths (`series: {file: …}`, `requirements:`) are relative to."""
        return self.path.parent

    @property
    def own_requirements(self) -> Path | None:
        """Return the requirements file of the recipe's `environment:`, or None."""
        name = self.recipe.environment.requirements
        return None if name is None else self.folder / name

    def requirements(self, name: str) -> Path:
        """Return the requirements file that a repro's `environment:` names. Raises `KeyError` for any other name."""
        return {name: path for issue in self.issues.values() for name, path in issue.environments.items()}[name]

    def chosen(self, names: Sequence[str]) -> tuple[tuple[LoadedIssue, Repro], ...]:
        """Return the repros that are meant: all that the recipe selects, or those of the issues named.

        Raises `RequestError` for a name that the recipe does not have, and for a recipe without issues.
        """
        if not self.selected:
            raise RequestError(f"{self.path}: the recipe names no issue", "add `issues: [NAME]` to it")
        return tuple(pair for name in names for pair in self.repros_named(name)) or self.selected

    def repros_named(self, name: str) -> tuple[tuple[LoadedIssue, Repro], ...]:
        """Return the repros that `issue` or `issue/repro` means: of an issue alone, those that the recipe selects.

        Raises `RequestError` for a name that the recipe does not have.
        """
        slug, _, repro = name.partition("/")
        if slug not in self.issues:
            raise RequestError(f"{self.path}: no issue named {slug}", f"it has: {', '.join(self.issues) or 'none'}")
        issue = self.issues[slug]
        if not repro:
            return tuple(pair for pair in self.selected if pair[0].slug == slug)
        found = tuple((issue, one) for one in issue.issue.repros if one.name == repro)
        if not found:
            known = ", ".join(one.name for one in issue.issue.repros)
            raise RequestError(f"{slug}: no repro named {repro}", f"it has: {known}")
        return found


@dataclass(frozen=True)
class Library:
    """Where names are looked up: the user's own folder first, then what patchkit ships."""

    root: Path
    shipped: Path | None

    def find(self, kind: Kind, name: str) -> Path | None:
        """Return the folder of a patch, issue or recipe, or None."""
        return next((root / kind / name for root in self._roots if (root / kind / name).is_dir()), None)

    def find_environment(self, name: str) -> Path | None:
        """Return the requirements file of an environment, or None."""
        files = [root / "recipes" / "environments" / f"{name}.txt" for root in self._roots]
        return next((file for file in files if file.is_file()), None)

    def find_shared(self, name: str) -> Path | None:
        """Return the folder with the module that issues share under a name, or None."""
        folders = [root / "issues" / "shared" for root in self._roots]
        return next((folder for folder in folders if (folder / f"{name}.py").is_file()), None)

    def shared_names(self) -> tuple[str, ...]:
        """Return the names of all modules that issues share, sorted."""
        return tuple(sorted({file.stem for root in self._roots for file in (root / "issues/shared").glob("*.py")}))

    def names(self, kind: Kind) -> tuple[str, ...]:
        """Return all names of a kind, sorted."""
        marker = {"patches": "patch.yaml", "issues": "issue.yaml", "recipes": "recipe.yaml"}[kind]
        return tuple(sorted({file.parent.name for root in self._roots for file in (root / kind).glob(f"*/{marker}")}))

    def environment_names(self) -> tuple[str, ...]:
        """Return the names of all environments, sorted."""
        return tuple(
            sorted({file.stem for root in self._roots for file in (root / "recipes/environments").glob("*.txt")})
        )

    @property
    def _roots(self) -> tuple[Path, ...]:
        return (self.root,) if self.shipped in (None, self.root) else (self.root, self.shipped)


def open_library(folder: Path) -> Library:
    """Return the library that a folder belongs to: the nearest one above with patches/ or issues/.

    Where there is none yet: what holds the recipes/ that the folder lies in, else the folder itself.
    """
    folder = folder.absolute()
    above = (folder, *folder.parents)
    alone = next((one.parent for one in above[:2] if one.name == "recipes"), folder)
    root = next((one for one in above if (one / "patches").is_dir() or (one / "issues").is_dir()), alone)
    return Library(root, shipped_library())


def shipped_library() -> Path | None:
    """Return the library that came with patchkit: in the package, or the checkout that it runs from."""
    package = Path(patchkit.__file__).absolute().parent
    if (package / "library").is_dir():
        return package / "library"
    checkout = package.parent
    return checkout if (checkout / "pyproject.toml").is_file() and (checkout / "recipes").is_dir() else None


def explain_kind(file: Path) -> RequestError:
    """Return the error for a patch or issue that stands where a recipe is wanted."""
    kind = file.name.removesuffix(".yaml")
    place = "series" if kind == "patch" else "issues"
    hint = f"add {file.absolute().parent.name} to the {place} of a recipe, and name that"
    return RequestError(f"{file}: is {'a' if kind == 'patch' else 'an'} {kind}, not a recipe", hint)


def explain_missing(path: Path, names: list[str]) -> RequestError:
    """Return the error for a path that is no recipe file, no folder with one, and no name of a shipped recipe."""
    if path.is_dir():
        for name in ("patch.yaml", "issue.yaml"):
            if (path / name).is_file():
                return explain_kind(path / name)
        files = [file for file in sorted(path.glob("*.yaml")) if file.is_file()][:3]
        hint = f"name a file: {', '.join(map(str, files))}" if files else USAGE
        return RequestError(f"{path}: holds no recipe.yaml", hint)
    if path.exists():
        return RequestError(f"{path}: is neither a file nor a folder", USAGE)
    return RequestError(f"{path}: there is no such recipe", nearest(path.name, names) or USAGE)


def names_beside(path: Path) -> list[str]:
    """Return the names of the YAML files that lie where `path` would."""
    return [file.name for file in path.parent.glob("*.yaml") if file.is_file() and file.name != path.name]
