"""`check` is what editors and CI read: one line a problem, and an exit code that tells wrong from cannot."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchkit.cli.run import run
from tests.recipe.files import RECIPE, RECIPE_FILE, write_library


def test_valid_files_are_silent_on_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_library(tmp_path)
    assert run(["check", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "valid\n")


def test_problems_are_lines_with_a_hint_below(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_library(tmp_path, {RECIPE_FILE: RECIPE.replace("guard", "gaurd") + "wrong: x\n"})
    monkeypatch.chdir(tmp_path)
    assert run(["check", RECIPE_FILE]) == 1
    captured = capsys.readouterr()
    first, second, third, fourth = captured.out.splitlines()
    assert first == f"{RECIPE_FILE}:5:10: series[0]: there is no patch gaurd"
    assert second == "  hint: did you mean guard?"
    assert third == f"{RECIPE_FILE}:7:1: wrong: unknown key"
    assert fourth.startswith("  hint: known keys: format, name")
    assert captured.err == "2 problems\n"


def test_json_is_one_document_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = write_library(tmp_path, {RECIPE_FILE: RECIPE.replace("v0.26.0", "0.26")})
    assert run(["check", "--json", str(recipe)]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "format": 1,
        "problems": [
            {
                "file": str(recipe),
                "line": 4,
                "column": 30,
                "where": "upstream.vllm.ref",
                "message": "YAML reads 0.26 as a number",
                "hint": 'quote it: "0.26"',
            }
        ],
    }
    write_library(tmp_path)
    assert run(["check", "--json", str(recipe)]) == 0
    assert json.loads(capsys.readouterr().out) == {"format": 1, "problems": []}


def test_what_cannot_be_checked_exits_with_128_and_no_path_with_129(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", str(tmp_path / "gone.yaml")]) == 128
    assert run(["check", str(tmp_path)]) == 128
    assert run(["check"]) == 129
    assert capsys.readouterr().out == ""
