"""The words of `bisect --axis`: a typo must end as one, not as an answer about an innocent commit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchkit.cli.run import run
from tests.workflows.pairs import make_pair


@pytest.mark.parametrize("axis", ["commit", "dependency", "dependency:", "dependency:-x", "dependency:a/b", "Pair"])
def test_an_axis_that_is_none_is_a_usage_error(axis: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = make_pair(tmp_path)
    assert run(["bisect", str(pair.recipe), "--good", "a", "--bad", "b", "--axis", axis]) == 129
    assert "is none of commits, releases, pair, patches, dependency:NAME" in capsys.readouterr().err


def test_only_patches_have_no_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = make_pair(tmp_path)
    assert run(["bisect", str(pair.recipe), "--axis", "pair"]) == 129
    assert "--good" in capsys.readouterr().err
    assert run(["bisect", str(pair.recipe), "--axis", "patches", "--good", "x", "--source", "git"]) == 128
    assert "--axis patches has no ends" in capsys.readouterr().err


def test_the_patches_of_both_trees_are_asked_about(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = make_pair(tmp_path)
    (engine,) = pair.engines("a b")
    pair.wants("a b", engine)
    script = tmp_path / "issues" / "missing" / "repro.py"
    script.write_text(script.read_text() + "\nif (engine / 'note.txt').exists():\n    sys.exit('MISSING: note')\n")
    script.write_text(script.read_text().replace(" if missing else 0)", ") if missing else None"))
    code = run(["bisect", str(pair.recipe), "--axis", "patches", "--source", "git", "--json"])
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (code, result["culprits"], result["patches"]) == (0, ["engine-note"], ["plugin-note", "engine-note"])


@pytest.mark.parametrize("words", [["--at", "main"], ["--pin", "release"]])
def test_an_option_of_another_axis_is_refused(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = make_pair(tmp_path)
    (engine,) = pair.engines("a")
    pair.wants("a", engine)
    assert run(["bisect", str(pair.recipe), "--source", "git", "--good", "main", "--bad", "main", *words]) == 128
    assert words[0] in capsys.readouterr().err


def test_the_journals_of_both_searches_of_a_pair_are_printed_and_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = make_pair(tmp_path)
    engines = pair.engines("a b", "a b c", "a", "a c")
    plugins = [pair.wants("b", engines[0]), pair.wants("b a", engines[3])]
    words = [str(pair.recipe), "--source", "git", "--good", plugins[0], "--bad", plugins[1], "--axis", "pair"]
    assert run(["bisect", *words, "--confirm", "1"]) == 0
    out = capsys.readouterr().out
    assert f"{plugins[1]} is the first bad commit (confirmed)" in out
    assert f"    {engines[2]} is the first bad commit (confirmed)" in out
    assert run(["bisect", "log", *words]) == 0
    assert f", at plugin {plugins[1][:12]}" in capsys.readouterr().out
    assert run(["bisect", "replay", *words]) == 0
    assert "all as in the journal" in capsys.readouterr().out
