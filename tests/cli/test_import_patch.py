"""The verb `import`: what it tells, the document, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchkit.cli.run import run
from tests.support.repositories import GitRepository

DIFF = "--- a/v/x.py\n+++ b/v/x.py\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    upstream = GitRepository(tmp_path / "upstream")
    upstream.commit({"v/x.py": "one\ntwo\nthree\n", "tests/t.py": "1\n", "csrc/x.cu": "1\n"})
    upstream.branch("work")
    upstream.commit({"v/x.py": "one\nzwei\nthree\n", "tests/t.py": "2\n", "csrc/x.cu": "2\n"}, "Two", branch="work")
    upstream.ref("refs/pull/7/head", "work")
    path = tmp_path / "library/recipe.yaml"
    path.parent.mkdir()
    path.write_text(f'format: 1\nname: r\nupstream: {{vllm: {{git: "{upstream.url}", ref: main}}}}\nseries: []\n')
    return path


def test_a_pull_request_is_told_with_what_it_needs_and_where_it_went(
    recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["import", "#7", str(recipe), "--add"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "two: new: Two"
    assert out[1].startswith(f"  {recipe.parent}/patches/two  from pull/7 at ")
    assert out[2:] == [
        "  2 files, 1 beside it (tests, docs, CI)",
        "  needs a native build: csrc/x.cu",
        f"added to the series of {recipe}",
    ]
    assert run(["apply", str(recipe)]) == 0
    assert "needs a native build" in capsys.readouterr().out
    assert run(["import", "pull/7", str(recipe), "--add"]) == 0
    assert capsys.readouterr().out.startswith("two: unchanged: Two\n")
    assert run(["check", str(recipe.parent)]) == 0


def test_the_document_names_what_was_taken(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["import", "#7", str(recipe), "--json", "--name", "seven", "--exclude", "csrc/**"]) == 0
    document = json.loads(capsys.readouterr().out)
    (patch,) = document["patches"]
    assert (patch["patch"], patch["state"], patch["author"]) == ("seven", "new", "Ada Author <ada@example.org>")
    assert (patch["files"], patch["aside"], patch["native"]) == (["v/x.py"], ["csrc/x.cu", "tests/t.py"], [])
    assert patch["imported"]["from"] == "pull/7"
    assert document["added_to"] is None


def test_a_library_is_enough_for_a_file(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    diff = recipe.with_name("fix.diff")
    diff.write_text(DIFF)
    library = recipe.parent / "mine"
    library.mkdir()
    assert run(["import", str(diff), str(library), "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("fix: would be new: Change v/x.py\n")
    assert run(["import", str(diff), str(library)]) == 0
    assert "add fix to the series of a recipe" in capsys.readouterr().err
    assert (library / "patches/fix/patch.yaml").is_file()


def test_what_cannot_be_had_exits_128(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["import", "nix", str(recipe)]) == 128
    assert run(["import", "#8", str(recipe)]) == 128
    assert run(["import", "#7", str(recipe.parent / "nix.yaml")]) == 128
    assert run(["import", "#7"]) == 129
    assert list((recipe.parent).iterdir()) == [recipe]
