"""Which patches of a series bring a fault: taking out one too few leaves it, one too many loses a repair."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from patchkit.errors import RequestError
from patchkit.report.bisect import event_text
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.bisect import BisectRequest, bisect
from tests.support.repositories import GitRepository

RECIPE = """
format: 1
name: many
upstream:
  vllm: {{git: "{url}", ref: main}}
series: [{series}]
issues: [fault]
"""
ISSUE = """
format: 1
title: The parts do not fit
signature: "FAULT"
repros:
  - {name: read, fidelity: static, script: repro.py}
"""
# Bad when every guilty part is there; a part that another needs must be there for it.
REPRO = """
import os, pathlib, sys
tree = pathlib.Path(os.environ["PATCHKIT_TREE"])
parts = {{path.name for path in (tree / "parts").iterdir()}}
(tree / "parts" / "base").read_text()
with open({runs!r}, "a") as stream:
    stream.write("+".join(sorted(parts - {{"base"}})) + "\\n")
if any(guilty <= parts for guilty in {guilty!r}):
    sys.exit("FAULT: " + " ".join(sorted(parts)))
"""
PATCH = """
format: 1
title: A part
{extra}
change:
  - {{file: parts/{name}, source: part.txt}}
"""
NAMES = [f"p{number}" for number in range(1, 9)]


class Library:
    """A recipe with eight patches, each of which adds a part."""

    def __init__(self, folder: Path, guilty: list[set[str]], extra: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        upstream = GitRepository(folder / "upstream.git")
        self.first = upstream.commit({"parts/base": "x\n"}, "first")
        self.head = upstream.commit({"other": "x\n"}, "second")
        self.write("recipes/many/recipe.yaml", RECIPE.format(url=upstream.url, series=", ".join(NAMES)))
        self.write("issues/fault/issue.yaml", ISSUE)
        self.write("issues/fault/repro.py", REPRO.format(runs=str(folder / "runs.txt"), guilty=guilty))
        for name in NAMES:
            self.write(f"patches/{name}/patch.yaml", PATCH.format(name=name, extra=(extra or {}).get(name, "")))
            self.write(f"patches/{name}/part.txt", f"{name}\n")

    def write(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    @property
    def recipe(self) -> Path:
        return self.folder / "recipes" / "many" / "recipe.yaml"

    @property
    def runs(self) -> list[str]:
        path = self.folder / "runs.txt"
        return path.read_text().splitlines() if path.exists() else []

    def bisect(self, toolkit: Toolkit, **more: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        events: list[dict[str, Any]] = []
        request = BisectRequest(self.recipe, "git", "", **{"good": "", "bad": "", "axis": "patches", **more})
        return bisect(toolkit, request, lambda event: events.append(dict(event))), events


@pytest.mark.parametrize(
    "guilty", [{"p1"}, {"p8"}, {"p3", "p6"}, {"p1", "p4", "p8"}], ids=lambda one: "+".join(sorted(one))
)
def test_the_guilty_patches_are_named_and_no_other(toolkit: Toolkit, tmp_path: Path, guilty: set[str]) -> None:
    result, events = Library(tmp_path, [guilty]).bisect(toolkit)
    assert result["culprits"] == sorted(guilty)
    assert result["first_bad"] == max(guilty)
    assert (result["confirmed"], result["minimal"], result["rest"]) == (True, True, "good")
    assert events[-1] == result
    assert events[0]["patches"] == NAMES
    assert "(confirmed)" in event_text(result)
    assert "without these the fault is gone" in event_text(result)


def test_a_patch_is_held_with_what_it_requires_and_no_set_is_a_conflict(toolkit: Toolkit, tmp_path: Path) -> None:
    library = Library(tmp_path, [{"p7"}], {"p7": "requires: [p5]", "p5": "requires: [p2]"})
    result, events = library.bisect(toolkit)
    assert result["culprits"] == ["p7"]
    assert {event["answer"] for event in events if event["event"] == "probe"} == {"good", "bad"}
    assert all("p5" in run and "p2" in run for run in library.runs if "p7" in run)


def test_a_set_that_does_not_apply_is_a_skip_and_the_guilty_is_still_found(toolkit: Toolkit, tmp_path: Path) -> None:
    library = Library(tmp_path, [{"p6"}])
    library.write("patches/p6/p6.patch", "--- a/parts/p4\n+++ b/parts/p4\n@@ -1 +1,2 @@\n p4\n+more\n")
    change = "change:\n  - {patch: p6.patch}\n"
    library.write("patches/p6/patch.yaml", f"format: 1\ntitle: A part on top of p4\n{change}")
    library.write(
        "issues/fault/repro.py",
        (library.folder / "issues/fault/repro.py")
        .read_text()
        .replace(
            "if any(guilty",
            "if (tree / 'parts' / 'p4').exists() and 'more' in (tree / 'parts' / 'p4').read_text():\n"
            "    parts.add('p6')\nif any(guilty",
        ),
    )
    result, events = library.bisect(toolkit)
    skipped = [event for event in events if event.get("answer") == "skip"]
    assert skipped
    assert {event["reason"] for event in skipped} == {"conflict"}
    assert set(result["culprits"]) == {"p4", "p6"}


def test_two_faults_each_enough_leave_one_and_it_is_told(toolkit: Toolkit, tmp_path: Path) -> None:
    result, _ = Library(tmp_path, [{"p2"}, {"p7"}]).bisect(toolkit)
    assert result["culprits"] in (["p2"], ["p7"])
    assert result["rest"] == "bad"
    assert "search again" in result["next"]


def test_a_series_that_is_innocent_is_said_to_be(toolkit: Toolkit, tmp_path: Path) -> None:
    without, _ = Library(tmp_path / "a", [{"base"}]).bisect(toolkit)
    assert (without["culprits"], without["confirmed"]) == ([], False)
    assert "without any" in without["message"]
    never, _ = Library(tmp_path / "b", [{"p1", "p99"}]).bisect(toolkit)
    assert (never["culprits"], never["confirmed"]) == ([], False)
    assert "hint:" in event_text(never)


def test_the_patches_that_mend_the_issue_are_left_out(toolkit: Toolkit, tmp_path: Path) -> None:
    library = Library(tmp_path, [{"p3"}], {"p5": "issue: [fault]"})
    _, events = library.bisect(toolkit)
    assert "p5" not in events[0]["patches"]
    _, events = library.bisect(toolkit, series="with")
    assert "p5" in events[0]["patches"]


def test_the_commit_is_the_one_that_was_asked_for(toolkit: Toolkit, tmp_path: Path) -> None:
    library = Library(tmp_path, [{"p3"}])
    assert library.bisect(toolkit)[0]["commit"] == library.head
    assert library.bisect(toolkit, at=library.first)[0]["commit"] == library.first


def test_the_same_search_again_runs_nothing(toolkit: Toolkit, tmp_path: Path) -> None:
    library = Library(tmp_path, [{"p3", "p6"}])
    first, _ = library.bisect(toolkit)
    before = len(library.runs)
    second, events = library.bisect(toolkit)
    assert second == first
    assert len(library.runs) == before
    assert events[0]["known"] == first["probes"]
    third, events = library.bisect(toolkit, restart=True)
    assert (third["culprits"], events[0]["known"]) == (first["culprits"], 0)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"good": "x"}, "no ends"),
        ({"ray": "local", "emit_revert": "x"}, "--ray, --emit-revert: not for"),
        ({"jobs": 4}, "--jobs: --axis patches runs one set at a time"),
        ({"exhaustive": True}, "--exhaustive: not for"),
        ({"confirm": 5, "confidence": 0.9}, "--confirm, --confidence: not for"),
        ({"flaky": True}, "may err"),
        ({"series": "without"}, "no patch of vllm is left"),
    ],
)
def test_what_makes_no_sense_here_is_refused(
    toolkit: Toolkit, tmp_path: Path, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        Library(tmp_path, [{"p3"}]).bisect(toolkit, **more)


def test_kill_9_then_the_same_command_names_the_same_patches(tmp_path: Path) -> None:
    library = Library(tmp_path, [{"p3", "p6"}])
    words = ["bisect", str(library.recipe), "--source", "git", "--axis", "patches", "--json"]
    command = [sys.executable, "-m", "patchkit", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    seen = [json.loads(process.stdout.readline()) for _ in range(4)]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[-1]["culprits"] == ["p3", "p6"]
    sets = [event["node"] for event in [*seen, *events] if event["event"] == "probe"]
    assert len(sets) == len(set(sets)), "no finished run is made again"
