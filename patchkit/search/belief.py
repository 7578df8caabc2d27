"""What is believed of each commit at one moment, for pictures: the probability that it is the first bad one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from patchkit.search.decision import Settings, Share
from patchkit.search.exact import bisection
from patchkit.search.flaky.model import Model, Rates, fit_scatter
from patchkit.search.flaky.posterior import compute_posterior
from patchkit.search.graph import CommitGraph, positions
from patchkit.search.state import State


def believe(graph: CommitGraph, state: State, settings: Settings) -> tuple[float, ...]:
    """Return the probability of each node in the order of the graph; they sum to 1 where any commit is left.

    With runs that may err, what is missing to 1 is the probability that an end is not what it is said to be.
    """
    state = state.with_skips(settings.known_skips)
    if settings.flaky or settings.metric:
        model: Model = fit_scatter(state, graph.good, graph.bad) if settings.metric else Rates()
        return tuple(compute_posterior(graph, state, settings.prior, model).chances(len(graph.nodes)))
    left = bisection.suspects(graph, state)
    weights = [0.0] * len(graph.nodes)
    for share in settings.prior or (Share(1.0, graph.whole),):
        for at in positions(left & share.members):
            weights[at] = share.weight
    total = sum(weights)
    return tuple(weight / total for weight in weights) if total else tuple(weights)


def missing_bits(belief: Sequence[float]) -> float:
    """Return the entropy of a belief: the bits that are missing to certainty."""
    return -sum(share * math.log2(share) for share in belief if share > 0)
