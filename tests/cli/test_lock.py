"""The verb `lock`: what it tells of a pull request that was pushed by force."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchkit.cli.run import run
from tests.support.repositories import GitRepository


@pytest.fixture
def upstream(tmp_path: Path) -> GitRepository:
    upstream = GitRepository(tmp_path / "upstream")
    upstream.commit({"x": "one\n"})
    (tmp_path / "recipe.yaml").write_text(
        f'format: 1\nname: r\nupstream: {{vllm: {{git: "{upstream.url}", ref: main}}}}\nseries: [{{pull: 7}}]\n'
    )
    return upstream


def push(upstream: GitRepository, text: str) -> str:
    upstream.branch("work", "main")
    upstream.commit({"y": text}, "add y", branch="work")
    upstream.ref("refs/pull/7/head", "work")
    return upstream.head("work")


def test_a_moved_pull_request_is_told_with_a_range_diff(
    upstream: GitRepository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = push(upstream, "1\n")
    recipe = str(tmp_path / "recipe.yaml")
    assert run(["lock", recipe]) == 0
    capsys.readouterr()
    new = push(upstream, "2\n")
    assert run(["lock", recipe]) == 0
    told = capsys.readouterr()
    assert f"pull/7 moved from {old[:12]} to {new[:12]}: another change; kept at {old[:12]}" in told.out
    assert "    1:  ! 1:  add y" in told.out.splitlines()
    assert "        -+1" in told.out.splitlines()
    assert f"to take it: patchkit lock {recipe} --update" in told.err
    assert run(["lock", recipe, "--dry-run"]) == 0
    assert run(["lock", recipe, "--update", "--dry-run", "--json"]) == 1
    captured = capsys.readouterr().out
    document = json.loads(captured[captured.index("{") :])
    (move,) = document["moved"]
    assert (move["movement"], move["from"], move["to"]) == ("changed", old, new)
    assert run(["lock", recipe, "--update"]) == 0
    assert "; taken" in capsys.readouterr().out


def test_what_takes_the_new_head_of_an_imported_pull_request_is_told(
    upstream: GitRepository, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = push(upstream, "1\n")
    library = tmp_path / "library"
    (library / "recipes/r").mkdir(parents=True)
    recipe = library / "recipes/r/recipe.yaml"
    recipe.write_text((tmp_path / "recipe.yaml").read_text().replace("{pull: 7}", ""))
    assert run(["import", "pull/7", str(recipe), "--add", "--name", "y"]) == 0
    push(upstream, "2\n")
    assert run(["lock", str(recipe), "--update"]) == 0
    told = capsys.readouterr()
    assert f"pull/7, from which y was imported, moved from {old[:12]} to " in told.out
    assert f"another change; kept at {old[:12]}" in told.out
    command = f"patchkit import pull/7 {recipe} --name y --upstream vllm --update"
    assert f"to take it: {command}" in told.err
    assert run(command.split()[1:]) == 0
    assert run(["lock", str(recipe)]) == 0
    assert "moved" not in capsys.readouterr().out
