"""The verb `status --symbols`: exit codes, the table, the document, the baseline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchkit.cli.run import run
from tests.support.repositories import GitRepository


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    upstream = GitRepository(tmp_path / "upstream")
    upstream.commit({"vllm/__init__.py": "", "vllm/a.py": "def f(): pass\n"})
    upstream.tag("v1.0.0")
    upstream.commit({"vllm/a.py": None, "vllm/b.py": "def f(): pass\n"}, "a is b (#7)")
    upstream.tag("v2.0.0")
    path = tmp_path / "recipe.yaml"
    path.write_text(f'format: 1\nname: r\nupstream: {{vllm: {{git: "{upstream.url}", ref: v1.0.0}}}}\nseries: []\n')
    (tmp_path / "plugin").mkdir()
    (tmp_path / "plugin" / "p.py").write_text("import os\nfrom vllm.a import f\n")
    return path


def call(recipe: Path, *arguments: str) -> int:
    return run(["status", str(recipe), "--symbols", str(recipe.with_name("plugin")), *arguments])


def test_a_package_that_stands_exits_0_and_one_that_does_not_1(
    recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(recipe) == 0
    assert call(recipe, "--range", "v1.0.0..v2.0.0") == 1
    out = capsys.readouterr().out
    assert "plugin: 1 files, 1 uses of vllm" in out
    assert "vllm.a.f: gone; vllm.a is gone; now vllm.b.f; since " in out
    assert "a is b (#7)\n  plugin/p.py:2: import" in out


def test_the_document_names_symbol_problem_place_and_commit(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(recipe, "--against", "v1.0.0", "--against", "v2.0.0", "--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert [(ref["at"], ref["stands"]) for ref in document["against"]] == [("v1.0.0", True), ("v2.0.0", False)]
    (symbol,) = document["symbols"]
    assert (symbol["symbol"], symbol["problem"], symbol["missing"]) == ("vllm.a.f", "gone", "vllm.a")
    assert (symbol["moved_to"], symbol["since"], symbol["known"]) == (["vllm.b.f"], None, False)
    assert [(use["file"], use["line"], use["kind"]) for use in symbol["uses"]] == [("plugin/p.py", 2, "import")]


def test_a_baseline_is_written_with_exit_0_and_then_excuses(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(recipe.with_name("baseline.json"))
    assert call(recipe, "--against", "v2.0.0", "--write-baseline", path) == 0
    assert call(recipe, "--against", "v2.0.0", "--baseline", path) == 0
    assert "gone (known)" in capsys.readouterr().out
    assert call(recipe, "--against", "v1.0.0", "--baseline", path) == 0
    assert "healed, leave it out of the baseline: vllm.a.f (gone)" in capsys.readouterr().out


def test_options_that_do_not_go_together_are_usage_errors(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(recipe, "--first-conflict") == 129
    assert call(recipe, "--git", "x") == 129
    assert run(["status", str(recipe), "--baseline", "x"]) == 129
    assert "--baseline needs --symbols PATH" in capsys.readouterr().err
    assert run(["status", str(recipe), "--symbols", str(recipe.with_name("nothing"))]) == 128
