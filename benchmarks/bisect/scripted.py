"""A bisect whose repro is scripted: it answers after a moment; session, workers and journal are the real ones.

What runs on a cluster is here and not in a module that is run as a program: its functions travel by name.
"""

from __future__ import annotations

import functools
import os
import random
import signal
import statistics
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bisect.rows import Row
from patchkit.search import Clues, CommitGraph, Settings, build_chain
from patchkit.tools.git.objects import CommitRecord
from patchkit.tools.journal import Journal
from patchkit.verdict.verdict import Answer, Reason, Verdict
from patchkit.workflows.bisect.journal.replay import replay
from patchkit.workflows.bisect.remote import Ask, Remote, Told
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

    def conflicts(self) -> Mapping[str, str]:
        """Return that nothing is patched."""
        return {}

    def builds(self) -> tuple[Mapping[str, str], Collection[str]]:
        """Return that nothing is built."""
        return {}, ()

    def about(self) -> dict[str, Any]:
        """Return what documents say."""
        return {"axis": "releases", "issue": "i", "repro": "r", "series": "with", "fidelity": "static"}

    def describe(self, commit: str) -> CommitRecord | None:
        """Return nothing: these commits have no record."""

    def clues(self, loaded: Collection[str], crashed: bool) -> Clues:  # noqa: ARG002
        """Return nothing: no file is opened."""
        return Clues()

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
    """Return a line whose culprit and broken commits come from a seed.

    With an odd seed the culprit and its parent can be tested; with an even one they lie in a hole of broken commits, so
    that the answer is a set.
    """
    rng = random.Random(seed)
    culprit = rng.randrange(1, SIZE)
    broken = {at for at in range(SIZE - 1) if rng.random() < 0.2}
    if seed % 2:
        broken -= {culprit - 1, culprit}
    else:
        broken |= set(range(max(culprit - rng.randrange(1, 10), 0), min(culprit + rng.randrange(10), SIZE - 1)))
    return Scripted(build_chain(["good", *(f"c{at}" for at in range(SIZE))]), culprit, frozenset(broken))


@dataclass(frozen=True)
class Script:
    """What a worker answers by; it kills itself in ask number `fatal`, once, noted in a folder. 0: it never does."""

    seed: int
    fatal: int = 0
    notes: str = ""

    def is_fatal(self) -> bool:
        """Count an ask, and return whether it is the one that ends its worker."""
        if not self.fatal:
            return False
        asks = Path(self.notes, "asks")
        with asks.open("ab") as stream:
            stream.write(b".")
        if asks.stat().st_size < self.fatal:
            return False
        try:
            Path(self.notes, "killed").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


@functools.lru_cache(maxsize=2)
def subject_of(seed: int) -> Scripted:
    """Return the subject of a seed, made once in a process."""
    return make_subject(seed)


def answer(script: Script, ask: Ask) -> Told:
    """Answer a question in a process of the cluster."""
    verdict = subject_of(script.seed).ask(ask.node, ask.fresh)
    if script.is_fatal():
        os.kill(os.getpid(), signal.SIGKILL)
    return Told(verdict)


def run(subject: Scripted, file: Path, jobs: int, remote: Remote | None = None) -> dict[str, Any]:
    """Run the bisect, or go on with it, to its end."""
    journal = Journal(file)
    settings = Settings(slots=jobs, confirmations=CONFIRM)
    session = Session(subject, journal, lambda _: None, settings, list(journal.read()), remote)
    session.begin()
    return session.conclude(session.search())


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


def go_on(
    subject: Scripted, file: Path, jobs: int, undisturbed: Mapping[str, Any], remote: Remote | None = None
) -> Point:
    """Go on with a bisect that was killed, if its journal has no end, and compare it with the undisturbed one."""
    before = Journal(file).read()
    done, killed = count_probes(before), not any(event["event"] == "end" for event in before)
    found = run(subject, file, jobs, remote)
    events = Journal(file).read()
    turn = {f"c{subject.culprit}", f"c{subject.culprit - 1}"}
    runs = Counter(event["node"] for event in events if event["event"] == "probe")
    again = sum(max(times - (CONFIRM if node in turn else 1), 0) for node, times in runs.items())
    same = all(found[name] == undisturbed[name] for name in ("first_bad", "candidates", "confirmed"))
    return Point(killed, done, same, again, replay(subject.graph, events).is_same)


def count_probes(events: Iterable[Mapping[str, Any]]) -> int:
    """Return how many probes are finished."""
    return sum(event["event"] == "probe" for event in events)


def make_row(where: str, points: Sequence[Point], note: str = "") -> Row:
    """Return the row of the points of one way to run probes."""
    held, killed = sum(one.held for one in points), sum(one.was_killed for one in points)
    done = statistics.mean(one.done for one in points)
    note = f"{killed} in time, {done:.1f} probes done by then{note}; the bar is all of them"
    for number, point in enumerate(points):
        note += "" if point.held else f"; missed with seed {number}: {point}"
    name = f"kill -9 at {len(points)} random points, {where}"
    return Row(name, "-", None, held, len(points), "points", held == len(points), note=note)
