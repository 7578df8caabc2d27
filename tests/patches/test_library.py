"""Every shipped patch and recipe loads, and says what a reader needs to know."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchkit.recipe.load import load_patch, load_recipe
from patchkit.recipe.model import ChangeRewrite, RewriteCreate

ROOT = Path(__file__).parents[2]
PATCHES = sorted(file.parent for file in (ROOT / "patches").glob("*/patch.yaml"))
RECIPES = sorted((ROOT / "recipes").glob("*/recipe.yaml"))


def test_the_library_is_not_empty() -> None:
    assert {folder.name for folder in PATCHES} >= {"deepgemm-arch-guard", "e8m0-upcast"}
    assert {file.parent.name for file in RECIPES} >= {"deepseek-v4-gb10", "quickstart"}


@pytest.mark.parametrize("folder", PATCHES, ids=lambda folder: folder.name)
def test_a_patch_loads_and_every_file_of_it_counts(folder: Path) -> None:
    loaded = load_patch(folder)
    named = {change.rewrite for change in loaded.patch.change if isinstance(change, ChangeRewrite)}
    created = {step.create for steps in loaded.rewrites.values() for step in steps if isinstance(step, RewriteCreate)}
    assert {file.name for file in folder.iterdir()} == {"patch.yaml", "README.md", *named, *created}
    assert all(loaded.rewrites.values())


@pytest.mark.parametrize("folder", PATCHES, ids=lambda folder: folder.name)
def test_a_patch_says_why_what_it_fixes_and_where_upstream_stands(folder: Path) -> None:
    patch = load_patch(folder).patch
    assert patch.why
    assert patch.when
    assert patch.issue
    assert patch.upstream_status.startswith("Pending") or "/pull/" in patch.upstream_status
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert all(f"**{heading}.**" in readme for heading in ("What", "Why", "Range", "Proven", "Needs hardware"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.parent.name)
def test_a_recipe_loads_with_its_patches_and_issues(path: Path) -> None:
    loaded = load_recipe(path)
    assert loaded.recipe.name == path.parent.name
    assert loaded.selected
    fixed = {issue for patch in loaded.patches.values() for issue in patch.patch.issue}
    # A guard is good without the series too: no patch fixes it.
    assert {issue.slug for issue, _ in loaded.selected if issue.issue.expects.without == "bad"} <= fixed
    assert (path.parent / "README.md").is_file()


def test_the_quickstart_needs_nothing_but_python() -> None:
    loaded = load_recipe(ROOT / "recipes" / "quickstart" / "recipe.yaml")
    assert all(upstream.git is None for upstream in loaded.recipe.upstream.values())
    assert loaded.recipe.image.base == "none"
    assert [(repro.fidelity, repro.environment) for _, repro in loaded.selected] == [("static", None)] * 2
