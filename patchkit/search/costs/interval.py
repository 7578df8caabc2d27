"""What is left to pay on a short line where verdicts hold: the exact dynamic programme over (newest good, oldest bad).

Between a good and a bad place, a probe costs a test, and the setup of its place unless that is the setup of one of the
two: they were probed, so theirs is there. With W(g, b) the chance that the culprit lies above g and not above b,

    V(g, b) = min over k of W(g, b) (test + setup of k) + V(g, k) + V(k, b)

n^2 / 2 intervals with n / 3 choices each on the mean: a tenth of a second for `MOST_EXACT` commits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from operator import add, mul

MOST_EXACT = 150  # commits; more are planned by their runs alone (`plan_builds`), until few are left


@dataclass(frozen=True)
class Line:
    """A good place (the first), a bad one (the last), and what lies between, oldest first.

    `setups` are what places need: equal neighbours share one. `seconds` is what a place's setup takes, 0 where it is
    there. `masses` is the chance of each place to be the culprit, the good one's left out.
    """

    setups: Sequence[Hashable]
    seconds: Sequence[float]
    masses: Sequence[float]
    test_seconds: float

    def seconds_ahead(self) -> list[float]:
        """Return, for each place between the ends, the expected seconds to the answer when it is probed next."""
        count = len(self.setups)
        above = list(itertools.accumulate(self.masses, initial=0.0))
        first, last = self._runs()
        same = len({*self.seconds[last[0] + 1 : first[-1]]}) <= 1  # the usual case, and twice as fast
        ends: list[list[float]] = [[] for _ in range(count)]  # of a bad place b: V(k, b), the newest k first
        choices: list[float] = []
        for good in range(count - 2, -1, -1):
            row: list[float] = []  # V(good, k), the oldest k first
            for bad in range(good + 1, count):
                choices = list(map(add, row, reversed(ends[bad])))
                weight = above[bad] - above[good]
                value = weight * self.test_seconds if choices else 0.0
                start, stop = last[good] - good, first[bad] - good - 1  # the choices that need a setup
                if start >= stop:
                    value += min(choices, default=0.0)
                elif same and bad - good < count - 1:  # of the whole line each choice counts
                    built = min(choices[start:stop]) + weight * self.seconds[good + 1 + start]
                    value += min(built, min(choices[:start] + choices[stop:], default=math.inf))
                else:
                    paid = self.seconds[good + 1 + start : good + 1 + stop]
                    choices[start:stop] = map(add, choices[start:stop], map(mul, paid, itertools.repeat(weight)))
                    value += min(choices)
                row.append(value)
                ends[bad].append(value)
        return [ahead + above[-1] * self.test_seconds for ahead in choices]

    def _runs(self) -> tuple[list[int], list[int]]:
        """Return for each place the first and the last of those around it with the same setup.

        An end of the whole line whose setup is not there counts as alone: it was told, not probed.
        """
        first, last = list(range(len(self.setups))), list(range(len(self.setups)))
        for at in range(1, len(first) - (self.seconds[-1] > 0)):
            if self.setups[at] == self.setups[at - 1]:
                first[at] = first[at - 1]
        for at in range(len(last) - 2, (self.seconds[0] > 0) - 1, -1):
            if self.setups[at] == self.setups[at + 1]:
                last[at] = last[at + 1]
        return first, last
