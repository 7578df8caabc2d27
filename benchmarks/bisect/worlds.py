"""Simulated histories: a culprit, commits that cannot be tested in stretches, runs that err, builds. Fixed seeds."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from patchkit.search import Answer, CommitGraph, Contradiction, Costs, Probe, Settings, build_chain, decide, fold

STRETCH = 10  # mean length of a stretch of commits that cannot be tested, as in vLLM's 2026 history
Run = Callable[[int], str]  # position of a commit → good, bad or skip; position -1 is the good end


@dataclass(frozen=True)
class World:
    """A graph of which the node at `culprit` is the first bad one; those at `broken` cannot be tested.

    Culprit -1: the good end is bad already; as many as there are nodes: the bad end is not bad.
    """

    graph: CommitGraph
    culprit: int
    broken: frozenset[int]
    false_pass: float
    false_fail: float
    seed: int

    @property
    def size(self) -> int:
        """Return how many commits may be the culprit."""
        return len(self.graph.nodes)

    def is_bad(self, position: int) -> bool:
        """Return whether a commit is bad."""
        if self.culprit < 0 or position < 0:
            return self.culprit < 0
        return bool(self.graph.ancestors[position] >> self.culprit & 1)

    def runner(self) -> Run:
        """Return a function that runs the repro once; its errors come from the world's own seed."""
        rng = random.Random(self.seed)

        def run(position: int) -> str:
            if position in self.broken:
                return "skip"
            fails = rng.random() >= self.false_pass if self.is_bad(position) else rng.random() < self.false_fail
            return "bad" if fails else "good"

        return run


def make_world(
    graph: CommitGraph, seed: int, skips: float = 0.0, false_pass: float = 0.0, false_fail: float = 0.0
) -> World:
    """Return a world whose culprit and broken stretches come from `seed`; the ends can be tested."""
    size = len(graph.nodes)
    rng = random.Random(1_000_003 * size + seed)
    culprit = rng.randrange(size)
    broken, state = set(), rng.random() < skips
    for position in range(size - 1):
        if state:
            broken.add(position)
        leave = 1 / STRETCH if state else skips / (1 - skips) / STRETCH if skips else 0.0
        state = state != (rng.random() < leave)
    return World(graph, culprit, frozenset(broken), false_pass, false_fail, seed)


@dataclass(frozen=True)
class Outcome:
    """What a search took: `runs` without those of confirmation, `rounds` of parallel runs, minutes; was it right?

    `suspects` is the size of the answer, 0 for a contradiction, whose nodes are `blamed`.
    """

    runs: int
    rounds: int
    right: bool
    stated: float
    suspects: int = 1
    minutes: float = 0.0
    blamed: tuple[str, ...] = ()


@functools.cache
def line(size: int) -> CommitGraph:
    """Return the graph of a line of commits named c0 …."""
    return build_chain(["good", *(f"c{position}" for position in range(size))])


def search(world: World, settings: Settings, keys: Sequence[str] = (), build_minutes: float = 0.0) -> Outcome:
    """Run our search to its end; the two ends of an exact search are not counted, as git is told them.

    With build keys (of the good end, then of each commit) the ends are built, a test takes a minute.
    """
    graph, run, runs, rounds, minutes = world.graph, world.runner(), 0, 0, 0.0
    events: list[dict[str, object]] = []
    if not settings.flaky:
        events = [{"event": "probe", "node": node, "answer": answer} for node, answer in _ends(graph)]
    if keys:
        named = dict(zip((graph.good, *graph.nodes), keys, strict=True))
        costs = Costs(60.0, 60 * build_minutes, build_keys=named, built=frozenset({keys[0], keys[-1]}))
        settings = replace(settings, costs=costs)
    while isinstance(decision := decide(graph, fold(events), settings), Probe):
        for node in decision.nodes:
            answer = run(graph.index.get(node, -1))
            events.append({"event": "probe", "node": node, "answer": answer, "fresh": decision.fresh})
        if settings.costs is not None:
            minutes += sum(settings.costs.seconds(node) for node in decision.nodes) / 60
            settings = replace(settings, costs=settings.costs.with_setups(decision.nodes))
        runs += len(decision.nodes)
        rounds += 1
    if isinstance(decision, Contradiction):
        return Outcome(runs, rounds, False, 0.0, 0, minutes, decision.nodes)
    stated = decision.candidates[0].probability if decision.candidates else 0.0
    return Outcome(runs, rounds, is_right(decision, world), stated, len(decision.candidates), minutes)


def is_right(decision: Answer, world: World) -> bool:
    """Return whether the culprit is named, or among the suspects where commits could not be tested."""
    if not 0 <= world.culprit < world.size:
        return False
    culprit = world.graph.nodes[world.culprit]
    if world.broken:
        return culprit in {suspect.node for suspect in decision.candidates}
    return decision.first_bad == culprit


def _ends(graph: CommitGraph) -> tuple[tuple[str, str], ...]:
    return (graph.bad, "bad"), (graph.good, "good")
