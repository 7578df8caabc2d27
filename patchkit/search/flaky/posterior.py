"""How likely each commit is the culprit, given runs that may pass on bad commits and fail on good ones.

Hypotheses: each commit of the graph; that the good end is bad already; that the bad end is not bad. Under "c is the
culprit" a commit is bad if and only if c is among its ancestors; the model says how likely the runs then are. Skips
never count. Commits that no run tells apart share their counts, so the work is a few cells, not thousands of commits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from patchkit.search.decision import Share
from patchkit.search.flaky.model import Counts, Model
from patchkit.search.graph import CommitGraph, positions
from patchkit.search.state import State

INVALID = 0.02  # of each end being not what it is said to be, before anything ran


@dataclass(frozen=True)
class Cell:
    """Hypotheses with the same counts. `members` are commits; 0 for the two about the ends.

    `weight` is the prior of one member; `in_bad` and `in_good` count runs at commits that would be bad or good.
    """

    members: int
    weight: float
    in_bad: Counts
    in_good: Counts
    end: str = ""  # "good": the good end is bad already; "bad": the bad end is not bad

    @property
    def size(self) -> int:
        """Return how many hypotheses are in the cell."""
        return 1 if self.end else self.members.bit_count()

    def log_mass(self, model: Model) -> float:
        """Return the logarithm of prior times likelihood, for the whole cell."""
        return math.log(self.weight * self.size) + model.evidence(self.in_bad, self.in_good)


@dataclass(frozen=True)
class Posterior:
    """Cells with their probabilities, which sum to 1."""

    cells: tuple[Cell, ...]
    masses: tuple[float, ...]
    model: Model

    def end(self, name: str) -> float:
        """Return the probability that an end is not what it is said to be."""
        return sum(mass for cell, mass in zip(self.cells, self.masses, strict=True) if cell.end == name)

    def best(self) -> tuple[int, float]:
        """Return the cell with the likeliest single commit, as a set, and that commit's probability."""
        commits = [(cell, mass) for cell, mass in zip(self.cells, self.masses, strict=True) if not cell.end]
        cell, mass = max(commits, key=lambda pair: pair[1] / pair[0].size)
        return cell.members, mass / cell.size

    def entropy(self) -> float:
        """Return the bits that are missing to certainty."""
        pairs = zip(self.cells, self.masses, strict=True)
        return -sum(mass * math.log2(mass / cell.size) for cell, mass in pairs if mass > 0)

    def chances(self, size: int) -> list[float]:
        """Return the probability of each of `size` positions."""
        found = [0.0] * size
        for cell, mass in zip(self.cells, self.masses, strict=True):
            if not cell.end:
                each = mass / cell.size
                for at in positions(cell.members):
                    found[at] = each
        return found


def compute_posterior(graph: CommitGraph, state: State, prior: Sequence[Share], model: Model) -> Posterior:
    """Return the posterior after all runs of `state`."""
    cells = start_cells(graph, prior, model)
    for node, counts in model.count(state).items():
        cells = add_runs(cells, graph.ancestors_of(node), counts)
    return normalise(cells, model)


def start_cells(graph: CommitGraph, prior: Sequence[Share], model: Model) -> list[Cell]:
    """Return the hypotheses before anything ran."""
    shares = prior or (Share(1.0, graph.whole),)
    total = sum(share.weight * share.members.bit_count() for share in shares)
    scale, none = (1 - 2 * INVALID) / total, model.nothing
    commits = [Cell(share.members, share.weight * scale, none, none) for share in shares if share.members]
    return [*commits, Cell(0, INVALID, none, none, end="good"), Cell(0, INVALID, none, none, end="bad")]


def add_runs(cells: Iterable[Cell], ancestors: int, counts: Counts) -> list[Cell]:
    """Return the cells after runs at a node with these ancestors (0: the good end), split where they differ."""
    found = []
    for cell in cells:
        inside, outside = cell.members & ancestors, cell.members & ~ancestors
        if inside or cell.end == "good":
            found.append(replace(cell, members=inside, in_bad=_plus(cell.in_bad, counts)))
        if outside or cell.end == "bad":
            found.append(replace(cell, members=outside, in_good=_plus(cell.in_good, counts)))
    return found


def normalise(cells: Sequence[Cell], model: Model) -> Posterior:
    """Return the cells with their probabilities."""
    logs = [cell.log_mass(model) for cell in cells]
    top = max(logs)
    masses = [math.exp(one - top) for one in logs]
    total = sum(masses)
    return Posterior(tuple(cells), tuple(mass / total for mass in masses), model)


def _plus(counts: Counts, more: Counts) -> Counts:
    return tuple(one + other for one, other in zip(counts, more, strict=True))
