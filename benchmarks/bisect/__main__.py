"""Measure the search beside its rivals: `python -m benchmarks.bisect [--quick] [--only WORD] [--json FILE]`.

Rows: `name, rival, theirs, ours, bar, holds`, means over seeded culprits. `bar` is what ours must not exceed; a row
with a success rate also needs that rate, and no less than was claimed, less two points. Needs git; the rows with noise
or builds need git_bayesect and numpy (`pip install -e '.[bench]'`). `--history DIR`: see `benchmarks.bisect.history`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path

from benchmarks.bisect import builds, exact, noise, others
from benchmarks.bisect.history import History, load_history
from benchmarks.bisect.rows import Row, Scale

Part = Callable[[Scale, History], Iterable[Row]]
PARTS: dict[str, Part] = {
    "plain": exact.measure_plain,
    "skips": exact.measure_skips,
    "workers": exact.measure_workers,
    "flaky": noise.measure_flaky,
    "ends": noise.measure_ends,
    "metric": noise.measure_metric,
    "builds": builds.measure_builds,
    "flaky-builds": builds.measure_flaky_builds,
    "patches": others.measure_patches,
    "decisions": others.measure_decisions,
}
QUICK, FULL = Scale(12, 2), Scale(200, 200)


def main() -> None:
    """Measure, print a table, and write the rows where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="few culprits a cell: under a minute, and means too rough for the bars"
    )
    parser.add_argument("--only", choices=PARTS, action="append", help="these parts only")
    parser.add_argument("--seeds", type=int, metavar="N", help=f"culprits a cell (default {FULL.ours})")
    parser.add_argument("--git-seeds", type=int, metavar="N", help="culprits a cell for git (default: as many)")
    parser.add_argument("--history", type=Path, metavar="DIR", help="real histories")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    scale = QUICK if options.quick else FULL
    if options.seeds or options.git_seeds:
        seeds = options.seeds or scale.ours
        scale = Scale(seeds, min(options.git_seeds or seeds, seeds))
    history = load_history(options.history)
    rows: list[Row] = []
    for name in options.only or PARTS:
        for row in PARTS[name](scale, history):
            rows.append(row)
            print_row(row)
    if options.json:
        document = {
            "format": 1,
            "seeds": scale.ours,
            "git_seeds": scale.processes,
            "history": history.kind,
            "rows": [asdict(row) for row in rows],
        }
        options.json.write_text(json.dumps(document, indent=2))


def print_row(row: Row) -> None:
    """Print a row for people."""
    theirs = "" if row.theirs is None else f"{row.theirs:g}"
    bar = "" if row.bar is None else f"bar {row.bar:g}"
    rate = "" if row.success is None else f"right {row.success:.3f}"
    tail = "" if row.p95 is None else f"p95 {row.p95:g}"
    verdict = "holds" if row.holds else "MISSED"
    print(
        f"{row.name:<36} {row.ours:>8g} {row.unit:<8} {tail:<7} {bar:<10} {rate:<11} {verdict}  "
        f"{row.rival} {theirs}  {row.note}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
