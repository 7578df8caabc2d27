"""How likely runs are, given which of their commits are bad: a chance to fail on either side, or a mean on either side.

Answers: with K1 fails in N1 runs at bad commits and K0 in N0 at good ones, and P(fail | bad) ~ Beta(a1, b1),
P(fail | good) ~ Beta(a0, b0) unknown but the same everywhere,

    log L = lnB(a1+K1, b1+N1-K1) - lnB(a1, b1) + lnB(a0+K0, b0+N0-K0) - lnB(a0, b0)

(Beta-Bernoulli as in git_bayesect; the prior of flake rates as in Henderson et al., ICST 2023). Values of a
measurement: normal with one precision and a mean on either side, all unknown (normal-gamma; Murphy, "Conjugate Bayesian
analysis of the Gaussian distribution", 2007, section 3), in units of the spread of all values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from patchkit.search.state import State

Beta = tuple[float, float]
Counts = tuple[float, ...]  # of runs on one side: (runs, fails), or (runs, sum of values, sum of their squares)


class Model(Protocol):
    """What the posterior needs to know of runs."""

    @property
    def nothing(self) -> Counts:
        """Return the counts of no run."""

    def count(self, state: State) -> Mapping[str, Counts]:
        """Return the counts of each node; skips are no runs."""

    def evidence(self, bad: Counts, good: Counts) -> float:
        """Return the logarithm of the likelihood of these runs at bad and at good commits."""

    def fail_rates(self, bad: Counts, good: Counts) -> tuple[float, float]:
        """Return the chance that the next run speaks for bad, at a bad commit and at a good one."""

    def imagine(self, failed: bool) -> Counts:
        """Return the counts of one run that speaks for bad, or for good."""


@dataclass(frozen=True)
class Rates:
    """Beta priors of the chance that a run fails: on a bad commit (mean .8), and on a good one (mean .02)."""

    bad: Beta = (2.0, 0.5)
    good: Beta = (0.2, 10.0)

    @property
    def nothing(self) -> Counts:
        """Return the counts of no run."""
        return (0, 0)

    def count(self, state: State) -> Mapping[str, Counts]:
        """Return (runs, fails) of each node."""
        counts = {}
        for node, seen in state.observations.items():
            fails = sum(run.answer == "bad" for run in seen)
            runs = fails + sum(run.answer == "good" for run in seen)
            if runs:
                counts[node] = (runs, fails)
        return counts

    def evidence(self, bad: Counts, good: Counts) -> float:
        """Return the logarithm of the likelihood."""
        return _beta_evidence(self.bad, *bad) + _beta_evidence(self.good, *good)

    def fail_rates(self, bad: Counts, good: Counts) -> tuple[float, float]:
        """Return the means of both rates after these runs."""
        (n1, k1), (n0, k0) = bad, good
        return (self.bad[0] + k1) / (sum(self.bad) + n1), (self.good[0] + k0) / (sum(self.good) + n0)

    def imagine(self, failed: bool) -> Counts:
        """Return the counts of one run."""
        return (1, int(failed))


@dataclass(frozen=True)
class Scatter:
    """Values around a mean on either side, after `centre` is taken off and `spread` is made the unit.

    A mean is as well known before any run as `WEIGHT` runs would make it, the precision as 2 `SHAPE` runs would.
    """

    centre: float = 0.0
    spread: float = 1.0
    low: float = -0.5
    high: float = 0.5

    @property
    def nothing(self) -> Counts:
        """Return the counts of no run."""
        return (0, 0.0, 0.0)

    def count(self, state: State) -> Mapping[str, Counts]:
        """Return (runs, sum, sum of squares) of each node with values."""
        counts = {}
        for node, values in values_of(state).items():
            scaled = [(value - self.centre) / self.spread for value in values]
            counts[node] = (len(scaled), sum(scaled), sum(value * value for value in scaled))
        return counts

    def evidence(self, bad: Counts, good: Counts) -> float:
        """Return the logarithm of the likelihood."""
        shape, rate = self._precision(bad, good)
        means = sum(math.log(WEIGHT / (WEIGHT + runs)) / 2 for runs, *_ in (bad, good))
        return means + SHAPE * math.log(RATE) - shape * math.log(rate) + math.lgamma(shape) - math.lgamma(SHAPE)

    def fail_rates(self, bad: Counts, good: Counts) -> tuple[float, float]:
        """Return how likely a value falls on the bad end's side of the middle between the ends."""
        shape, rate = self._precision(bad, good)
        middle, scale = (self.low + self.high) / 2, math.copysign(math.sqrt(shape / rate / 2), self.high - self.low)
        means = (total / (WEIGHT + runs) for runs, total, _ in (bad, good))
        one, other = (0.5 + math.erf((mean - middle) * scale) / 2 for mean in means)
        return one, other

    def imagine(self, failed: bool) -> Counts:
        """Return the counts of one run with the value of an end."""
        value = self.high if failed else self.low
        return (1, value, value * value)

    def _precision(self, bad: Counts, good: Counts) -> tuple[float, float]:
        """Return shape and rate of the precision's gamma distribution after these runs."""
        shape, rate = SHAPE, RATE
        for runs, total, squares in (bad, good):
            shape += runs / 2
            rate += (squares - total * total / (WEIGHT + runs)) / 2
        return shape, rate


WEIGHT = 0.1  # a difference of three deviations between the means is usual for what people call a regression
SHAPE = 1.0
RATE = SHAPE * 0.2**2  # before it is known, values scatter by a fifth of their spread: less would claim too much


def values_of(state: State) -> Mapping[str, list[float]]:
    """Return the measured values of each node that has any."""
    found = {
        node: [run.value for run in seen if run.value is not None and run.answer != "skip"]
        for node, seen in state.observations.items()
    }
    return {node: values for node, values in found.items() if values}


def fit_scatter(state: State, good: str, bad: str) -> Scatter:
    """Return the units for the values seen so far; `low` and `high` are the means of the good and of the bad end."""
    values = values_of(state)
    everything = [value for some in values.values() for value in some]
    if not everything:
        return Scatter()
    centre = sum(everything) / len(everything)
    spread = (max(everything) - min(everything)) or abs(centre) or 1.0
    means = {node: (sum(some) / len(some) - centre) / spread for node, some in values.items()}
    return Scatter(centre, spread, means.get(good, -0.5), means.get(bad, 0.5))


def _beta_evidence(prior: Beta, runs: float, fails: float) -> float:
    a, b = prior
    return _log_beta(a + fails, b + runs - fails) - _log_beta(a, b)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
