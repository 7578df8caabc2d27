"""A repro that passes now and then on bad commits: the verdict of one run must never be reused as the commit's."""

from __future__ import annotations

from pathlib import Path

from patchkit.pipeline import Question, judge, open_recipe, resolve_commit
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.bisect import BisectRequest, bisect
from tests.workflows.worlds import linear

FLAKY = """
import os, pathlib, sys
text = pathlib.Path(os.environ["PATCHKIT_TREE"], "engine.txt").read_text()
counter = pathlib.Path({runs!r})
number = len(counter.read_text()) if counter.exists() else 0
with counter.open("a") as stream:
    stream.write("x")
if "fault" in text and number % 5 != 3:
    sys.exit("FAULT: the engine stopped")
"""


def test_a_repro_that_passes_one_time_in_five_still_names_the_commit(tmp_path: Path, toolkit: Toolkit) -> None:
    world, commits = linear(tmp_path / "world", ["good"] * 9 + ["fault"] * 5)
    counter = tmp_path / "runs"
    (world.folder / "issues/fault/repro.py").write_text(FLAKY.format(runs=str(counter)))
    events: list[dict[str, object]] = []
    request = BisectRequest(
        world.recipe, "auto", "fault", commits[0], commits[-1], axis="commits", flaky=True, confidence=0.98
    )
    result = bisect(toolkit, request, lambda event: events.append(dict(event)))
    assert (result["first_bad"], result["confirmed"]) == (commits[9], True)
    assert result["candidates"][0]["probability"] >= 0.98
    probes = [event for event in events if event["event"] == "probe"]
    assert len(counter.read_text()) == len(probes)  # every run was really run

    again: list[dict[str, object]] = []
    assert bisect(toolkit, request, lambda event: again.append(dict(event)))["first_bad"] == commits[9]
    assert len(counter.read_text()) == len(probes)
    assert [event["event"] for event in again] == ["start", "result"]


def test_a_commit_that_touches_what_the_repro_opened_is_probed_first(tmp_path: Path, toolkit: Toolkit) -> None:
    world, commits = linear(tmp_path / "world", ["good"])
    for number in range(40):
        commits.append(world.upstream.commit({f"other{number}.txt": "x\n"}, f"other {number}"))
    commits.append(world.upstream.commit({"engine.txt": "c1\ntop\nfault\nbottom\n"}, "the fault"))
    for number in range(40, 80):
        commits.append(world.upstream.commit({f"other{number}.txt": "x\n"}, f"other {number}"))
    request = BisectRequest(world.recipe, "auto", "fault", commits[0], commits[-1], axis="commits")
    events: list[dict[str, object]] = []
    result = bisect(toolkit, request, lambda event: events.append(dict(event)))
    assert (result["first_bad"], result["confirmed"]) == (commits[41], True)
    searched = [event for event in events if event["event"] == "probe" and event["stage"] == "search"]
    assert len(searched) <= 2


def test_a_run_of_a_repro_that_calls_itself_flaky_is_not_kept_as_the_verdict(tmp_path: Path, toolkit: Toolkit) -> None:
    world, commits = linear(tmp_path / "world", ["good", "fault"])
    issue = world.folder / "issues/fault/issue.yaml"
    issue.write_text(issue.read_text().replace("script: repro.py}", "script: repro.py, flaky: true}"))
    opened = open_recipe(toolkit, world.recipe)
    question = Question(resolve_commit(opened, commits[1]), *opened.loaded.selected[0], "without")
    assert [judge(opened, question).reused for _ in range(2)] == [False, False]
    assert len(world.runs) == 2
