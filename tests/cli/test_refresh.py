"""The verb `refresh`: exit codes, the range-diff, the document."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchkit.cli.run import run
from tests.support.repositories import GitRepository

TEXT = "".join(f"line {number}\n" for number in range(1, 31))
DIFF = "--- a/x\n+++ b/x\n@@ -9,3 +9,3 @@\n line 9\n-line 10\n+zehn\n line 11\n"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    upstream = GitRepository(tmp_path / "upstream")
    upstream.commit({"x": TEXT})
    upstream.tag("v1")
    upstream.commit({"x": TEXT.replace("line 10", "ligne 10")})
    path = tmp_path / "recipe.yaml"
    path.write_text(
        f'format: 1\nname: r\nupstream: {{vllm: {{git: "{upstream.url}", ref: v1}}}}\nseries: [{{file: x.patch}}]\n'
    )
    path.with_name("x.patch").write_text(DIFF)
    return path


def test_a_refresh_shows_what_changed_in_the_patch(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["refresh", str(recipe), "--dry-run"]) == 1
    assert f"x.patch: would change (clean): {recipe.with_name('x.patch')}" in capsys.readouterr().out
    assert run(["refresh", str(recipe)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:3] == ["  1:  ! 1:  x", "      @@"]
    assert "      + line 8" in lines
    assert run(["refresh", str(recipe), "x.patch"]) == 0
    assert capsys.readouterr().out == "x.patch: fresh\n"


def test_a_conflict_exits_1_with_what_to_do_next(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["refresh", str(recipe), "--at", "main"]) == 1
    told = capsys.readouterr()
    assert "x.patch: refused: conflict: x: hunk 1 (-9)" in told.out
    assert "  next: `patchkit status --first-conflict`" in told.out
    assert "nothing written: x.patch cannot be refreshed" in told.err


def test_the_document_has_the_range_diff_and_what_was_written(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["refresh", str(recipe), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (patch,) = document["patches"]
    assert (patch["changed"], patch["outcome"], patch["refused"], document["blocked_by"]) == (True, "clean", None, [])
    assert [(pair["sign"], pair["old"], pair["new"]) for pair in patch["range_diff"]] == [("!", 1, 1)]
    assert document["written"] == [patch["file"]] == [str(recipe.with_name("x.patch"))]


def test_an_unknown_patch_cannot_be_done(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["refresh", str(recipe), "nix"]) == 128
    assert "it has: x.patch" in capsys.readouterr().err
