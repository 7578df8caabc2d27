"""The verb `export`: exit codes, what it tells, the document."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchkit.cli.run import run
from tests.cli.test_refresh import recipe  # noqa: F401  # a fixture


def test_files_and_the_command_for_them_are_told(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: F811
    out = recipe.with_name("out")
    assert run(["export", str(recipe), "--to", str(out)]) == 0
    told = capsys.readouterr()
    lines = told.out.splitlines()
    assert lines[1] == f"  {out}/0001-x.patch"
    assert lines[2].startswith("tree  ")
    assert f": git am --keep-cr {out}/*.patch" in told.err
    assert run(["export", str(recipe), "--to", str(out)]) == 0
    assert capsys.readouterr().out.endswith("(unchanged)\n")


def test_a_conflict_exits_1_and_writes_nothing(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: F811
    out = recipe.with_name("out")
    assert run(["export", str(recipe), "--to", str(out), "--at", "main", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["tree"], document["files"], document["series"][0]["outcome"]) == (None, [], "conflict")
    assert not out.exists()


def test_the_document_names_files_and_tree(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: F811
    out = recipe.with_name("out")
    assert run(["export", str(recipe), "--to", str(out), "--format", "diff", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["files"], document["changed"], len(document["tree"])) == ([str(out / "r.diff")], True, 40)


def test_a_folder_that_is_not_ours_cannot_be_done(recipe: Path) -> None:  # noqa: F811
    assert run(["export", str(recipe), "--to", str(recipe.parent)]) == 128
