"""How many seconds of builds still lie ahead on a line of commits, and how many of them a build now would save.

Commits that share a build lie side by side: the line is a row of runs. Once a run is built, one or two cheap tests tell
whether the culprit lies before, in or after it. So the builds are the steps down a search tree with the runs as nodes,
weighed by the chance that the culprit is in them; a culprit that is the first commit of a run needs the run before it,
too, and is a gap of the tree. The best tree is that of Knuth (1971), in time m^2 for m runs that are not built; runs
that are built cut the row into groups with a tree each, as cheap tests tell which group is meant.

The saving of a build does not depend on what the test says or how often it errs: an answer multiplies the chances on
either side of the run by one factor each, and the expectation of those factors is 1.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from patchkit.search.costs.model import Costs
from patchkit.search.graph import CommitGraph

NEGLIGIBLE = 1e-6  # chance of a run that no plan needs to build
MOST_RUNS = 200


@dataclass(frozen=True)
class BuildPlan:
    """The seconds of builds ahead, and what building what a position needs takes off them (0: it is built)."""

    seconds: float
    savings: Sequence[float]


@dataclass(frozen=True)
class _Run:
    """Positions `start` to `stop` (exclusive) with one setup; `inside` and `first` are chances of the culprit."""

    start: int
    stop: int
    seconds: float
    inside: float
    first: float


def plan_builds(graph: CommitGraph, costs: Costs, masses: Sequence[float]) -> BuildPlan:
    """Return the plan for a line whose positions are the culprit with the chances `masses`."""
    savings = [0.0] * len(graph.nodes)
    total = 0.0
    for group, last_gap in _groups(_runs(graph, costs, masses)):
        table = _best_trees([run.inside for run in group], [*(run.first for run in group), last_gap], group)
        whole = table[0][len(group)]
        total += whole
        for number, run in enumerate(group):
            saving = whole - table[0][number] - table[number + 1][len(group)]
            for at in range(max(run.start, 0), run.stop):
                savings[at] = saving
    return BuildPlan(total, savings)


def _runs(graph: CommitGraph, costs: Costs, masses: Sequence[float]) -> list[_Run]:
    """Cut the line, the good end included (position -1), into runs of one setup."""
    names = (graph.good, *graph.nodes)
    found = []
    for _, members in itertools.groupby(range(-1, len(graph.nodes)), key=lambda at: costs.setup(names[at + 1])):
        places = list(members)
        inside = sum(masses[at] for at in places[1:])
        first = masses[places[0]] if places[0] >= 0 else 0.0
        found.append(_Run(places[0], places[-1] + 1, costs.setup_seconds(names[places[0] + 1]), inside, first))
    return found


def _groups(runs: Sequence[_Run]) -> list[tuple[list[_Run], float]]:
    """Return the runs to build between runs that are built, with the gap after each group; likely ones only."""
    groups: list[tuple[list[_Run], float]] = []
    current: list[_Run] = []
    for run, following in itertools.zip_longest(runs, runs[1:]):
        after = following.first if following is not None else 0.0
        if run.seconds > 0 and run.inside + run.first + after > NEGLIGIBLE:
            current.append(run)
        if current and (following is None or following.seconds == 0):
            groups.append((_coarsen(current), after))
            current = []
    return groups


def _coarsen(runs: list[_Run]) -> list[_Run]:
    """Return few enough runs for a plan in no time: neighbours count as one until the search is closer."""
    while len(runs) > MOST_RUNS:
        pairs = itertools.zip_longest(runs[::2], runs[1::2])
        runs = [left if right is None else _join(left, right) for left, right in pairs]
    return runs


def _join(left: _Run, right: _Run) -> _Run:
    return replace(left, stop=right.stop, inside=left.inside + right.first + right.inside)


def _best_trees(inside: Sequence[float], gaps: Sequence[float], runs: Sequence[_Run]) -> list[list[float]]:
    """Return the seconds of builds of the best tree over runs i to j, for every i <= j."""
    count = len(inside)
    weight = [[0.0] * (count + 1) for _ in range(count + 1)]
    table = [[0.0] * (count + 1) for _ in range(count + 1)]
    root = [list(range(count + 1)) for _ in range(count + 1)]
    for i in range(count + 1):
        weight[i][i] = gaps[i]
    for size in range(1, count + 1):
        for i in range(count + 1 - size):
            j = i + size
            weight[i][j] = weight[i][j - 1] + inside[j - 1] + gaps[j]
            low, high = (root[i][j - 1], min(root[i + 1][j], j - 1)) if size > 1 else (i, i)
            best, most = low, float("inf")
            for number in range(low, high + 1):
                seconds = weight[i][j] * runs[number].seconds + table[i][number] + table[number + 1][j]
                if seconds < most:
                    best, most = number, seconds
            table[i][j], root[i][j] = most, best
    return table
