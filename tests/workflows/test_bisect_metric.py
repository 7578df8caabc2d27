"""A performance regression: the repro prints a number that scatters, and the search goes by the numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.bisect import BisectRequest, bisect, read_records
from tests.workflows.worlds import World, linear

SPEED = """
import hashlib, os, pathlib
text = pathlib.Path(os.environ["PATCHKIT_TREE"], "engine.txt").read_text()
runs = pathlib.Path({runs!r})
number = len(runs.read_text().split()) if runs.exists() else 0
with runs.open("a") as stream:
    stream.write("run\\n")
noise = int(hashlib.sha256(f"{{text}}{{number}}".encode()).hexdigest()[:4], 16) / 65535 - 0.5
print(f"patchkit: metric={{(60 if 'fault' in text else 50) + 12 * noise:.2f}}")
"""


@pytest.fixture
def slow(tmp_path: Path) -> tuple[World, list[str]]:
    world, commits = linear(tmp_path, ["good"] * 12 + ["fault"] * 12)
    (world.folder / "issues/fault/repro.py").write_text(SPEED.format(runs=str(tmp_path / "runs.txt")))
    (world.folder / "issues/fault/issue.yaml").write_text(
        "format: 1\ntitle: Slow\nsignature: SLOW\nrepros:\n"
        "  - {name: speed, fidelity: static, script: repro.py, metric: {good: 50, bad: 60}}\n"
    )
    return world, commits


def test_the_commit_that_made_it_slow_is_found_although_values_overlap(
    toolkit: Toolkit, slow: tuple[World, list[str]]
) -> None:
    world, commits = slow
    request = BisectRequest(
        recipe=world.recipe, source="git", issue="", good=commits[0], bad=commits[-1], confidence=0.95
    )
    result = bisect(toolkit, request, lambda event: None)
    assert result["first_bad"] == commits[12]
    (journal,) = toolkit.cache.root.glob("bisects/*/journal.jsonl")
    probes = [event for line in journal.read_text().splitlines() if (event := json.loads(line))["event"] == "probe"]
    assert all(40 < event["value"] < 70 for event in probes)
    assert {event["reason"] for event in probes} == {"metric"}
    (record,) = read_records(toolkit, request)
    assert record.replay().is_same


def test_ends_that_do_not_differ_are_told(toolkit: Toolkit, slow: tuple[World, list[str]]) -> None:
    world, commits = slow
    request = BisectRequest(recipe=world.recipe, source="git", issue="", good=commits[0], bad=commits[11])
    result = bisect(toolkit, request, lambda event: None)
    assert result["first_bad"] is None
    assert "do not differ by more than they scatter" in result["message"]
