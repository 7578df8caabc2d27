"""The table of `python -m benchmarks.bisect`: what was not run is said, and what misses is an exit code."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.bisect import pair, real, stale
from benchmarks.bisect.cases import CASES
from benchmarks.bisect.history import load_history
from benchmarks.bisect.rows import Options, Row, leave_out
from benchmarks.bisect.table import tell

HOLDS = Row("a", "git bisect", 7.0, 3.0, 4.0, "probes", holds=True)
MISSES = replace(HOLDS, name="b", ours=5.0, holds=False)
LEFT_OUT = leave_out("c", "probes", "needs --clones DIR")


def test_a_row_that_misses_is_exit_1_and_one_that_was_not_run_neither_holds_nor_misses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.json"
    assert tell([HOLDS, LEFT_OUT], file, {"quick": True}) == 0
    assert "2 rows: 1 hold, 0 missed, 1 not run" in capsys.readouterr().out
    assert tell([HOLDS, MISSES], None) == 1
    assert "MISSED" in capsys.readouterr().out
    document = json.loads(file.read_text())
    assert (document["format"], document["quick"]) == (1, True)
    told = [(row["name"], row["ours"], row["holds"], row["not_run"]) for row in document["rows"]]
    assert told == [("a", 3.0, True, ""), ("c", None, False, "needs --clones DIR")]


def test_without_clones_every_row_that_needs_them_is_there_and_says_why() -> None:
    history, options = load_history(None), Options()
    parts = (pair.measure_pins, pair.measure_pairs, real.measure_real)
    rows = [row for part in parts for row in part(options, history)]
    assert all("--clones" in row.not_run and not row.holds and row.ours is None for row in rows)
    names = " ".join(row.name for row in rows)
    wanted = [
        *(case.name for case in pair.CASES),
        *(case.name for case in CASES),
        "mean probes",
        "patch-stops-applying",
    ]
    assert [name for name in wanted if name not in names] == []


def test_a_stale_binary_is_seen_where_a_tool_reuses_what_is_built(tmp_path: Path) -> None:
    commits = stale.make_repository(tmp_path / "product", [f"k{number // 3}" for number in range(40)])
    theirs = stale.bisect_theirs(tmp_path / "product", tmp_path, commits, culprit=20)
    ours = stale.bisect_ours(tmp_path, commits, culprit=20)
    assert theirs.stale > 0
    assert (ours.stale, ours.right, theirs.right) == (0, True, True)
    assert ours.probes > theirs.probes  # those of the ends and of the confirmation are looked at, too
