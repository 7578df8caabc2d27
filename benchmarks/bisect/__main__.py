"""Measure the search beside its rivals: `python -m benchmarks.bisect [--quick] [--clones DIR] [--json FILE]`.

Rows: `name, rival, theirs, ours, bar, holds` and what else there is (see `Row`), means over seeded culprits. `bar` is
what ours must not exceed, unless the note says otherwise; a row with a success rate also needs that rate, and no less
than was claimed, less two points. Exit code 1 when a row misses its bar. A row that was not run says so, with the
reason in `not_run`: it does not hold, and does not miss either.

Needs git, git_bayesect and numpy (`pip install -e '.[bench]'`); the part `kills-ray` needs Ray (`.[ray]`). The parts
`pins`, `pairs`, `real` and `hole` need `--clones DIR` with bare clones of real repositories (see
`benchmarks.bisect.real` and `.pair`); `--history DIR` is described in `benchmarks.bisect.history`. A whole run takes an
hour or two on two cores, a quick one, without clones, less than 50 seconds.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from benchmarks.bisect import builds, exact, hole, kills, kills_ray, noise, others, pair, real, stale
from benchmarks.bisect.history import History, load_history
from benchmarks.bisect.rows import Options, Row
from benchmarks.bisect.table import tell

Part = Callable[[Options, History], Iterable[Row]]
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
    "stale": stale.measure_stale,
    "kills": kills.measure_kills,
    "kills-ray": kills_ray.measure_kills_ray,
    "pins": pair.measure_pins,
    "pairs": pair.measure_pairs,
    "real": real.measure_real,
    "hole": hole.measure_hole,
}
FULL, QUICK = Options(), Options(git_seeds=2, points=3, quick=True)


def main() -> int:
    """Measure, print a table, write the rows where asked, and return 1 when one misses its bar."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bisect", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few culprits a cell, under 50 seconds without clones")
    parser.add_argument("--only", choices=PARTS, action="append", help="these parts only")
    parser.add_argument("--seeds", type=int, metavar="N", help=f"culprits a cell (default {FULL.seeds})")
    parser.add_argument("--git-seeds", type=int, metavar="N", help="culprits a cell for git (default: as many)")
    parser.add_argument("--points", type=int, metavar="N", help=f"kills of a bisect (default {FULL.points})")
    parser.add_argument("--history", type=Path, metavar="DIR", help="real histories")
    parser.add_argument("--clones", type=Path, metavar="DIR", help="bare clones of real repositories")
    parser.add_argument("--scratch", type=Path, metavar="DIR", help="on the clones' disk; default: their folder")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    missing = [name for name in ("git_bayesect", "numpy") if importlib.util.find_spec(name) is None]
    if missing:
        parser.error(f"{' and '.join(missing)} missing: pip install -e '.[bench]'")
    options, history = read_options(given), load_history(given.history)
    rows = (row for name in given.only or PARTS for row in PARTS[name](options, history))
    about = {"seeds": options.seeds, "git_seeds": options.git_seeds, "history": history.kind, "quick": options.quick}
    return tell(rows, given.json, about)


def read_options(given: argparse.Namespace) -> Options:
    """Return how much to measure, and on what."""
    options = replace(QUICK if given.quick else FULL, clones=given.clones, scratch=given.scratch)
    if given.seeds or given.git_seeds:
        seeds = given.seeds or options.seeds
        options = replace(options, seeds=seeds, git_seeds=min(given.git_seeds or seeds, seeds))
    return replace(options, points=given.points or options.points)


if __name__ == "__main__":
    sys.exit(main())
