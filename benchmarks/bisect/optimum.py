"""The least mean minutes that any bisection of a line with builds can take: the exact dynamic programme.

State: newest commit seen good and oldest seen bad, whose builds are there; a probe inside costs a test, and a build
where its key is neither's. n^2 states and n^3/6 choices: seconds for 1,000 commits, minutes for 5,000.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy


class Optimum:
    """The best policy for a line with the keys of its good end and of each commit."""

    def __init__(self, keys: Sequence[str], build_minutes: float) -> None:
        self.build = build_minutes
        self.runs = numpy.cumsum([0, *(one != other for one, other in itertools.pairwise(keys))])
        self.best = self._solve()

    def minutes(self, culprit: int) -> float:
        """Return what the policy takes when the commit at position `culprit` (0 …) is the first bad one."""
        good, bad, minutes = 0, len(self.runs) - 1, 0.0
        while bad - good > 1:
            at = int(self.best[good, bad])
            minutes += 1 + (0 if self.runs[at] in (self.runs[good], self.runs[bad]) else self.build)
            good, bad = (at, bad) if at < culprit + 1 else (good, at)
        return minutes

    def _solve(self) -> numpy.ndarray:
        count = len(self.runs)
        last = numpy.searchsorted(self.runs, self.runs, "right") - 1
        first = numpy.searchsorted(self.runs, self.runs, "left")
        total = numpy.zeros((count, count), numpy.float32)  # minutes over all culprits: whole numbers, exact to 2^24
        turned = numpy.zeros((count, count), numpy.float32)
        best = numpy.zeros((count, count), numpy.int16)
        for size in range(2, count):
            for good in range(count - size):
                bad = good + size
                minutes = total[good, good + 1 : bad] + turned[bad, good + 1 : bad] + size
                if self.runs[good] != self.runs[bad]:
                    start, stop = last[good] - good, first[bad] - good - 1  # what lies between has neither's build
                    minutes[start:stop] += size * self.build
                at = int(minutes.argmin())
                total[good, bad] = turned[bad, good] = minutes[at]
                best[good, bad] = good + 1 + at
        return best
