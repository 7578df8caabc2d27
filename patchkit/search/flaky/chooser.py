"""Which run is worth most: what its outcome is expected to tell about the culprit, for what it costs.

    I(v) = h(P(fail at v)) - sum of p(cell) [share of it that makes v bad] h(r1) + [share that makes v good] h(r0)

are the bits of a run at v, with h the entropy of one outcome and r1, r0 the cell's own chances of a failure. Close to
the end what counts is to tell the likeliest commit from all others, so for that one the divergence from the others
takes the place of that from the mean (extrinsic Jensen-Shannon divergence: Naghshvar, Javidi and Wigger, IEEE IT 2015).
Runs under way are averaged over their outcomes. All that counts with the chance that the commit can be tested. Where
builds cost, a run at v is worth t_test I(v) / C + (builds that it saves, see `costs`) - cost(v), with C what a run
tells where the suspects are split evenly; that holds on a line and for one run at a time, otherwise it is worth I(v) a
second.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchkit.search.costs import Costs, plan_builds
from patchkit.search.flaky.posterior import Posterior, add_runs, normalise
from patchkit.search.graph import CommitGraph, positions

NEGLIGIBLE = 1e-4  # a cell of less mass than this cannot change which run is best
LIKELY = 0.1  # a commit of less probability is told from the mean of all as well as from that of the others
POOL = 400  # nodes looked at inside one cell: they differ by the share of it that they split off
MOST_BRANCHES = 3  # runs under way whose outcomes are averaged over: 8 posteriors


@dataclass(frozen=True)
class Choice:
    """A node, the bits that one run there is expected to give, and the probability that it is bad."""

    node: str
    bits: float
    bad_mass: float


@dataclass(frozen=True)
class Options:
    """The nodes that can be run, with the chance that each can be tested, and what runs cost."""

    chances: Mapping[str, float]
    costs: Costs | None = None


def choose_run(graph: CommitGraph, posterior: Posterior, options: Options, running: Sequence[str]) -> Choice | None:
    """Return the best node to run, None when there is none."""
    branches = [(1.0, posterior)]
    for node in running[-MOST_BRANCHES:]:
        branches = [part for weight, one in branches for part in _branch(graph, one, node, weight)]
    prepared = [(weight, _prepare(one)) for weight, one in branches]
    told = {}
    for node in _candidates(graph, posterior, options):
        ancestors = graph.ancestors_of(node)
        told[node] = options.chances[node] * sum(weight * outcome.told(ancestors) for weight, outcome in prepared)
    if not told:
        return None
    scores = _score(graph, posterior, options, told, running)
    best = _first_of_best(scores)
    ancestors = graph.ancestors_of(best)
    bits = options.chances[best] * sum(weight * outcome.information(ancestors) for weight, outcome in prepared)
    return Choice(best, bits, sum(weight * outcome.bad_mass(ancestors) for weight, outcome in prepared))


def _candidates(graph: CommitGraph, posterior: Posterior, options: Options) -> Sequence[str]:
    """Return the nodes that may be best: those of cells that matter, and all when that are few."""
    if len(options.chances) <= POOL:
        return list(options.chances)
    kept = {node for node in options.chances if node not in graph.index}
    for cell, mass in zip(posterior.cells, posterior.masses, strict=True):
        if mass >= NEGLIGIBLE and not cell.end:
            inside = [graph.nodes[at] for at in positions(cell.members)]
            testable = [node for node in inside if node in options.chances]
            stride = max(len(testable) // POOL, 1)
            kept |= {*testable[::stride], *testable[-1:]}
    return [node for node in options.chances if node in kept]


def _first_of_best(scores: Mapping[str, float]) -> str:
    best, most = "", -math.inf
    for node, score in scores.items():
        if score > most + 1e-12:
            best, most = node, score
    return best


def _score(
    graph: CommitGraph, posterior: Posterior, options: Options, told: Mapping[str, float], running: Sequence[str]
) -> Mapping[str, float]:
    """Return what each run is worth: what it tells, the seconds that it saves, or what it tells a second."""
    if options.costs is None:
        return told
    costs = options.costs.with_setups(running)
    seconds = {node: costs.seconds(node) for node in told}
    if running or not graph.is_line:
        return {node: bits / max(seconds[node], 1e-9) for node, bits in told.items()}
    plan = plan_builds(graph, costs, posterior.chances(len(graph.nodes)))
    unit = costs.test_seconds / _capacity(posterior)
    worth = {}
    for node, bits in told.items():
        saving = plan.savings[graph.index[node]] if node in graph.index else 0.0
        worth[node] = unit * bits + options.chances[node] * saving - seconds[node]
    return worth


def _capacity(posterior: Posterior) -> float:
    """Return the bits of a run that splits the suspects evenly, at the rates of the likeliest cell."""
    cell = max(zip(posterior.masses, posterior.cells, strict=True), key=lambda pair: pair[0])[1]
    bad, good = posterior.model.fail_rates(cell.in_bad, cell.in_good)
    return max(_entropy((bad + good) / 2) - (_entropy(bad) + _entropy(good)) / 2, 1e-6)


@dataclass(frozen=True)
class _Part:
    """A cell as the inner loop needs it: what one of its members that makes the node bad adds to sums over members."""

    members: int
    fails: float
    noise: float
    mass: float


@dataclass(frozen=True)
class _Outcome:
    """The outcome of a run at a node that is good under every hypothesis but "the good end is bad", and the changes.

    `top` is the likeliest commit where it is alone in its cell, with its probability and its own two chances to fail.
    """

    fails: float
    noise: float
    bad: float
    parts: tuple[_Part, ...]
    top: tuple[int, float, float, float] | None

    def told(self, ancestors: int) -> float:
        """Return the bits of a run, with the likeliest commit told from all the others."""
        bits = self.information(ancestors)
        if self.top is not None:
            member, mass, bad, good = self.top
            own, fails = bad if member & ancestors else good, self.fail_chance(ancestors)
            others = (fails - mass * own) / (1 - mass)
            bits += mass * (_divergence(own, others) - _divergence(own, fails))
        return bits

    def information(self, ancestors: int) -> float:
        """Return the bits of a run at a node with these ancestors."""
        fails, noise = self.fails, self.noise
        for part in self.parts:
            inside = (part.members & ancestors).bit_count()
            fails += inside * part.fails
            noise += inside * part.noise
        return _entropy(fails) - noise

    def bad_mass(self, ancestors: int) -> float:
        """Return the probability that the node is bad."""
        return self.bad + sum((part.members & ancestors).bit_count() * part.mass for part in self.parts)

    def fail_chance(self, ancestors: int) -> float:
        """Return the chance that the run fails."""
        return self.fails + sum((part.members & ancestors).bit_count() * part.fails for part in self.parts)


def _prepare(posterior: Posterior) -> _Outcome:
    fails = noise = already = 0.0
    parts, top = [], None
    for cell, mass in zip(posterior.cells, posterior.masses, strict=True):
        if mass < NEGLIGIBLE:
            continue
        bad, good = posterior.model.fail_rates(cell.in_bad, cell.in_good)
        if cell.end == "good":
            fails, noise, already = fails + mass * bad, noise + mass * _entropy(bad), already + mass
            continue
        fails, noise = fails + mass * good, noise + mass * _entropy(good)
        if not cell.end:
            each = mass / cell.size
            parts.append(_Part(cell.members, each * (bad - good), each * (_entropy(bad) - _entropy(good)), each))
            if cell.size == 1 and LIKELY < mass < 1 - NEGLIGIBLE and (top is None or mass > top[1]):
                top = (cell.members, mass, bad, good)
    return _Outcome(fails, noise, already, tuple(parts), top)


def _branch(graph: CommitGraph, posterior: Posterior, node: str, weight: float) -> list[tuple[float, Posterior]]:
    """Return what is known after a run at a node, for both outcomes, with their chances."""
    ancestors, model = graph.ancestors_of(node), posterior.model
    fails = _prepare(posterior).fail_chance(ancestors)
    return [
        (weight * chance, normalise(add_runs(posterior.cells, ancestors, model.imagine(failed)), model))
        for chance, failed in ((fails, True), (1 - fails, False))
    ]


def _entropy(chance: float) -> float:
    if chance <= 0 or chance >= 1:
        return 0.0
    return -chance * math.log2(chance) - (1 - chance) * math.log2(1 - chance)


def _divergence(chance: float, other: float) -> float:
    """Return the bits by which an outcome with `chance` differs from one with the chance `other`."""
    chance, other = (min(max(one, 1e-9), 1 - 1e-9) for one in (chance, other))
    return chance * math.log2(chance / other) + (1 - chance) * math.log2((1 - chance) / (1 - other))
