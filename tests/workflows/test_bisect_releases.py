"""From a release to the commit inside it with one command: most people know releases, and mend commits."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchkit.report.bisect import event_text
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.bisect import BisectRequest, bisect
from tests.support.packages import serve_index
from tests.workflows.worlds import World, linear

Events = list[Mapping[str, Any]]


def run(toolkit: Toolkit, world: World, good: str, bad: str, **more: Any) -> tuple[dict[str, Any], Events]:
    events: Events = []
    chosen = {"source": "git", "axis": "releases", "confirm": 1, **more}
    request = BisectRequest(world.recipe, issue="", good=good, bad=bad, **chosen)
    return bisect(toolkit, request, events.append), events


def test_the_release_and_the_commit_inside_it_are_both_named(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["good"] * 8 + ["fault"] * 14)
    result, events = run(toolkit, world, "v1.0.0", "v1.7.0")
    assert (result["first_bad"], result["last_good"]) == ("v1.3.0", "v1.2.0")
    assert (result["axis"], result["inside"]["axis"]) == ("releases", "commits")
    assert (result["inside"]["first_bad"], result["inside"]["last_good"]) == (commits[8], commits[7])
    assert result["inside"]["culprit"]["subject"] == "commit 8"
    assert result["next"] == f"git show {commits[8]}"
    assert [event["event"] for event in events if event["event"] not in {"probe", "ask", "revert"}] == [
        *("start", "step", "start", "result")
    ]
    text = event_text(result)
    assert "v1.3.0 is the first bad release (confirmed); last good: v1.2.0" in text
    assert f"    {commits[8]} is the first bad commit (confirmed)" in text


def test_the_release_that_is_one_commit_is_searched_too(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["good", "good", "good", "fault"])
    world.upstream.tag("v1.0.1", commits[2])
    result, _ = run(toolkit, world, "v1.0.0", "v1.1.0")
    assert (result["first_bad"], result["inside"]["first_bad"]) == ("v1.1.0", commits[3])


def test_ends_that_do_not_turn_leave_nothing_inside(toolkit: Toolkit, tmp_path: Path) -> None:
    world, _ = linear(tmp_path, ["good"] * 12)
    result, _ = run(toolkit, world, "v1.0.0", "v1.3.0")
    assert result["first_bad"] is None
    assert "inside" not in result


def test_a_package_has_no_commits_and_says_how_to_get_them(toolkit: Toolkit, tmp_path: Path) -> None:
    world, _ = linear(tmp_path, ["good"])
    world.recipe.write_text(world.recipe.read_text().replace("ref: main", "package: vllm, ref: v1.0"))
    with serve_index() as index:
        for number, word in enumerate(["good", "good", "fault", "fault"]):
            index.add("vllm", f"1.{number}", {"engine.txt": f"c{number}\ntop\n{word}\nbottom\n"})
        online = Toolkit(toolkit.cache, env={**toolkit.env, **index.env})
        result, _ = run(online, world, "v1.0", "v1.3", source="package", series="without")
    assert result["first_bad"] == "v1.2"
    assert "inside" not in result
    assert "--good v1.1 --bad v1.2 --axis commits --source git" in result["next"]


def test_kill_9_inside_the_release_goes_on_there(tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["good"] * 8 + ["fault"] * 14)
    words = [
        "bisect",
        str(world.recipe),
        "--source",
        "git",
        "--good",
        "v1.0.0",
        "--bad",
        "v1.7.0",
        "--axis",
        "releases",
    ]
    command = [sys.executable, "-m", "patchkit", *words, "--confirm", "1", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    before: list[dict[str, Any]] = []
    while sum(event["event"] == "start" for event in before) < 2:
        before.append(json.loads(process.stdout.readline()))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    inner = next(number for number, event in enumerate(events) if event["event"] == "step")
    assert all(event["event"] != "probe" for event in events[:inner]), "no release is run again"
    assert (events[-1]["first_bad"], events[-1]["inside"]["first_bad"]) == ("v1.3.0", commits[8])
