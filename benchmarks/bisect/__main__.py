"""Measure the search beside its rivals, in one run: `python -m benchmarks.bisect [--quick] [--json FILE]`.

Rows: `name, rival, theirs, ours, bar, holds`, means over seeded culprits. `bar` is what ours must not exceed; a row
with a success rate also needs that rate. Needs git; the flaky rows need git_bayesect (`pip install -e '.[bench]'`).
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.bisect.rivals import GitBisect, bayesect
from benchmarks.bisect.worlds import Outcome, World, line, make_world, search
from patchkit.search import Settings, build_graph, decide, fold

EXACT = Settings(confirmations=0)


@dataclass(frozen=True)
class Row:
    """One measurement; `unit` says of what. `success` is the share of right answers, `stated` what was claimed."""

    name: str
    rival: str
    theirs: float | None
    ours: float
    bar: float
    unit: str
    success: float | None
    stated: float | None
    holds: bool


def measure_exact(seeds: int, folder: Path) -> Iterable[Row]:
    """Count probes on lines of commits beside git, without skips and with 30 % of them in stretches."""
    for size, bar in ((100, 6.8), (1000, 10.07), (5000, 12.47)):
        yield exact_row(f"no noise, line of {size}", [make_world(size, seed) for seed in range(seeds)], bar, folder)
    for size, bar in ((100, 10.0), (1000, 15.5)):
        worlds = [make_world(size, seed, skips=0.3) for seed in range(seeds)]
        yield exact_row(f"30 % skips, line of {size}", worlds, bar, folder)


def exact_row(name: str, worlds: list[World], bar: float, folder: Path) -> Row:
    """Search the same worlds with git and with us."""
    size = worlds[0].size
    graph, rival = line(size), GitBisect(folder, size)
    ours = [search(world, graph, EXACT) for world in worlds]
    theirs = statistics.mean(rival.count_runs(world) for world in worlds)
    mean, right = statistics.mean(one.runs for one in ours), statistics.mean(one.right for one in ours)
    return Row(
        name, "git bisect", round(theirs, 2), round(mean, 2), bar, "probes", right, None, mean <= bar and right == 1
    )


def measure_flaky(seeds: int) -> Iterable[Row]:
    """Count runs of a repro that errs beside git_bayesect, at the confidence that gives each the success asked for."""
    for (false_pass, false_fail), confidence, bar, wanted in (
        ((0.1, 0.0), 0.96, 13.5, 0.99),
        ((0.2, 0.0), 0.93, 15.5, 0.98),
        ((0.3, 0.0), 0.94, 19.5, 0.97),
        ((0.3, 0.05), 0.99, 35.0, 0.99),
    ):
        worlds = [make_world(100, seed, false_pass=false_pass, false_fail=false_fail) for seed in range(seeds)]
        graph, settings = line(100), Settings(flaky=True, confidence=confidence)
        ours = [search(world, graph, settings) for world in worlds]
        theirs = [bayesect(world, 0.95) for world in worlds]
        yield flaky_row(f"flaky {false_pass}/{false_fail}, line of 100", ours, theirs, bar, wanted)


def flaky_row(name: str, ours: list[Outcome], theirs: list[tuple[int, bool]], bar: float, wanted: float) -> Row:
    """Return the row: fewer runs than the bar, right as often as wanted and as often as claimed (less two points)."""
    mean, right = statistics.mean(one.runs for one in ours), statistics.mean(one.right for one in ours)
    stated = statistics.mean(one.stated for one in ours)
    rival = f"git_bayesect (right {statistics.mean(hit for _, hit in theirs):.3f})"
    holds = mean <= bar and right >= wanted and right >= stated - 0.02
    runs = statistics.mean(count for count, _ in theirs)
    return Row(name, rival, round(runs, 2), round(mean, 2), bar, "runs", round(right, 4), round(stated, 4), holds)


def measure_parallel(seeds: int) -> Iterable[Row]:
    """Count rounds of probes that run at once; the rival is the limit log_{k+1} n."""
    graph = line(1000)
    for slots, limit, bar in ((2, 6.3, 6.8), (4, 4.3, 4.9), (8, 3.1, 3.8)):
        settings = Settings(slots=slots, confirmations=0)
        ours = statistics.mean(search(make_world(1000, seed), graph, settings).rounds for seed in range(seeds))
        yield Row(
            f"{slots} workers, line of 1000", "the limit", limit, round(ours, 2), bar, "rounds", None, None, ours <= bar
        )


def measure_decision() -> Iterable[Row]:
    """Time one decision on a random history of 10,014 commits with merges, in seconds of CPU."""
    rng, parents = random.Random(7), {}
    for number in range(10_014):
        first = f"c{number - 1}" if number else "good"
        parents[f"c{number}"] = (
            (first, f"c{number - rng.randint(2, 40)}") if number > 60 and rng.random() < 0.1 else (first,)
        )
    started = time.process_time()
    graph = build_graph(parents, "good", "c10013")
    build = time.process_time() - started
    events = [
        {"event": "probe", "node": "c10013", "answer": "bad"},
        {"event": "probe", "node": "good", "answer": "good"},
    ]
    started = time.process_time()
    decide(graph, fold(events))
    decision = time.process_time() - started
    yield Row("start, history of 10,014", "-", None, round(build, 3), 2.0, "s", None, None, build <= 2.0)
    yield Row("one decision, history of 10,014", "-", None, round(decision, 3), 0.1, "s", None, None, decision <= 0.1)


def main() -> None:
    """Measure, print a table, and write the rows where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few culprits a cell: seconds instead of minutes")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    seeds = 12 if options.quick else 200
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="patchkit-bench-") as folder:
        parts: tuple[Callable[[], Iterable[Row]], ...] = (
            lambda: measure_exact(seeds, Path(folder)),
            lambda: measure_flaky(seeds),
            lambda: measure_parallel(seeds),
            measure_decision,
        )
        for part in parts:
            for row in part():
                rows.append(row)
                print_row(row)
    if options.json:
        options.json.write_text(
            json.dumps({"format": 1, "seeds": seeds, "rows": [asdict(row) for row in rows]}, indent=2)
        )


def print_row(row: Row) -> None:
    """Print a row for people."""
    theirs = "" if row.theirs is None else f"{row.theirs:g}"
    rate = "" if row.success is None else f"right {row.success:.3f}"
    verdict = "holds" if row.holds else "MISSED"
    print(f"{row.name:<32} {row.ours:>8g} {row.unit:<7} bar {row.bar:<6g} {rate:<12} {row.rival} {theirs}: {verdict}")


if __name__ == "__main__":
    main()
