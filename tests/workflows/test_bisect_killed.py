"""A bisect that is killed anywhere goes on as if nothing had been; fifty points are in `benchmarks.bisect.kills`."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.bisect.kills import try_point
from benchmarks.bisect.scripted import make_subject, run
from patchkit.tools.journal import Journal
from patchkit.workflows.bisect.journal.replay import replay


@pytest.mark.parametrize("jobs", [1, 4])
@pytest.mark.parametrize(("seed", "share"), [(3, 0.2), (3, 0.6), (3, 0.95), (4, 0.5), (6, 0.9)])
def test_a_kill_costs_nothing_that_was_finished(tmp_path: Path, jobs: int, seed: int, share: float) -> None:
    point = try_point(tmp_path, jobs, seed, share)  # an even seed: the culprit lies in a hole
    assert (point.same, point.again, point.replayed) == (True, 0, True)


@pytest.mark.parametrize("jobs", [1, 4])
def test_a_journal_cut_after_any_event_or_within_one_goes_on_to_the_same_answer(tmp_path: Path, jobs: int) -> None:
    subject = make_subject(5)
    whole = run(subject, tmp_path / "whole.jsonl", jobs)
    lines = (tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)
    for kept in range(0, len(lines), 3):
        file = tmp_path / f"{kept}.jsonl"
        file.write_bytes(b"".join(lines[:kept]) + lines[kept][: len(lines[kept]) // 2])
        found = run(subject, file, jobs)
        assert (found["first_bad"], found["confirmed"]) == (whole["first_bad"], whole["confirmed"])
        assert replay(subject.graph, Journal(file).read()).is_same
