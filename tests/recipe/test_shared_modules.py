"""Modules that issues share: named without a path, part of the issue's identity, never from outside the library."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchkit.recipe.load import load_recipe
from tests.recipe.files import ISSUE, complaints_of, write_files, write_library

USES = ISSUE.replace("signature:", "uses: [reader]\nsignature:")
SHARED = {"issues/crash/issue.yaml": USES, "issues/shared/reader.py": "x = 1\n", "issues/shared/other.py": "y = 1\n"}


def digest(recipe: Path) -> str:
    return load_recipe(recipe).issues["crash"].sha256


def test_an_issue_has_the_modules_it_names_and_no_others(tmp_path: Path) -> None:
    issue = load_recipe(write_library(tmp_path, SHARED)).issues["crash"]
    assert issue.modules == {"reader": tmp_path / "issues/shared/reader.py"}


def test_a_changed_module_is_another_issue_and_a_changed_neighbour_is_not(tmp_path: Path) -> None:
    recipe = write_library(tmp_path, SHARED)
    first = digest(recipe)
    write_files(tmp_path, {"issues/shared/other.py": "y = 2\n"})
    assert digest(recipe) == first
    write_files(tmp_path, {"issues/shared/reader.py": "x = 2\n"})
    assert digest(recipe) != first


def test_an_issue_that_shares_nothing_keeps_its_digest(tmp_path: Path) -> None:
    plain = digest(write_library(tmp_path / "a"))
    assert digest(write_library(tmp_path / "b", {"issues/shared/reader.py": "x = 1\n"})) == plain


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("raeder", "there is no file raeder.py in "),
        ("raeder", "reader?"),
        ("../crash/static", "must be the name of a Python module"),
        ("reader.py", "must be the name of a Python module"),
        ("/reader", "must be the name of a Python module"),
        ("3", "YAML reads 3 as a number"),
    ],
)
def test_what_is_no_module_of_the_library_is_told_at_its_place(tmp_path: Path, name: str, told: str) -> None:
    recipe = write_library(tmp_path, {**SHARED, "issues/crash/issue.yaml": USES.replace("reader", name)})
    complaints = complaints_of(recipe, tmp_path)
    assert complaints
    assert all(one.startswith("issues/crash/issue.yaml:3:") for one in complaints)
    assert told in " ".join(complaints) or told in str(_hints(recipe))


def test_a_link_out_of_the_shared_folder_is_refused(tmp_path: Path) -> None:
    recipe = write_library(tmp_path, SHARED)
    (tmp_path / "secret.py").write_text("x = 1\n")
    module = tmp_path / "issues/shared/reader.py"
    module.unlink()
    module.symlink_to(tmp_path / "secret.py")
    (complaint,) = complaints_of(recipe, tmp_path)
    assert "reader.py leads out of " in complaint


def _hints(recipe: Path) -> list[str]:
    from patchkit.errors import InvalidFile

    try:
        load_recipe(recipe)
    except InvalidFile as error:
        return [problem.hint for problem in error.problems]
    return []
