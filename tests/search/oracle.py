"""A naive oracle: sets instead of bitsets, and a world in which the culprit and the untestable commits are known."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from patchkit.search import Answer, CommitGraph, Contradiction, Probe, Settings, build_graph, decide, fold

Parents = Mapping[str, tuple[str, ...]]


def ancestors(parents: Parents, node: str) -> set[str]:
    """The node and everything below it, as a plain walk finds it."""
    found, stack = set(), [node]
    while stack:
        name = stack.pop()
        if name in parents and name not in found:
            found.add(name)
            stack.extend(parents[name])
    return found


@dataclass
class World:
    """A graph with one culprit; some commits cannot be tested. Counts every probe."""

    parents: Parents
    bad: str
    culprit: str
    broken: Collection[str] = ()
    asked: list[str] = field(default_factory=list)

    @property
    def graph(self) -> CommitGraph:
        return build_graph(self.parents, "good", self.bad)

    def answer(self, node: str) -> str:
        self.asked.append(node)
        if node in self.broken:
            return "skip"
        return "bad" if self.culprit in ancestors(self.parents, node) else "good"

    def event(self, node: str, fresh: bool = False) -> dict[str, object]:
        return {"event": "probe", "node": node, "answer": self.answer(node), "fresh": fresh}


@dataclass(frozen=True)
class Outcome:
    decision: Answer | Contradiction
    events: list[dict[str, object]]
    searched: int
    rounds: int


def search(world: World, settings: Settings | None = None) -> Outcome:
    """Run the search to its end; all probes of a decision end together, so `rounds` counts parallel steps."""
    graph, events, searched, rounds = world.graph, [], 0, 0
    while True:
        decision = decide(graph, fold(events), settings or Settings())
        if not isinstance(decision, Probe):
            return Outcome(decision, events, searched, rounds)
        assert decision.nodes, "nothing runs, so there must be something to run"
        assert len(set(decision.nodes)) == len(decision.nodes) <= (settings or Settings()).slots
        if decision.stage == "search":
            searched += len(decision.nodes)
            rounds += 1
        events += [world.event(node, decision.fresh) for node in decision.nodes]
        assert len(events) < 4 * len(graph.nodes) + 20, "the search does not end"


def chain(count: int) -> Parents:
    """A line of commits c1 … c<count> above the good end."""
    names = ["good", *(f"c{number}" for number in range(1, count + 1))]
    return {name: (older,) for older, name in itertools.pairwise(names)}


@st.composite
def graphs(draw: Callable[..., object], most: int = 24) -> tuple[Parents, str]:
    """A random history: merges, side branches, several roots; the last commit is the bad end."""
    count = draw(st.integers(1, most))
    parents: dict[str, tuple[str, ...]] = {}
    for number in range(count):
        older = [f"c{at}" for at in range(max(0, number - 6), number)]
        chosen: Sequence[str] = draw(
            st.lists(st.sampled_from(["good", "", *older]), min_size=1, max_size=3, unique=True)
        )
        parents[f"c{number}"] = tuple(name for name in chosen if name)
    return parents, f"c{count - 1}"


@st.composite
def worlds(draw: Callable[..., object], skips: bool, most: int = 24) -> World:
    """A history with a culprit and, with `skips`, any subset of it untestable; the ends can be tested."""
    parents, bad = draw(graphs(most))
    inside = sorted(ancestors(parents, bad))
    culprit = draw(st.sampled_from(inside))
    broken = draw(st.sets(st.sampled_from(inside))) - {bad} if skips else set()
    return World(parents, bad, culprit, frozenset(broken))
