"""The engine that callers use: exact bisection where verdicts hold, the posterior where runs may err."""

from __future__ import annotations

from collections.abc import Collection

from patchkit.search.decision import Decision, Settings
from patchkit.search.exact import bisection
from patchkit.search.flaky import engine as flaky
from patchkit.search.graph import CommitGraph
from patchkit.search.state import State

DEFAULTS = Settings()


def decide(graph: CommitGraph, state: State, settings: Settings = DEFAULTS, running: Collection[str] = ()) -> Decision:
    """Return what to do next, while the probes of `running` are under way."""
    engine = flaky.decide if settings.flaky or settings.metric else bisection.decide
    return engine(graph, state.with_skips(settings.known_skips), settings, running)


def spent(graph: CommitGraph, state: State, settings: Settings, running: Collection[str]) -> tuple[str, ...]:
    """Return the running nodes that can tell nothing any more; where runs may err, each run still tells something."""
    if settings.flaky or settings.metric:
        return ()
    return bisection.spent(graph, state.with_skips(settings.known_skips), settings, running)


def count_suspects(graph: CommitGraph, state: State, settings: Settings = DEFAULTS) -> int:
    """Return how many commits are still under suspicion; with flaky runs, the fewest that hold the confidence."""
    state = state.with_skips(settings.known_skips)
    if settings.flaky or settings.metric:
        return flaky.count_suspects(graph, state, settings)
    return bisection.suspects(graph, state).bit_count()
