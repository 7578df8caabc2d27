"""The engine that callers use: exact bisection where verdicts hold, the posterior where runs may err."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from patchkit.search.belief import believe
from patchkit.search.decision import Decision, Probe, Settings
from patchkit.search.exact import bisection
from patchkit.search.flaky import engine as flaky
from patchkit.search.graph import CommitGraph, positions
from patchkit.search.state import Observation, State

DEFAULTS = Settings()
FORESIGHT = 6  # probes ahead: what lies further on is anybody's guess


def decide(graph: CommitGraph, state: State, settings: Settings = DEFAULTS, running: Collection[str] = ()) -> Decision:
    """Return what to do next, while the probes of `running` are under way."""
    engine = flaky.decide if settings.flaky or settings.metric else bisection.decide
    return engine(graph, state.with_skips(settings.known_skips), settings, running)


def spent(graph: CommitGraph, state: State, settings: Settings, running: Collection[str]) -> tuple[str, ...]:
    """Return the running nodes that can tell nothing any more; where runs may err, each run still tells something."""
    if settings.flaky or settings.metric:
        return ()
    return bisection.spent(graph, state.with_skips(settings.known_skips), settings, running)


def foresee(graph: CommitGraph, state: State, settings: Settings, running: Collection[str]) -> tuple[str, ...]:
    """Return the first nodes that will need what is not there, if each probe answers as is likeliest; one a setup."""
    if settings.costs is None or settings.costs.is_level:
        return ()
    costs = settings.costs.with_setups(running)
    asked: Collection[str] = running
    for _ in range(FORESIGHT):
        state = _answered(graph, state, settings, asked)
        decision = decide(graph, state, replace(settings, costs=costs))
        if not isinstance(decision, Probe):
            break
        found = {costs.setup(node): node for node in reversed(decision.nodes) if costs.setup_seconds(node)}
        if found:
            return tuple(node for node in decision.nodes if found.get(costs.setup(node)) == node)
        asked = decision.nodes
    return ()


def _answered(graph: CommitGraph, state: State, settings: Settings, nodes: Collection[str]) -> State:
    """Return the state once nodes have answered as is likeliest."""
    belief = believe(graph, state, settings)
    seen = dict(state.observations)
    for node in nodes:
        below = sum(belief[at] for at in positions(graph.ancestors_of(node)))
        is_bad = node == graph.bad or (node != graph.good and below >= sum(belief) / 2)
        seen[node] = (*seen.get(node, ()), Observation("bad" if is_bad else "good", fresh=True))
    return State(seen)


def is_needed(graph: CommitGraph, state: State, settings: Settings, node: str) -> bool:
    """Return whether what is being made for a node still serves a suspect; where runs may err, all are suspects."""
    if settings.flaky or settings.metric:
        return True
    left = bisection.suspects(graph, state.with_skips(settings.known_skips))
    return bisection.makes_setup(graph, settings, left, node)


def count_suspects(graph: CommitGraph, state: State, settings: Settings = DEFAULTS) -> int:
    """Return how many commits are still under suspicion; with flaky runs, the fewest that hold the confidence."""
    state = state.with_skips(settings.known_skips)
    if settings.flaky or settings.metric:
        return flaky.count_suspects(graph, state, settings)
    return bisection.suspects(graph, state).bit_count()
