"""A hole of commits that cannot be tested, and the repair that is carried back onto them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from patchkit.errors import RequestError
from patchkit.report.bisect import event_text
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.bisect import BisectRequest, bisect, read_records
from tests.workflows.worlds import World, make_world

Words = list[tuple[str, str]]  # of each commit: the engine's word, and the start's


def wrote(number: int, engine: str, start: str) -> dict[str, str | None]:
    """The files of a commit: what the repro finds in the engine, and whether it starts at all."""
    return {"engine.txt": f"engine\ntop\n{engine}\nbottom\n", "start.txt": f"{start}\n", f"new-{number}.txt": "x\n"}


def grown(folder: Path, words: Words) -> tuple[World, list[str]]:
    """A world whose repro looks at `start.txt` first: `broken` there is a failure of another kind."""
    world = make_world(folder)
    repro = world.folder / "issues" / "fault" / "repro.py"
    start = 'pathlib.Path(os.environ["PATCHKIT_TREE"], "start.txt")'
    look = f'\nif "broken" in {start}.read_text():\n    sys.exit("no start")\n'
    repro.write_text(repro.read_text().replace('\nif "broken" in text', look + 'if "broken" in text'))
    commits = [
        world.upstream.commit(wrote(number, engine, start), f"commit {number}")
        for number, (engine, start) in enumerate(words)
    ]
    return world, commits


def hole(good: int, broken_good: int, broken_bad: int, bad: int) -> Words:
    """A line in which the start is broken in the middle, and the fault comes somewhere inside that hole."""
    engines = ["good"] * (good + broken_good) + ["fault"] * (broken_bad + bad)
    starts = ["whole"] * good + ["broken"] * (broken_good + broken_bad) + ["whole"] * bad
    return list(zip(engines, starts, strict=True))


def run(toolkit: Toolkit, world: World, good: str, *fix_ups: str, **more: Any) -> tuple[dict[str, Any], list[Any]]:
    told: list[Any] = []
    request = BisectRequest(
        recipe=world.recipe, source="git", issue="", good=good, bad="main", fix_up=fix_ups, series="without", **more
    )
    return bisect(toolkit, request, told.append), told


def test_a_hole_leaves_suspects_and_the_commit_after_it_is_offered(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = grown(tmp_path, hole(4, 3, 3, 4))
    result, _ = run(toolkit, world, commits[0], exhaustive=True)
    assert result["first_bad"] is None
    assert [one["node"] for one in result["candidates"]] == commits[4:11]
    assert f"--fix-up={commits[10]}" in result["next"]
    assert f"if {commits[10][:12]} is what made commits testable again" in result["next"]
    assert "--series without" in result["next"]


def test_with_the_repair_carried_back_the_culprit_in_the_hole_is_found(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = grown(tmp_path, hole(4, 3, 3, 4))
    result, told = run(toolkit, world, commits[0], "main~3")
    assert (result["first_bad"], result["confirmed"], result["reverted"]) == (commits[7], True, "good")
    assert result["fix_ups"] == [[commits[10]]]
    assert result["confirmation"]["carried"] == [[commits[7], [commits[10]]], [commits[6], [commits[10]]]]
    mended = {event["node"]: event["fix_up"] for event in told if event["event"] == "probe"}
    assert mended[commits[13]] == []
    assert mended[commits[7]] == [commits[10]]
    text = event_text(result)
    assert f"{commits[7][:12]} was told with {commits[10][:12]} carried onto it" in text
    probe = next(event for event in told if event["event"] == "probe" and event["fix_up"])
    assert f"with {commits[10][:12]}" in event_text(probe)


def test_it_goes_on_from_its_journal_and_replays(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = grown(tmp_path, hole(4, 3, 3, 4))
    first, _ = run(toolkit, world, commits[0], "main~3")
    runs = len(world.runs)
    again, _ = run(toolkit, world, commits[0], commits[10])
    assert again == first
    assert len(world.runs) == runs
    request = BisectRequest(
        recipe=world.recipe,
        source="git",
        issue="",
        good=commits[0],
        bad="main",
        fix_up=("main~3",),
        series="without",
    )
    record = read_records(toolkit, request)[0]
    assert record.replay().is_same
    assert "carried onto it" in event_text(json.loads(json.dumps(record.result)))


def test_a_repair_that_brings_the_fault_is_found_out(toolkit: Toolkit, tmp_path: Path) -> None:
    """The hole is good; what ends it brings the fault: carried back it accuses the first commit of the hole."""
    words = [("good", "whole")] * 3 + [("good", "broken")] * 4 + [("fault", "whole")] * 3
    world, commits = grown(tmp_path, words)
    repair = commits[7]
    result, told = run(toolkit, world, commits[0], repair)
    assert result["first_bad"] == commits[3]
    assert not result["confirmed"]
    controls = [event for event in told if event["event"] == "control"]
    assert [(event["node"], event["answer"], event["expected"]) for event in controls] == [(commits[2], "bad", "good")]
    assert "to compare" in event_text(controls[0])
    assert "brings the fault" in result["message"] or "still bad" in result["message"]
    again, _ = run(toolkit, world, commits[0], repair)
    assert again == result


def test_a_fault_at_the_first_commit_of_a_hole_is_compared_with_its_parent(toolkit: Toolkit, tmp_path: Path) -> None:
    words = [("good", "whole")] * 3 + [("fault", "broken")] * 4 + [("fault", "whole")] * 3
    world, commits = grown(tmp_path, words)
    result, told = run(toolkit, world, commits[0], commits[7])
    assert (result["first_bad"], result["confirmed"]) == (commits[3], True)
    controls = [event for event in told if event["event"] == "control"]
    assert [(event["node"], event["answer"]) for event in controls] == [(commits[2], "good")]


def test_only_what_cannot_be_tested_is_mended(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = grown(tmp_path, hole(6, 0, 0, 6))
    result, told = run(toolkit, world, commits[0], "main")
    assert (result["first_bad"], result["confirmed"]) == (commits[6], True)
    assert all(event["fix_up"] == [] for event in told if event["event"] == "probe")
    assert result["confirmation"]["carried"] == []


def test_a_fix_up_that_does_not_apply_leaves_the_skip_and_says_why(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = grown(tmp_path, [*hole(3, 2, 2, 3), ("fault", "other")])
    result, told = run(toolkit, world, commits[0], "main", exhaustive=True)
    assert result["first_bad"] is None
    skips = [event for event in told if event["event"] == "probe" and event["answer"] == "skip"]
    assert skips
    assert all(f"with {commits[-1][:12]}: conflict" in event["detail"] for event in skips)
    assert f"--fix-up={commits[-1]}" in result["next"]
    assert f"--fix-up={commits[7]}" in result["next"]


def test_what_a_repair_does_to_files_that_are_not_there_yet_is_left_out(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = grown(tmp_path, hole(3, 2, 2, 0))
    world.upstream.commit({"late [1].txt": "one\n", "late 1.txt": "one\n"}, "a file that the hole lacks")
    repair = world.upstream.commit(
        {"start.txt": "whole\n", "late [1].txt": "two\n", "late 1.txt": None, "new.txt": "x\n"}, "mend both"
    )
    result, told = run(toolkit, world, commits[0], repair)
    assert (result["first_bad"], result["confirmed"]) == (commits[5], True)
    assert [event["fix_up"] for event in told if event["event"] == "probe" and event["node"] == commits[4]]


def test_of_several_fix_ups_each_hole_takes_its_own(toolkit: Toolkit, tmp_path: Path) -> None:
    words = [
        *[("good", "whole")] * 2,
        *[("good", "broken one")] * 3,
        *[("good", "whole")] * 2,
        *[("good", "broken two")] * 2,
        *[("fault", "broken two")] * 2,
        *[("fault", "whole")] * 3,
    ]
    world, commits = grown(tmp_path, words)
    result, _ = run(toolkit, world, commits[0], commits[5], commits[11])
    assert (result["first_bad"], result["confirmed"]) == (commits[9], True)
    again, _ = run(toolkit, world, commits[0], f"{commits[5]},{commits[5]}", commits[11], commits[5])
    assert again == result  # said twice it is the same bisect


def test_two_commits_that_repair_together(toolkit: Toolkit, tmp_path: Path) -> None:
    world = make_world(tmp_path)
    repro = world.folder / "issues" / "fault" / "repro.py"
    look = (
        '\nroot = pathlib.Path(os.environ["PATCHKIT_TREE"])\n'
        'if "broken" in (root / "a.txt").read_text() + (root / "b.txt").read_text():\n    sys.exit("no start")\n'
    )
    repro.write_text(repro.read_text().replace('\nif "broken" in text', look + 'if "broken" in text'))
    words = [*[("good", "ok", "ok")] * 2, *[("good", "broken", "broken")] * 2, *[("fault", "broken", "broken")] * 2]
    words += [("fault", "ok", "broken"), ("fault", "ok", "ok"), ("fault", "ok", "ok")]
    commits = [
        world.upstream.commit({**wrote(number, engine, "whole"), "a.txt": a, "b.txt": b}, f"commit {number}")
        for number, (engine, a, b) in enumerate(words)
    ]
    alone, _ = run(toolkit, world, commits[0], commits[7], exhaustive=True)
    assert alone["first_bad"] is None
    assert f"--fix-up={commits[7]} --fix-up={commits[6]}" in alone["next"]
    together, _ = run(toolkit, world, commits[0], f"{commits[6]},{commits[7]}")
    assert (together["first_bad"], together["confirmed"]) == (commits[4], True)
    listed, _ = run(toolkit, world, commits[0], commits[6], commits[7])
    assert (listed["first_bad"], listed["confirmed"]) == (commits[4], True)


def test_what_is_no_fix_up_is_refused(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = grown(tmp_path, hole(2, 1, 1, 2))
    for fix_up, told in (("nowhere", "nowhere"), (commits[0], "begins the history"), ("main,", "--fix-up main,")):
        with pytest.raises(RequestError) as error:
            run(toolkit, world, commits[1], fix_up)
        assert told in error.value.message
    with pytest.raises(RequestError, match="carried onto commits"):
        run(toolkit, world, "1.0", "main", axis="dependency:numpy")
    request = BisectRequest(world.recipe, "git", "", "", "", axis="patches", fix_up=("main",))
    with pytest.raises(RequestError, match="fix-up"):
        bisect(toolkit, request, lambda event: None)
