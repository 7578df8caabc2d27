"""Spoiled recipes, patches, issues and rewrites: every problem is told with its place, and no traceback."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.errors import PatchkitError
from patchkit.recipe.load import check_files, load_recipe
from tests.fuzz.mangle import FUZZ, mangled
from tests.recipe.files import LIBRARY, RECIPE_FILE, write_library

NAMES = [name for name in LIBRARY if name.endswith(".yaml")]
WORDS = (
    b"format: 2",
    b"format: '1'",
    b"name: [a]",
    b"series: {a: b}",
    b"series: [guard, guard, {pull: 0}, {revert: zz}, {file: ../x}]",
    b"issues: [crash/none, ../crash, 3]",
    b"include: [recipe.yaml]",
    b"include: [../../../x.yaml]",
    b"upstream: {vllm: {git: 'ext::sh -c true', ref: -x}}",
    b"when: 'vllm >= 0.26 and ('",
    b"signature: '['",
    b"uses: [../x]",
    b"repros: []",
    b"a: &a [*a]",
    b"<<: {format: 1}",
    b"? [x]",
    b"- ",
    b": :",
    b"\t- x",
    b"!!binary x",
    b"\xff\xfe",
    b"--- ",
    b"...",
    b"{" * 200,
    b"x: " + b"9" * 400,
)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_library(tmp_path_factory.mktemp("library"))


@FUZZ
@given(st.data())
def test_a_spoiled_file_of_a_library_is_told_with_its_place(recipe: Path, data: st.DataObject) -> None:
    root = recipe.parents[2]
    name = data.draw(st.sampled_from(NAMES))
    (root / name).write_bytes(data.draw(mangled([LIBRARY[name].encode()], WORDS)))
    try:
        with contextlib.suppress(PatchkitError):
            assert load_recipe(root / RECIPE_FILE).recipe.format == 1
        problems = check_files((root,))
    finally:
        (root / name).write_text(LIBRARY[name])
    assert all(problem.file and problem.message for problem in problems)
