"""Kill a bisect with SIGKILL at random points and let it go on: `python -m benchmarks.bisect.kills [--points 50]`.

The repro is scripted (it answers after a moment), everything else is real: session, workers, journal, fsync. Rows say
how many points gave the same answer as an undisturbed search, ran no finished probe again, and replayed identically.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.bisect.real import Row
from patchkit.search import CommitGraph, Settings, build_chain
from patchkit.tools.git.objects import CommitRecord
from patchkit.tools.journal import Journal
from patchkit.verdict.verdict import Answer, Reason, Verdict
from patchkit.workflows.bisect.journal.replay import replay
from patchkit.workflows.bisect.session import Session

SIZE, MOMENT = 400, 0.004  # commits; seconds of a probe
CONFIRM = 3


@dataclass(frozen=True)
class Scripted:
    """A line of commits; those of `broken` cannot be tested, from `culprit` on the others are bad."""

    graph: CommitGraph
    culprit: int
    broken: frozenset[int]
    key: str = "scripted"
    flaky: bool = False

    def ask(self, node: str, fresh: bool) -> Verdict:  # noqa: ARG002
        """Return the verdict after a moment."""
        at = -1 if node == "good" else int(node[1:])
        time.sleep(random.random() * 2 * MOMENT)
        answer = Answer.SKIP if at in self.broken else Answer.BAD if at >= self.culprit else Answer.GOOD
        reason = {Answer.SKIP: Reason.TIMEOUT, Answer.BAD: Reason.SIGNATURE, Answer.GOOD: Reason.PASSED}[answer]
        return Verdict("i", "r", node, node, "", "with", answer, reason, "", "static", MOMENT, None)

    def builds(self) -> tuple[Mapping[str, str], Collection[str]]:
        """Return that nothing is built."""
        return {}, ()

    def about(self) -> dict[str, Any]:
        """Return what documents say."""
        return {"axis": "releases"}

    def describe(self, commit: str) -> CommitRecord | None:
        """Return nothing: these commits have no record."""

    def touching(self, loaded: Collection[str]) -> Collection[str]:  # noqa: ARG002
        """Return nothing: no file is opened."""
        return ()

    def advice(self, document: Mapping[str, Any]) -> str:  # noqa: ARG002
        """Return nothing."""
        return ""

    def findings(self, document: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Return nothing."""
        return {}

    def inside(self, document: Mapping[str, Any]) -> str:  # noqa: ARG002
        """Return that nothing lies inside."""
        return ""


def make_subject(seed: int) -> Scripted:
    """Return a line whose culprit and broken commits come from a seed; the culprit and its parent can be tested."""
    rng = random.Random(seed)
    culprit = rng.randrange(1, SIZE)
    broken = {at for at in range(SIZE - 1) if rng.random() < 0.2} - {culprit - 1, culprit}
    return Scripted(build_chain(["good", *(f"c{at}" for at in range(SIZE))]), culprit, frozenset(broken))


def run(subject: Scripted, file: Path, jobs: int) -> dict[str, Any]:
    """Run the bisect, or go on with it, to its end."""
    journal = Journal(file)
    settings = Settings(slots=jobs, confirmations=CONFIRM, least_bits=0)  # else when to stop depends on who ends first
    session = Session(subject, journal, lambda _: None, settings, list(journal.read()))
    session.begin()
    return session.conclude(session.search())


def run_killed(subject: Scripted, file: Path, jobs: int, seconds: float) -> bool:
    """Run the bisect in a process that is killed after some seconds; return whether it was in time."""
    child = os.fork()
    if child == 0:
        try:
            run(subject, file, jobs)
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@dataclass(frozen=True)
class Point:
    """What became of one kill: `done` are the probes that were finished by then."""

    was_killed: bool
    done: int
    same: bool
    again: int
    replayed: bool

    @property
    def held(self) -> bool:
        """Return whether the kill changed nothing."""
        return self.same and not self.again and self.replayed


def try_point(folder: Path, jobs: int, seed: int, share: float) -> Point:
    """Kill a bisect when a share of the undisturbed one's time is over, and go on."""
    subject = make_subject(seed)
    started = time.monotonic()
    undisturbed = run(subject, folder / "undisturbed.jsonl", jobs)
    seconds = time.monotonic() - started
    file = folder / "killed.jsonl"
    killed = run_killed(subject, file, jobs, share * seconds)
    done = sum(event["event"] == "probe" for event in Journal(file).read())
    found = run(subject, file, jobs)
    events = Journal(file).read()
    turn = {f"c{subject.culprit}", f"c{subject.culprit - 1}"}
    runs = Counter(event["node"] for event in events if event["event"] == "probe")
    again = sum(max(times - (CONFIRM if node in turn else 1), 0) for node, times in runs.items())
    names = ("first_bad", "candidates", "confirmed")
    same = all(found[name] == undisturbed[name] for name in names)
    return Point(killed, done, same, again, replay(subject.graph, events).is_same)


def try_points(points: int, jobs: int) -> list[Point]:
    """Try points spread at random over the time of a bisect."""
    rng, found = random.Random(points + jobs), []
    for number in range(points):
        with tempfile.TemporaryDirectory(prefix="patchkit-kill-") as folder:
            found.append(try_point(Path(folder), jobs, number, rng.random()))
    return found


def make_row(points: Sequence[Point], jobs: int) -> Row:
    """Return the row of the points of one number of jobs."""
    held = sum(one.held for one in points)
    name = f"kill -9 at {len(points)} random points, jobs {jobs}"
    return Row(name, "-", None, held, len(points), "points", held == len(points))


def main() -> int:
    """Kill, print a table, and return 1 when a point did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=50)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    rows = []
    for jobs in (1, 4):
        points = try_points(options.points, jobs)
        rows.append(make_row(points, jobs))
        killed, done = sum(one.was_killed for one in points), statistics.mean(one.done for one in points)
        for number, point in enumerate(points):
            if not point.held:
                print(f"missed with seed {number}: {point}")
        state = "holds" if rows[-1].holds else "MISSED"
        print(f"{rows[-1].name}: {rows[-1].ours:g} held, {killed} in time, {done:.1f} probes done by then: {state}")
    if options.json:
        options.json.write_text(json.dumps({"format": 1, "rows": [asdict(row) for row in rows]}, indent=2))
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
