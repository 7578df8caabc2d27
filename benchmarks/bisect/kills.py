"""Kill a bisect with SIGKILL at random points and let it go on: `python -m benchmarks.bisect.kills [--points 50]`.

The repro is scripted (it answers after a moment), everything else is real: session, workers, journal, fsync. Rows say
how many points gave the same answer as an undisturbed search, ran no finished probe again, and replayed identically.
The part `kills` of `benchmarks.bisect`.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bisect.history import History, load_history
from benchmarks.bisect.rows import Options, Row
from benchmarks.bisect.scripted import Point, Scripted, go_on, make_row, make_subject, run
from benchmarks.bisect.table import tell


def measure_kills(options: Options, _history: History) -> Iterator[Row]:
    """Kill a bisect with one job, and one with four."""
    for jobs in (1, 4):
        yield make_row(f"jobs {jobs}", try_points(options.points, jobs))


def run_killed(subject: Scripted, file: Path, jobs: int, seconds: float) -> None:
    """Run the bisect in a process that is killed after some seconds."""
    child = os.fork()
    if child == 0:
        try:
            run(subject, file, jobs)
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def try_point(folder: Path, jobs: int, seed: int, share: float) -> Point:
    """Kill a bisect when a share of the undisturbed one's time is over, and go on."""
    subject = make_subject(seed)
    started = time.monotonic()
    undisturbed = run(subject, folder / "undisturbed.jsonl", jobs)
    seconds = time.monotonic() - started
    file = folder / "killed.jsonl"
    run_killed(subject, file, jobs, share * seconds)
    return go_on(subject, file, jobs, undisturbed)


def try_points(points: int, jobs: int) -> list[Point]:
    """Try points spread at random over the time of a bisect."""
    rng, found = random.Random(points + jobs), []
    for number in range(points):
        with tempfile.TemporaryDirectory(prefix="patchkit-kill-") as folder:
            found.append(try_point(Path(folder), jobs, number, rng.random()))
    return found


def main() -> int:
    """Kill, print a table, and return 1 when a point did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=Options().points)
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    return tell(measure_kills(Options(points=given.points), load_history(None)), given.json)


if __name__ == "__main__":
    sys.exit(main())
