"""How likely each commit is the culprit, given runs that may pass on bad commits and fail on good ones.

Hypotheses: each commit of the graph; that the good end is bad already; that the bad end is not bad. Under "c is the
culprit" a commit is bad if and only if c is among its ancestors. With K1 fails in N1 runs at bad commits and K0 in N0
at good ones, and P(fail | bad) ~ Beta(a1, b1), P(fail | good) ~ Beta(a0, b0) unknown but the same everywhere,

    log L = lnB(a1+K1, b1+N1-K1) - lnB(a1, b1) + lnB(a0+K0, b0+N0-K0) - lnB(a0, b0)

(Beta-Bernoulli as in git_bayesect; the prior of flake rates as in Henderson et al., ICST 2023). Skips never count.
Commits that no run tells apart share their counts, so the work is a few cells, not thousands of commits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from patchkit.search.decision import Share
from patchkit.search.graph import CommitGraph
from patchkit.search.state import State

INVALID = 0.02  # of each end being not what it is said to be, before anything ran
Beta = tuple[float, float]


@dataclass(frozen=True)
class Rates:
    """Beta priors of the chance that a run fails: on a bad commit (mean .8), and on a good one (mean .02)."""

    bad: Beta = (2.0, 0.5)
    good: Beta = (0.2, 10.0)


@dataclass(frozen=True)
class Cell:
    """Hypotheses with the same counts. `members` are commits; 0 for the two about the ends.

    `weight` is the prior of one member; `in_bad` and `in_good` are (fails, runs) at commits that would be bad or good.
    """

    members: int
    weight: float
    in_bad: tuple[int, int] = (0, 0)
    in_good: tuple[int, int] = (0, 0)
    end: str = ""  # "good": the good end is bad already; "bad": the bad end is not bad

    @property
    def size(self) -> int:
        """Return how many hypotheses are in the cell."""
        return 1 if self.end else self.members.bit_count()

    def fail_rates(self, rates: Rates) -> tuple[float, float]:
        """Return the chance that the next run fails, at a commit that would be bad and at one that would be good."""
        (k1, n1), (k0, n0) = self.in_bad, self.in_good
        return (rates.bad[0] + k1) / (sum(rates.bad) + n1), (rates.good[0] + k0) / (sum(rates.good) + n0)

    def log_mass(self, rates: Rates) -> float:
        """Return the logarithm of prior times likelihood, for the whole cell."""
        likelihood = _evidence(rates.bad, *self.in_bad) + _evidence(rates.good, *self.in_good)
        return math.log(self.weight * self.size) + likelihood


@dataclass(frozen=True)
class Posterior:
    """Cells with their probabilities, which sum to 1."""

    cells: tuple[Cell, ...]
    masses: tuple[float, ...]
    rates: Rates

    def end(self, name: str) -> float:
        """Return the probability that an end is not what it is said to be."""
        return sum(mass for cell, mass in zip(self.cells, self.masses, strict=True) if cell.end == name)

    def best(self) -> tuple[int, float]:
        """Return the cell with the likeliest single commit, as a set, and that commit's probability."""
        commits = [(cell, mass) for cell, mass in zip(self.cells, self.masses, strict=True) if not cell.end]
        cell, mass = max(commits, key=lambda pair: pair[1] / pair[0].size)
        return cell.members, mass / cell.size


def compute_posterior(graph: CommitGraph, state: State, prior: Sequence[Share], rates: Rates) -> Posterior:
    """Return the posterior after all runs of `state`."""
    cells = start_cells(graph, prior)
    for node, (fails, runs) in count_runs(state).items():
        cells = add_runs(cells, graph.ancestors_of(node), fails, runs)
    return normalise(cells, rates)


def start_cells(graph: CommitGraph, prior: Sequence[Share]) -> list[Cell]:
    """Return the hypotheses before anything ran."""
    shares = prior or (Share(1.0, graph.whole),)
    total = sum(share.weight * share.members.bit_count() for share in shares)
    scale = (1 - 2 * INVALID) / total
    commits = [Cell(share.members, share.weight * scale) for share in shares if share.members]
    return [*commits, Cell(0, INVALID, end="good"), Cell(0, INVALID, end="bad")]


def count_runs(state: State) -> Mapping[str, tuple[int, int]]:
    """Return (fails, runs) of each node; skips are no runs."""
    counts = {}
    for node, seen in state.observations.items():
        fails = sum(run.answer == "bad" for run in seen)
        runs = fails + sum(run.answer == "good" for run in seen)
        if runs:
            counts[node] = (fails, runs)
    return counts


def add_runs(cells: Iterable[Cell], ancestors: int, fails: int, runs: int) -> list[Cell]:
    """Return the cells after runs at a node with these ancestors (0: the good end), split where they differ."""
    found = []
    for cell in cells:
        inside, outside = cell.members & ancestors, cell.members & ~ancestors
        if inside or cell.end == "good":
            found.append(replace(cell, members=inside, in_bad=_plus(cell.in_bad, fails, runs)))
        if outside or cell.end == "bad":
            found.append(replace(cell, members=outside, in_good=_plus(cell.in_good, fails, runs)))
    return found


def normalise(cells: Sequence[Cell], rates: Rates) -> Posterior:
    """Return the cells with their probabilities."""
    logs = [cell.log_mass(rates) for cell in cells]
    top = max(logs)
    masses = [math.exp(one - top) for one in logs]
    total = sum(masses)
    return Posterior(tuple(cells), tuple(mass / total for mass in masses), rates)


def _plus(counts: tuple[int, int], fails: int, runs: int) -> tuple[int, int]:
    return counts[0] + fails, counts[1] + runs


def _evidence(prior: Beta, fails: int, runs: int) -> float:
    a, b = prior
    return _log_beta(a + fails, b + runs - fails) - _log_beta(a, b)


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
