"""A probe whose answer others told is ended: it takes a slot, and on a GPU a card, for nothing.

The lies these prevent: a verdict from a probe that was ended; a true verdict that is thrown away; a process that stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from patchkit.search import Probe, Settings, build_chain, decide, fold
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.bisect import BisectRequest, bisect, read_records
from tests.workflows.worlds import World, linear

SLOW = """
import os, pathlib, subprocess, sys
text = pathlib.Path(os.environ["PATCHKIT_TREE"], "engine.txt").read_text()
with open({runs!r}, "a") as stream:
    stream.write(text.split()[0] + "\\n")
if text.split()[0] == {slow!r}:  # with a daemon in a session of its own, as engines have them
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3000)"], start_new_session=True)
    subprocess.run([sys.executable, "-c", "import time; time.sleep(3000)"])
    sys.exit("FAULT: its child was ended before it")
if "fault" in text:
    sys.exit("FAULT: the engine stopped")
"""


def first_pair(commits: list[str]) -> tuple[int, int]:
    """The two commits that a search with two slots asks for first."""
    ends = [
        {"event": "probe", "node": commits[-1], "answer": "bad"},
        {"event": "probe", "node": commits[0], "answer": "good"},
    ]
    decision = decide(build_chain(commits), fold(ends), Settings(slots=2))
    assert isinstance(decision, Probe)
    low, high = sorted(commits.index(node) for node in decision.nodes)
    return low, high


def make(tmp_path: Path) -> tuple[World, list[str], int, int]:
    """A line whose first pair of probes is bad and bad, the newer of which takes for ever."""
    low, high = first_pair([f"c{number}" for number in range(16)])
    world, commits = linear(tmp_path, ["good"] * (low - 1) + ["fault"] * (17 - low))
    script = SLOW.format(runs=str(tmp_path / "runs.txt"), slow=f"c{high}")
    (world.folder / "issues/fault/repro.py").write_text(script)
    return world, commits, low, high


def left_running(root: Path) -> list[str]:
    """The commands that still run for a probe of this store."""
    mark, found = f"PATCHKIT_SLOT={root}".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().decode())
        except OSError:
            continue
    return found


def test_a_probe_whose_answer_others_told_is_ended_and_is_no_evidence(toolkit: Toolkit, tmp_path: Path) -> None:
    check_ended(toolkit, tmp_path, "")


def check_ended(toolkit: Toolkit, tmp_path: Path, ray: str) -> None:
    """Bisect with two probes at once, here or on a cluster, and look at what became of the one that takes for ever."""
    world, commits, low, high = make(tmp_path)
    events: list[Mapping[str, Any]] = []
    request = BisectRequest(world.recipe, "git", "", commits[0], commits[-1], jobs=2, ray=ray)
    result = bisect(toolkit, request, events.append)
    assert (result["first_bad"], result["confirmed"]) == (commits[low - 1], True)
    cancelled = {event["node"] for event in events if event["event"] == "cancelled"}
    assert commits[high] in cancelled
    assert not cancelled & {event["node"] for event in events if event["event"] == "probe"}
    assert left_running(toolkit.cache.root) == []
    (record,) = read_records(toolkit, request)
    replayed = record.replay()
    assert replayed.is_same, replayed.difference


def test_a_probe_that_was_ended_runs_again_where_its_answer_counts(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits, low, high = make(tmp_path)
    bisect(toolkit, BisectRequest(world.recipe, "git", "", commits[0], commits[-1], jobs=2), lambda event: None)
    assert low < high
    runs = world.runs.count(f"c{high}")
    script = world.folder / "issues/fault/repro.py"
    script.write_text(script.read_text().replace(f"== 'c{high}'", "== ''"))
    request = BisectRequest(world.recipe, "git", "", commits[0], commits[high], confirm=1)
    assert bisect(toolkit, request, lambda event: None)["first_bad"] == commits[low - 1]
    assert world.runs.count(f"c{high}") == runs + 1
