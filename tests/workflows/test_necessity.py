"""The workflow of `repro --leave-one-out`: each patch removed in turn, on real trees with real repros."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from patchkit.cli.run import run
from patchkit.errors import RequestError
from patchkit.report.necessity import NecessityReport
from patchkit.tools.toolkit import Toolkit
from patchkit.verdict.expectation import Need
from patchkit.workflows.necessity import NecessityRequest, find_necessity
from tests.workflows.worlds import World, linear

OTHER = "--- a/other.txt\n+++ b/other.txt\n@@ -1 +1 @@\n-one\n+two\n"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A fault that `heal` repairs; `other` changes a file that no repro reads, `later` does not apply here."""
    world, _ = linear(tmp_path, ["good", "fault"])
    world.upstream.commit({"other.txt": "one\n"})
    for slug, more in {
        "other": "change: [{patch: x.patch}]\n",
        "later": 'when: "vllm >= 99"\nchange: [{patch: x.patch}]\n',
        "child": "requires: [heal]\nchange: [{file: child.txt, source: x.patch}]\n",
    }.items():
        folder = tmp_path / "patches" / slug
        folder.mkdir()
        (folder / "patch.yaml").write_text(f"format: 1\ntitle: {slug}\n{more}")
        (folder / "x.patch").write_text(OTHER)
    series(world, "heal, other, later, child")
    return world


def series(world: World, names: str) -> None:
    text = world.recipe.read_text()
    world.recipe.write_text(
        "".join(f"series: [{names}]\n" if line.startswith("series") else line for line in text.splitlines(True))
    )


@pytest.fixture
def find(toolkit: Toolkit, world: World) -> Callable[..., NecessityReport]:
    def call(**options: object) -> NecessityReport:
        return find_necessity(toolkit, NecessityRequest(world.recipe, **options))  # type: ignore[arg-type]

    return call


def test_each_patch_is_left_out_with_those_that_require_it(find: Callable[..., NecessityReport]) -> None:
    found = {removal.patch: (removal.need, removal.also) for removal in find().removals}
    assert found == {
        "heal": (Need.NEEDED, ("child",)),
        "other": (Need.REMOVABLE, ()),
        "later": (Need.NOT_HERE, ()),
        "child": (Need.REMOVABLE, ()),
    }


def test_equal_trees_are_not_run_again(find: Callable[..., NecessityReport], world: World) -> None:
    find()
    first = len(world.runs)
    assert first == 4, "whole, and without heal, other and child"
    find()
    assert len(world.runs) == first
    find(fresh=True)
    assert len(world.runs) == 2 * first


def test_a_repro_that_is_bad_with_the_whole_series_tells_nothing(
    find: Callable[..., NecessityReport], world: World
) -> None:
    series(world, "other")
    (removal,) = find().removals
    assert removal.need is Need.CANNOT_TELL
    assert "is bad with the whole series" in removal.detail


def test_an_empty_series_and_one_that_does_not_apply_are_errors(
    find: Callable[..., NecessityReport], world: World
) -> None:
    world.upstream.commit({"other.txt": "three\n"})
    with pytest.raises(RequestError, match="does not apply at main"):
        find()
    series(world, "")
    with pytest.raises(RequestError, match="the series is empty"):
        find()


def test_the_verb_exits_1_for_a_removable_patch(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    markdown = world.folder / "report.md"
    arguments = ["repro", str(world.recipe), "--leave-one-out", "--markdown", str(markdown)]
    assert run(arguments) == 1
    out = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert out[0] == "at vllm main"
    assert out[2] == "heal child needed fault/read is bad without it"
    assert out[3] == "other possibly removable no repro notices that it is gone"
    assert r"| other |  | possibly removable |" in markdown.read_text()
    series(world, "heal, later")
    assert run([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [(one["patch"], one["need"]) for one in document["removals"]] == [("heal", "needed"), ("later", "not-here")]
    (trial,) = document["removals"][0]["trials"]
    assert (trial["whole"]["answer"], trial["without"]["answer"], trial["notices"]) == ("good", "bad", True)
    series(world, "other")
    assert run(arguments) == 125


def test_options_that_do_not_go_together_are_usage_errors(world: World) -> None:
    assert run(["repro", str(world.recipe), "--leave-one-out", "--series", "with"]) == 129
    assert run(["repro", str(world.recipe), "--markdown", "x"]) == 129
