from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from patchkit.errors import InvalidFile, RequestError
from patchkit.report.bisect import event_text
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.bisect import BisectRequest, bisect
from tests.workflows.worlds import World, engine, linear, make_world

Events = list[Mapping[str, Any]]


def run(toolkit: Toolkit, world: World, good: str, bad: str, **more: Any) -> tuple[dict[str, Any], Events]:
    events: Events = []
    request = BisectRequest(recipe=world.recipe, source="git", issue="", good=good, bad=bad, **more)
    return bisect(toolkit, request, lambda event: None if event["event"] == "ask" else events.append(event)), events


def probes(events: Events) -> list[str]:
    return [event["node"] for event in events if event["event"] == "probe"]


def command(world: World, good: str, bad: str, *more: str) -> list[str]:
    words = ["bisect", str(world.recipe), "--source", "git", "--good", good, "--bad", bad, "--json", *more]
    return [sys.executable, "-m", "patchkit", *words]


def start(world: World, good: str, bad: str, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(command(world, good, bad, *more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(world: World, good: str, bad: str, *more: str) -> tuple[int, Events]:
    done = subprocess.run(command(world, good, bad, *more), capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode in {0, 1}, done.stderr
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def test_the_first_bad_commit_is_found_confirmed_and_described(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["good"] * 5 + ["fault"] * 4)
    result, events = run(toolkit, world, commits[0], "main")
    assert result["first_bad"] == result["first_bad_commit"] == commits[5]
    assert result["last_good"] == commits[4]
    assert result["candidates"] == [{"node": commits[5], "commit": commits[5], "probability": 1.0}]
    assert result["confirmed"] is True
    assert result["culprit"] == {"subject": "commit 5", "author": "Ada Author", "date": "2023-11-14", "merge": False}
    parents = [{"node": commits[4], "runs": 3, "good": 3}]
    runs = {"culprit": {"runs": 3, "bad": 3}, "parents": parents, "carried": []}
    assert (result["confirmation"], result["reverted"], result["warnings"]) == (runs, "conflict", [])
    assert (result["probes"], result["nodes"], result["builds"]) == (9, 5, 0)
    assert [event["event"] for event in events] == ["start", *["probe"] * 9, "revert", "result"]
    assert probes(events)[:2] == [commits[8], commits[0]]
    assert probes(events)[-4:] == [commits[5]] * 2 + [commits[4]] * 2
    assert [event["stage"] for event in events if event["event"] == "probe"][-4:] == ["confirm"] * 4


def test_an_end_that_cannot_be_told_says_what_its_probe_said(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["good", "fault", "broken"])
    for _ in range(2):  # the second time from the journal, where no probe tells it
        result, _ = run(toolkit, world, commits[0], commits[2])
        wanted = (
            f"the bad end {commits[2]} cannot be told: other-failure: exit 1 without the signature: the engine does"
        )
        assert result["message"].startswith(wanted)
        assert result["hint"] == "choose another bad end, close to this one"


def test_no_other_end_is_offered_where_the_repro_reads_nothing(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["good", "fault"])
    (world.folder / "issues" / "fault" / "repro.py").write_text("raise SystemExit('FAULT')")
    result, _ = run(toolkit, world, commits[0], commits[1])
    assert "nothing-loaded: said bad, but read no file of the tree" in result["message"]
    assert result["hint"].startswith("a repro must import or open files below PATCHKIT_TREE")


def test_releases_are_searched_as_a_chain_of_names(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["good"] * 8 + ["fault"] * 14)
    result, events = run(toolkit, world, "v1.0.0", "v1.7.0", axis="releases")
    assert (result["first_bad"], result["last_good"]) == ("v1.3.0", "v1.2.0")
    assert result["first_bad_commit"] == commits[9]
    assert events[0]["commits"] == 7
    assert (result["inside"]["first_bad"], result["inside"]["reverted"]) == (commits[8], "conflict")


def test_the_series_without_the_issues_own_patches_is_on_every_tree(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["good", "good", "fault", "fault"])
    healed, _ = run(toolkit, world, commits[0], commits[3], series="with")
    assert healed["message"] == f"the bad end {commits[3]} is good: nothing to find"
    others, _ = run(toolkit, world, commits[0], commits[3])
    assert others["first_bad"] == commits[2]


def test_a_broken_stretch_is_skipped_and_the_answer_is_still_exact(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["good"] * 4 + ["broken"] * 3 + ["good", "fault", "fault"])
    result, events = run(toolkit, world, commits[0], "main")
    assert result["first_bad"] == commits[8]
    assert {event["reason"] for event in events if event.get("answer") == "skip"} == {"other-failure"}


def test_a_turn_hidden_by_broken_commits_is_a_set_of_suspects(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["good", "good", "broken", "broken", "fault", "fault"])
    result, _ = run(toolkit, world, commits[0], "main")
    assert result["first_bad"] is None
    assert result["confirmed"] is False
    assert [suspect["commit"] for suspect in result["candidates"]] == commits[2:5]
    assert result["skipped"] == commits[2:4]
    assert "only commits that cannot be tested are left; the first bad one is among 3 commits:" in event_text(result)


def test_a_culprit_inside_a_merged_branch_is_found_in_the_branch(toolkit: Toolkit, tmp_path: Path) -> None:
    world = make_world(tmp_path)
    upstream = world.upstream
    first = upstream.commit({"engine.txt": engine(0)}, "first")
    upstream.branch("side", first)
    for number in range(1, 4):
        upstream.commit({f"main-{number}.txt": "x"}, f"main {number}")
    upstream.commit({"side.txt": "1"}, "side 1", branch="side")
    culprit = upstream.commit({"engine.txt": engine(9, "fault")}, "side 2", branch="side")
    upstream.commit({"side.txt": "3"}, "side 3", branch="side")
    upstream.merge("side", "take the side in")
    upstream.commit({"main-5.txt": "x"}, "main 5")
    result, _ = run(toolkit, world, first, "main")
    assert (result["first_bad"], result["culprit"]["subject"]) == (culprit, "side 2")


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [(0, 3, "the bad end {3} is good: nothing to find"), (5, 7, "the good end {5} is bad: nothing to find")],
)
def test_an_end_that_is_not_what_it_was_said_to_be_ends_the_search(
    toolkit: Toolkit, tmp_path: Path, good: int, bad: int, message: str
) -> None:
    world, commits = linear(tmp_path, ["good"] * 4 + ["fault"] * 4)
    result, events = run(toolkit, world, commits[good], commits[bad])
    assert result["message"] == message.format(*commits)
    assert (result["first_bad"], result["candidates"], result["confirmed"]) == (None, [], False)
    assert len(probes(events)) <= 2


def test_the_same_bisect_again_runs_nothing_and_says_the_same(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["good"] * 5 + ["fault"] * 4)
    first, _ = run(toolkit, world, commits[0], "main")
    before = world.runs
    second, events = run(toolkit, world, commits[0], "main")
    assert second == first
    assert world.runs == before
    assert (events[0]["known"], probes(events)) == (first["probes"], [])


def test_restart_begins_with_an_empty_journal(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["good"] * 5 + ["fault"] * 4)
    first, events = run(toolkit, world, commits[0], "main")
    second, again = run(toolkit, world, commits[0], "main", restart=True)
    assert again[0]["known"] == 0
    assert probes(again)[:5] == probes(events)[:5]
    assert [event["reused"] for event in again if event["event"] == "probe"][:5] == [True] * 5
    assert {**second, "probes": 0} == {**first, "probes": 0}


def test_a_changed_repro_is_another_bisect(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["good"] * 5 + ["fault"] * 4)
    run(toolkit, world, commits[0], "main")
    script = world.folder / "issues" / "fault" / "repro.py"
    script.write_text(script.read_text() + "\n# another\n")
    _, events = run(toolkit, world, commits[0], "main")
    assert events[0]["known"] == 0


def test_a_torn_line_of_a_killed_process_is_no_evidence(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["good"] * 5 + ["fault"] * 4)
    first, _ = run(toolkit, world, commits[0], "main")
    (journal,) = toolkit.cache.root.glob("bisects/*/journal.jsonl")
    whole = journal.read_bytes()
    last_probe = whole.rfind(b"\n", 0, whole.rfind(b'"event":"probe"')) + 1
    journal.write_bytes(whole[: last_probe + 20])
    second, events = run(toolkit, world, commits[0], "main")
    assert second == first
    assert len(probes(events)) == 1
    assert journal.read_bytes()[:last_probe] == whole[:last_probe]


@pytest.mark.parametrize(("finished", "jobs"), [(1, 1), (4, 1), (7, 1), (3, 2)])
def test_kill_9_then_the_same_command_gives_the_same_answer_and_runs_no_finished_probe_again(
    tmp_path: Path, finished: int, jobs: int
) -> None:
    world, commits = linear(tmp_path, ["good"] * 9 + ["fault"] * 5)
    world.pause(0.15)
    process = start(world, commits[0], "main", "--jobs", str(jobs))
    assert process.stdout is not None
    seen = [json.loads(process.stdout.readline()) for _ in range(1 + finished)]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    world.pause(0)
    time.sleep(0.5)  # a repro that the killed process left behind ends by itself
    finished_probes = [event for event in seen if event["event"] == "probe"]
    code, events = finish(world, commits[0], "main", "--jobs", str(jobs))
    assert code == 0
    assert events[-1]["first_bad"] == commits[9]
    assert events[0]["known"] >= len(finished_probes)
    done = Counter(event["node"] for event in [*finished_probes, *events] if event["event"] == "probe")
    turn = {commits[9], commits[8]}  # these two are run three times, whoever asks
    assert {times for node, times in done.items() if node not in turn} == {1}
    assert {times for node, times in done.items() if node in turn} <= {3, 4}  # kept by the store, not by the journal
    names = {node: f"c{number}" for number, node in enumerate(commits)}
    for node, times in Counter(event["node"] for event in finished_probes).items():
        again = [event for event in events if event["event"] == "probe" and event["node"] == node]
        interrupted = jobs  # probes that were under way when the process died run anew
        assert world.runs.count(names[node]) <= times + len(again) + (interrupted if again else 0)


@pytest.mark.parametrize(("sent", "jobs"), [(signal.SIGINT, "1"), (signal.SIGTERM, "2")])
def test_an_interrupt_keeps_the_state_says_how_to_go_on_and_leaves_no_process(
    tmp_path: Path, sent: signal.Signals, jobs: str
) -> None:
    world, commits = linear(tmp_path, ["good"] * 9 + ["fault"] * 5)
    process = start(world, commits[0], "main", "--jobs", jobs)
    assert process.stdout is not None
    first = [json.loads(process.stdout.readline()) for _ in range(3)]
    world.pause(60)
    time.sleep(0.6)  # the next probe has begun
    started = time.monotonic()
    process.send_signal(sent)
    _, complaint = process.communicate(timeout=20)
    assert time.monotonic() - started < 8
    assert process.returncode == 130, complaint
    assert f"patchkit bisect {world.recipe} --source git --good {commits[0]} --bad main --json" in complaint
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            assert str(world.folder).encode() not in (folder / "cmdline").read_bytes(), folder
        except OSError:
            continue
    world.pause(0)
    code, events = finish(world, commits[0], "main", "--jobs", jobs)
    assert (code, events[-1]["first_bad"]) == (0, commits[9])
    assert {event["node"] for event in first[1:]}.isdisjoint(
        event["node"] for event in events if event["event"] == "probe" and not event["fresh"]
    )


def test_two_probes_at_once_find_the_same(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["good"] * 20 + ["broken"] * 3 + ["fault"] * 9)
    alone, _ = run(toolkit, world, commits[0], "main")
    together, _ = run(toolkit, world, commits[0], "main", jobs=2, restart=True)
    assert alone["candidates"] == together["candidates"]
    assert [suspect["commit"] for suspect in together["candidates"]] == commits[20:24]


def test_a_second_process_at_the_same_bisect_is_turned_away(tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["good"] * 5 + ["fault"] * 4)
    world.pause(1)
    process = start(world, commits[0], "main")
    assert process.stdout is not None
    process.stdout.readline()
    second = subprocess.run(command(world, commits[0], "main"), capture_output=True, text=True, check=False)
    assert second.returncode == 128
    assert "another process is at the same bisect" in second.stderr
    world.pause(0)
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_what_the_machine_spoiled_is_tried_three_times_and_never_kept(
    toolkit: Toolkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from patchkit.errors import InfrastructureFailure
    from patchkit.verdict import probe

    world, commits = linear(tmp_path, ["good"] * 5 + ["fault"] * 4)
    tries: Counter[str] = Counter()
    really = probe.run_repro

    def fail_at_the_middle(toolkit: Toolkit, environment: Any, asked: Any) -> Any:
        tries[asked.commit.id] += 1
        if asked.commit.id == commits[4]:
            raise InfrastructureFailure("the worker was lost")
        return really(toolkit, environment, asked)

    monkeypatch.setattr(probe, "run_repro", fail_at_the_middle)
    spoiled, _ = run(toolkit, world, commits[0], "main")
    assert tries[commits[4]] == 3
    assert [suspect["commit"] for suspect in spoiled["candidates"]] == commits[4:6]
    monkeypatch.setattr(probe, "run_repro", really)
    mended, _ = run(toolkit, world, commits[0], "main")
    assert (mended["first_bad"], mended["confirmed"]) == (commits[5], True)


@pytest.mark.parametrize(
    ("issue", "complaint"), [("other", "no issue named other"), ("fault/loud", "fault: no repro named loud")]
)
def test_an_issue_that_the_recipe_does_not_have_is_refused(
    toolkit: Toolkit, tmp_path: Path, issue: str, complaint: str
) -> None:
    world, commits = linear(tmp_path, ["good", "fault"])
    request = BisectRequest(recipe=world.recipe, source="git", issue=issue, good=commits[0], bad="main")
    with pytest.raises(RequestError, match=complaint) as caught:
        bisect(toolkit, request, lambda event: None)
    assert caught.value.hint


@pytest.mark.parametrize(("good", "bad"), [("main", "main"), ("main", "main~2")])
def test_ends_with_nothing_between_are_refused(toolkit: Toolkit, tmp_path: Path, good: str, bad: str) -> None:
    world, _ = linear(tmp_path, ["good", "good", "fault"])
    with pytest.raises(RequestError) as caught:
        run(toolkit, world, good, bad)
    assert caught.value.hint


def test_ends_that_are_wrong_exit_1_and_a_forgotten_option_129(tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["good", "good", "fault"])
    code, events = finish(world, commits[0], commits[1])
    assert (code, events[-1]["event"], events[-1]["first_bad"]) == (1, "result", None)
    words = [sys.executable, "-m", "patchkit", "bisect", str(world.recipe), "--good", commits[0]]
    assert subprocess.run(words, capture_output=True, check=False).returncode == 129


def test_a_recipe_that_is_wrong_is_told_before_anything_runs(toolkit: Toolkit, tmp_path: Path) -> None:
    world, _ = linear(tmp_path, ["good", "fault"])
    world.recipe.write_text("format: 1\nname: 3\n")
    with pytest.raises(InvalidFile):
        run(toolkit, world, "main~1", "main")
    assert world.runs == []


def test_the_transcript_for_people_reads_like_this(tmp_path: Path) -> None:
    world, _ = linear(tmp_path, ["good"] * 8 + ["fault"] * 14)
    words = ["bisect", "recipes/product/recipe.yaml", "--good", "v1.0.0", "--bad", "v1.7.0", "--axis", "releases"]
    done = subprocess.run(
        [sys.executable, "-m", "patchkit", "--quiet", *words],
        cwd=world.folder,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
    golden = Path(__file__).with_name("bisect.txt")
    assert re.sub(r"\d\.\d s", "0.0 s", done.stdout) == golden.read_text()


def test_suspects_in_a_hole_are_left_untried_and_exhaustive_goes_on_from_there(
    toolkit: Toolkit, tmp_path: Path
) -> None:
    world, commits = linear(tmp_path, ["good"] * 4 + ["broken"] * 40 + ["fault"] * 4)
    result, _ = run(toolkit, world, commits[0], "main")
    assert result["untested"] > 0
    told, _, offer = result["next"].partition("; or ")
    assert told == "the same command with --exhaustive tries the suspects that were left"
    assert "--fix-up=" in offer
    tried = len(world.runs)
    again, events = run(toolkit, world, commits[0], "main", exhaustive=True)
    assert again["untested"] == 0
    assert {one["node"] for one in again["candidates"]} <= {one["node"] for one in result["candidates"]}
    assert {one["node"] for one in again["candidates"]} == set(commits[4:45])
    assert len(world.runs) > tried
    assert max(Counter(world.runs).values()) == 1
    assert len(probes(events)) == len(world.runs) - tried
