"""A recipe with everything it names, loaded: what the later rooms work on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from patchkit.recipe.model import Issue, Patch, Recipe, Repro, RewriteStep


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
    """An issue folder. `sha256` covers every file of it: a changed repro is another repro."""

    slug: str
    folder: Path
    issue: Issue
    sha256: str

    def repro(self, name: str | None) -> Repro:
        """Return a repro by name, the first when None. Raises `KeyError`."""
        if name is None:
            return self.issue.repros[0]
        return {repro.name: repro for repro in self.issue.repros}[name]


@dataclass(frozen=True)
class LoadedRecipe:
    """A recipe file, its patches and issues. `selected` are the (issue, repro) pairs that `issues:` names, in order."""

    path: Path
    recipe: Recipe
    patches: Mapping[str, LoadedPatch]
    issues: Mapping[str, LoadedIssue]
    selected: tuple[tuple[LoadedIssue, Repro], ...]
    root: Path  # the library: the nearest folder above that holds patches/, issues/ and recipes/
