"""Simulated histories: a culprit, commits that cannot be tested in stretches, runs that err. Fixed seeds."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from patchkit.search import Answer, CommitGraph, Contradiction, Probe, Settings, build_chain, decide, fold

STRETCH = 10  # mean length of a stretch of commits that cannot be tested, as in vLLM's 2026 history
Run = Callable[[int], str]  # position of a commit → good, bad or skip; position -1 is the good end


@dataclass(frozen=True)
class World:
    """A line of `size` commits of which `culprit` (0 …) is the first bad one; `broken` cannot be tested."""

    size: int
    culprit: int
    broken: frozenset[int]
    false_pass: float
    false_fail: float
    seed: int

    def runner(self) -> Run:
        """Return a function that runs the repro once; its errors come from the world's own seed."""
        rng = random.Random(self.seed)

        def run(position: int) -> str:
            if position in self.broken:
                return "skip"
            is_bad = position >= self.culprit
            fails = rng.random() >= self.false_pass if is_bad else rng.random() < self.false_fail
            return "bad" if fails else "good"

        return run


def make_world(size: int, seed: int, skips: float = 0.0, false_pass: float = 0.0, false_fail: float = 0.0) -> World:
    """Return a world whose culprit and broken stretches come from `seed`; the ends can be tested."""
    rng = random.Random(1_000_003 * size + seed)
    culprit = rng.randrange(size)
    broken, state = set(), rng.random() < skips
    for position in range(size - 1):
        if state:
            broken.add(position)
        leave = 1 / STRETCH if state else skips / (1 - skips) / STRETCH if skips else 0.0
        state = state != (rng.random() < leave)
    return World(size, culprit, frozenset(broken), false_pass, false_fail, seed)


@dataclass(frozen=True)
class Outcome:
    """What a search took: `runs` without those of confirmation, `rounds` of parallel runs; was it right?"""

    runs: int
    rounds: int
    right: bool
    stated: float


def line(size: int) -> CommitGraph:
    """Return the graph of a line of commits named c0 …."""
    return build_chain(["good", *(f"c{position}" for position in range(size))])


def search(world: World, graph: CommitGraph, settings: Settings) -> Outcome:
    """Run our search to its end; the two ends of an exact search are not counted, as git is told them."""
    run, events, runs, rounds = world.runner(), [], 0, 0
    if not settings.flaky:
        events = [{"event": "probe", "node": f"c{world.size - 1}", "answer": "bad", "fresh": False}]
        events.append({"event": "probe", "node": "good", "answer": "good", "fresh": False})
    while isinstance(decision := decide(graph, fold(events), settings), Probe):
        for node in decision.nodes:
            position = -1 if node == "good" else int(node[1:])
            events.append({"event": "probe", "node": node, "answer": run(position), "fresh": decision.fresh})
        runs += len(decision.nodes)
        rounds += 1
    return Outcome(runs, rounds, _is_right(decision, world), _stated(decision))


def _is_right(decision: Answer | Contradiction, world: World) -> bool:
    """Return whether the culprit is named, or among the suspects where commits could not be tested."""
    if isinstance(decision, Contradiction):
        return False
    if world.broken:
        return f"c{world.culprit}" in {suspect.node for suspect in decision.candidates}
    return decision.first_bad == f"c{world.culprit}"


def _stated(decision: Answer | Contradiction) -> float:
    return decision.candidates[0].probability if isinstance(decision, Answer) and decision.candidates else 0.0
