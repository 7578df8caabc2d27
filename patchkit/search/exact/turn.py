"""Find where an answer turns by asking one node after the other: the whole search as one function of a callback."""

from __future__ import annotations

from collections.abc import Callable

from patchkit.search.decision import Answer, Contradiction, Probe, Settings
from patchkit.search.exact.bisection import decide
from patchkit.search.graph import CommitGraph
from patchkit.search.state import Observation, Seen, State

UNCONFIRMED = Settings(slots=1, confirmations=0)


def find_turn(graph: CommitGraph, ask: Callable[[str], Seen]) -> Answer | Contradiction:
    """Return the first node at which `ask` answers bad; each node is asked at most once, the ends included."""
    seen: dict[str, tuple[Observation, ...]] = {}
    while isinstance(decision := decide(graph, State(seen), UNCONFIRMED), Probe):
        for node in decision.nodes:
            seen[node] = (Observation(ask(node)),)
    return decision
