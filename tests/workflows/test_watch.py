from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from patchkit.errors import RequestError
from patchkit.report.watch import WatchReport
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.watch import WatchRequest, watch
from tests.workflows.worlds import World, grow, linear

Events = list[Mapping[str, Any]]
ISSUE = {"issue": "fault", "repro": "read"}


def look(toolkit: Toolkit, world: World, since: str, axis: Any = "releases") -> tuple[WatchReport, Events]:
    events: Events = []
    report = watch(toolkit, WatchRequest(world.recipe, "git", since, axis), events.append)
    return report, events


def told(events: Events) -> list[tuple[str, str, bool]]:
    return [(e["at"], e["transition"], e["patched"]) for e in events if e["event"] == "transition" and e["issue"]]


def test_a_fault_that_appears_is_told_where_it_appears_and_whether_the_series_heals_it(
    toolkit: Toolkit, tmp_path: Path
) -> None:
    world, commits = linear(tmp_path, ["good"] * 14 + ["fault"] * 26)
    report, events = look(toolkit, world, "v1.1.0")
    assert told(events) == [("v1.5.0", "newly-bad", True), ("v1.13.0", "still-bad", True)]
    newly = next(event for event in events if event["event"] == "transition")
    assert newly["before"] == "v1.4.0"
    assert newly["commit"] == commits[15]
    assert (newly["without"], newly["with"], newly["fidelity"]) == ("bad", "good", "static")
    assert newly["reasons"] == {"without": "signature", "with": "passed"}
    assert events[-1]["event"] == "summary"
    assert (report.alarming, report.untold, report.new) == (0, 0, 12)
    assert len(report.nodes) <= 6, "both ends and a bisection, not every release"


def test_a_fault_that_upstream_mends_is_told_as_fixed(toolkit: Toolkit, tmp_path: Path) -> None:
    world, _ = linear(tmp_path, ["fault"] * 8 + ["good"] * 8)
    report, events = look(toolkit, world, "v1.0.0")
    assert told(events) == [("v1.3.0", "fixed-upstream", False), ("v1.5.0", "still-good", False)]
    assert report.alarming == 0


def test_a_feature_that_comes_broken_goes_from_absent_to_newly_bad(toolkit: Toolkit, tmp_path: Path) -> None:
    world, _ = linear(tmp_path, ["absent"] * 4 + ["fault"] * 3)
    _, events = look(toolkit, world, "v1.0.0")
    assert told(events)[0] == ("v1.2.0", "newly-bad", True)
    world, _ = linear(tmp_path / "other", ["absent"] * 7)
    _, events = look(toolkit, world, "v1.0.0")
    assert told(events) == [("v1.2.0", "absent", False)]


def test_a_series_that_stops_applying_is_told_where_it_stops(toolkit: Toolkit, tmp_path: Path) -> None:
    world, _ = linear(tmp_path, ["fault"] * 10 + ["drift:fault"] * 9)
    report, events = look(toolkit, world, "v1.0.0")
    series = [event for event in events if event["event"] == "transition" and event["issue"] is None]
    assert [(event["at"], event["transition"]) for event in series] == [("v1.4.0", "conflict")]
    assert "heal" in series[0]["detail"]
    assert told(events) == [("v1.4.0", "conflict", False), ("v1.6.0", "conflict", False)]
    assert report.conflict is not None
    assert report.alarming == 1


def test_a_series_that_never_applied_is_told_at_the_start(toolkit: Toolkit, tmp_path: Path) -> None:
    world, _ = linear(tmp_path, ["drift:fault"] * 7)
    report, _ = look(toolkit, world, "v1.0.0")
    assert report.conflict is not None
    assert report.conflict.at == "v1.0.0"


def test_what_cannot_be_told_is_not_called_good(toolkit: Toolkit, tmp_path: Path) -> None:
    world, _ = linear(tmp_path, ["good"] * 4 + ["broken"] * 3)
    report, events = look(toolkit, world, "v1.0.0")
    assert told(events) == [("v1.2.0", "cannot-tell", False)]
    assert (report.alarming, report.untold) == (0, 1)
    assert report.message.endswith("1 cannot be told")


def test_a_broken_stretch_between_is_stepped_over(toolkit: Toolkit, tmp_path: Path) -> None:
    world, _ = linear(tmp_path, ["good"] * 10 + ["broken"] * 6 + ["fault"] * 9)
    _, events = look(toolkit, world, "v1.0.0")
    turn = next(event for event in events if event["event"] == "transition")
    assert (turn["before"], turn["at"], turn["transition"]) == ("v1.3.0", "v1.6.0", "newly-bad")


def test_commits_are_watched_as_well_as_releases(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["good"] * 9 + ["fault"] * 6)
    report, events = look(toolkit, world, "v1.0.0", axis=None)
    assert report.axis == "commits"
    assert told(events) == [(commits[9][:12], "newly-bad", True), (commits[-1][:12], "still-bad", True)]


def test_a_second_look_with_nothing_new_runs_nothing_and_says_so(toolkit: Toolkit, tmp_path: Path) -> None:
    world, _ = linear(tmp_path, ["good"] * 14 + ["fault"] * 6)
    first, _ = look(toolkit, world, "v1.0.0")
    runs = world.runs
    second, events = look(toolkit, world, "v1.0.0")
    assert world.runs == runs
    assert [event["event"] for event in events] == ["start", "summary"]
    assert events[-1]["message"] == "nothing new since v1.6.0: everything is good or patched"
    assert [t.change for t in second.transitions] == [t.change for t in first.transitions]
    assert second.nodes == first.nodes


def test_the_next_look_starts_where_the_last_one_ended(toolkit: Toolkit, tmp_path: Path) -> None:
    world, _ = linear(tmp_path, ["good"] * 13)
    look(toolkit, world, "v1.0.0")
    grow(world, ["fault"] * 12, start=13)
    report, events = look(toolkit, world, "v1.0.0")
    assert (events[0]["since"], events[0]["new"]) == ("v1.4.0", 4)
    judged = {event["at"] for event in events if event["event"] == "probe"}
    assert judged <= {"v1.5.0", "v1.6.0", "v1.7.0", "v1.8.0"}
    assert told(events) == [("v1.5.0", "newly-bad", True), ("v1.8.0", "still-bad", True)]
    assert [t.change.value for t in report.transitions] == ["still-good", "newly-bad", "still-bad"]


def test_a_look_from_the_start_again_tells_the_same_and_runs_nothing(toolkit: Toolkit, tmp_path: Path) -> None:
    world, _ = linear(tmp_path, ["good"] * 14 + ["fault"] * 6)
    first, told_first = look(toolkit, world, "v1.0.0")
    runs = world.runs
    assert look(toolkit, world, "v1.0.0")[1][0]["resumed"]
    events: Events = []
    again = watch(toolkit, WatchRequest(world.recipe, "git", "v1.0.0", "releases", restart=True), events.append)
    assert world.runs == runs
    assert not events[0]["resumed"]
    assert (again.since, again.new, told(events)) == (first.since, first.new, told(told_first))


def test_a_recipe_without_issues_cannot_be_watched(toolkit: Toolkit, tmp_path: Path) -> None:
    world, _ = linear(tmp_path, ["good", "fault"])
    world.recipe.write_text(world.recipe.read_text().replace("issues: [fault]\n", ""))
    with pytest.raises(RequestError, match="the recipe names no issue"):
        look(toolkit, world, "v1.0.0")


def test_a_changed_patch_is_judged_from_the_start(toolkit: Toolkit, tmp_path: Path) -> None:
    world, _ = linear(tmp_path, ["fault"] * 7)
    look(toolkit, world, "v1.0.0")
    patch = world.folder / "patches" / "heal" / "heal.patch"
    patch.write_text(patch.read_text().replace("+healed", "+fault still"))
    report, events = look(toolkit, world, "v1.0.0")
    assert told(events) == [("v1.2.0", "still-bad", False)]
    assert report.alarming == 1


def test_a_state_of_another_shape_is_no_state(toolkit: Toolkit, tmp_path: Path) -> None:
    world, _ = linear(tmp_path, ["fault"] * 7)
    first, _ = look(toolkit, world, "v1.0.0")
    (state,) = toolkit.cache.root.glob("watch/*.json")
    state.write_text(json.dumps({"newest": 3, "pairs": [1], "changes": {}}))
    second, _ = look(toolkit, world, "v1.0.0")
    assert [t.change for t in second.transitions] == [t.change for t in first.transitions]


def test_a_ref_that_upstream_does_not_have_is_refused(toolkit: Toolkit, tmp_path: Path) -> None:
    world, _ = linear(tmp_path, ["good"] * 4)
    with pytest.raises(RequestError, match="v9"):
        look(toolkit, world, "v9.0.0")


@pytest.mark.parametrize(("last", "code"), [("fault", 0), ("drift:fault", 1), ("broken", 125)])
def test_the_verb_writes_all_files_and_answers_by_exit_code(tmp_path: Path, last: str, code: int) -> None:
    world, _ = linear(tmp_path, ["good"] * 4 + [last] * 3)
    words = ["watch", str(world.recipe), "--since", "v1.0.0", "--axis", "releases", "--source", "git", "--json"]
    files = {name: tmp_path / f"out.{name}" for name in ("junit", "markdown", "html")}
    options = [word for name, file in files.items() for word in (f"--{name}", str(file))]
    done = subprocess.run(
        [sys.executable, "-m", "patchkit", "--quiet", *words, *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["event"] for event in (events[0], events[-1])] == ["start", "summary"]
    suites = ElementTree.parse(files["junit"]).getroot()
    assert [suite.get("name") for suite in suites] == ["fault/read"]
    assert len(suites.findall("*//failure")) == (code == 1)
    assert len(suites.findall("*//skipped")) == (code == 125)
    assert "| v1.2.0 |" in files["markdown"].read_text()
    assert "The engine fails with a fault &amp; more" in files["html"].read_text()


def test_a_patch_that_the_newest_commit_does_not_need_any_more_is_told(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["fault"] * 8)
    about = world.folder / "patches" / "heal" / "patch.yaml"
    about.write_text(about.read_text() + f"remove-when: contains({commits[-1]})\n")
    report, events = look(toolkit, world, "v1.0.0", "commits")
    assert report.removable == {"heal": f"contains {commits[-1]}"}
    assert events[-1]["removable"] == [{"patch": "heal", "detail": f"contains {commits[-1]}"}]
