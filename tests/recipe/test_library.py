"""Names are looked up in the user's library first, then in the one that came with patchkit."""

from __future__ import annotations

from pathlib import Path

import pytest

import patchkit
from patchkit.errors import RequestError
from patchkit.recipe import library
from patchkit.recipe.library import Library, open_library, shipped_library
from patchkit.recipe.load import load_recipe
from tests.recipe.files import LIBRARY, RECIPE, RECIPE_FILE, write_files, write_library


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package as a wheel installs it, with a library inside."""
    package = tmp_path / "site-packages" / "patchkit"
    write_files(package / "library", LIBRARY)
    write_files(package, {"__init__.py": ""})
    monkeypatch.setattr(patchkit, "__file__", str(package / "__init__.py"))
    return package / "library"


def test_the_library_is_the_nearest_folder_above_with_patches_or_issues(tmp_path: Path) -> None:
    recipe = write_library(tmp_path / "outer" / "inner")
    (tmp_path / "outer" / "patches").mkdir()
    assert open_library(recipe.parent).root == tmp_path / "outer" / "inner"


def test_a_recipe_without_a_library_around_it_is_its_own(tmp_path: Path) -> None:
    write_files(tmp_path, {"recipe.yaml": "format: 1\nname: x\nupstream: {vllm: {git: x, ref: v1}}\n"})
    assert load_recipe(tmp_path).root == tmp_path


def test_a_new_library_begins_where_its_recipes_lie(tmp_path: Path) -> None:
    (tmp_path / "recipes" / "first").mkdir(parents=True)
    for folder in ("recipes/first", "recipes", "."):
        assert open_library(tmp_path / folder).root == tmp_path


def test_a_checkout_ships_its_own_folders() -> None:
    checkout = Path(patchkit.__file__).parents[1]
    assert shipped_library() == checkout
    assert library.shipped_library() is not None


def test_an_installed_package_ships_the_folder_inside(installed: Path) -> None:
    assert shipped_library() == installed


def test_what_the_users_library_lacks_is_taken_from_the_shipped_one(installed: Path, tmp_path: Path) -> None:
    write_files(tmp_path / "mine", {RECIPE_FILE: RECIPE, "patches/other/patch.yaml": ""})
    loaded = load_recipe(tmp_path / "mine" / RECIPE_FILE)
    assert loaded.patches["guard"].folder == installed / "patches/guard"
    assert loaded.requirements("cpu") == installed / "recipes/environments/cpu.txt"
    own = "format: 1\ntitle: Mine\nchange: [{pull: 1}]\n"
    write_files(tmp_path / "mine", {"patches/guard/patch.yaml": own})
    assert load_recipe(tmp_path / "mine" / RECIPE_FILE).patches["guard"].patch.title == "Mine"


def test_a_shipped_recipe_can_be_named(installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_recipe(Path("demo")).path == installed / RECIPE_FILE
    with pytest.raises(RequestError) as caught:
        load_recipe(Path("dmeo"))
    assert caught.value.hint == "did you mean demo?"


def test_a_file_or_folder_of_the_users_comes_before_a_shipped_recipe(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(tmp_path, {"demo/recipe.yaml": "format: 1\nname: mine\nupstream: {vllm: {git: x, ref: v1}}\n"})
    monkeypatch.chdir(tmp_path)
    assert load_recipe(Path("demo")).recipe.name == "mine"


def test_names_are_those_of_both_libraries(tmp_path: Path) -> None:
    write_files(tmp_path / "one", {"patches/a/patch.yaml": "", "recipes/environments/x.txt": ""})
    write_files(
        tmp_path / "two", {"patches/b/patch.yaml": "", "patches/no-patch/x": "", "recipes/environments/y.txt": ""}
    )
    both = Library(tmp_path / "one", tmp_path / "two")
    assert both.names("patches") == ("a", "b")
    assert both.environment_names() == ("x", "y")
