"""Which run tells most: the mutual information between its outcome and the hypotheses.

    I(v) = h(P(fail at v)) - sum of p(cell) [share of it that makes v bad] h(r1) + [share that makes v good] h(r0)

with h the entropy of one outcome in bits, and r1, r0 the cell's own chances of a failure. Runs under way are averaged
over their outcomes. Where commits could not be tested, information counts with the chance of an answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchkit.search.flaky.posterior import Posterior, add_runs, normalise
from patchkit.search.graph import CommitGraph

NEGLIGIBLE = 1e-4  # a cell of less mass than this cannot change which run is best
MOST_BRANCHES = 3  # runs under way whose outcomes are averaged over: 8 posteriors


@dataclass(frozen=True)
class Choice:
    """A node, the bits that one run there is expected to give, and the probability that it is bad."""

    node: str
    bits: float
    bad_mass: float = 0.0


def choose_run(
    graph: CommitGraph, posterior: Posterior, chances: Mapping[str, float], running: Sequence[str]
) -> Choice | None:
    """Return the best node to run among `chances` (node → chance that it can be tested), None when there is none."""
    branches = [(1.0, posterior)]
    for node in running[-MOST_BRANCHES:]:
        branches = [part for weight, one in branches for part in _branch(graph, one, node, weight)]
    prepared = [(weight, _prepare(one)) for weight, one in branches]
    best: Choice | None = None
    for node, chance in chances.items():
        ancestors = graph.ancestors_of(node)
        bits = chance * sum(weight * _information(cells, ancestors) for weight, cells in prepared)
        if best is None or bits > best.bits + 1e-12:
            best = Choice(node, bits)
    if best is None:
        return None
    bad = sum(weight * _bad_mass(cells, graph.ancestors_of(best.node)) for weight, cells in prepared)
    return Choice(best.node, best.bits, bad)


@dataclass(frozen=True)
class _Part:
    """A cell as the inner loop needs it: mass of one member, chances of a failure, and their entropies."""

    members: int
    size: int
    mass: float
    fail_bad: float
    fail_good: float
    end: str

    def share(self, ancestors: int) -> float:
        """Return how much of the cell makes a commit with these ancestors bad."""
        if self.end:
            return 1.0 if self.end == "good" else 0.0
        return (self.members & ancestors).bit_count() / self.size


def _prepare(posterior: Posterior) -> list[_Part]:
    parts = []
    for cell, mass in zip(posterior.cells, posterior.masses, strict=True):
        if mass >= NEGLIGIBLE:
            fail_bad, fail_good = cell.fail_rates(posterior.rates)
            parts.append(_Part(cell.members, cell.size, mass, fail_bad, fail_good, cell.end))
    return parts


def _information(parts: Sequence[_Part], ancestors: int) -> float:
    noise = 0.0
    for part in parts:
        share = part.share(ancestors)
        noise += part.mass * (share * _entropy(part.fail_bad) + (1 - share) * _entropy(part.fail_good))
    return _entropy(_fail_chance(parts, ancestors)) - noise


def _bad_mass(parts: Sequence[_Part], ancestors: int) -> float:
    return sum(part.mass * part.share(ancestors) for part in parts)


def _fail_chance(parts: Sequence[_Part], ancestors: int) -> float:
    """Return the chance that a run at a commit with these ancestors fails."""
    fails = 0.0
    for part in parts:
        share = part.share(ancestors)
        fails += part.mass * (share * part.fail_bad + (1 - share) * part.fail_good)
    return fails


def _branch(graph: CommitGraph, posterior: Posterior, node: str, weight: float) -> list[tuple[float, Posterior]]:
    """Return what is known after a run at a node, for both outcomes, with their chances."""
    ancestors = graph.ancestors_of(node)
    fails = _fail_chance(_prepare(posterior), ancestors)
    return [
        (weight * chance, normalise(add_runs(posterior.cells, ancestors, failed, 1), posterior.rates))
        for chance, failed in ((fails, 1), (1 - fails, 0))
    ]


def _entropy(chance: float) -> float:
    if chance <= 0 or chance >= 1:
        return 0.0
    return -chance * math.log2(chance) - (1 - chance) * math.log2(1 - chance)
