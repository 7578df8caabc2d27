"""How likely a commit can be tested at all, given which neighbours could not.

Commits that cannot be tested come in stretches (a broken build lasts until someone repairs it), so along the
topological order "broken" is a two-state Markov chain: P(broken at distance d of a broken one) = p + (1 - p) r^d. Only
the nearest known commit on each side counts. The share p and the length of stretches are the likeliest of a small grid;
before anything is known, a stretch is about ten commits long, as in vLLM's 2026 history.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

from patchkit.search.graph import CommitGraph
from patchkit.search.state import State

SHARES = (0.1, 0.3, 0.5, 0.7)
LENGTHS = (2, 6, 10, 20, 60, 200)  # commits; a hole of any size is left behind after few probes in it
ALONE = "conflict"  # the reason of known skips that say nothing of others: all that share it are known, too
USUAL_LENGTH = 10  # a length ten times as long, or a tenth, is four times less likely
Known = Mapping[int, bool]  # position → was skipped


def telling(graph: CommitGraph, state: State, known_skips: Mapping[str, str]) -> Known:
    """Return the nodes that tell how likely their neighbours can be tested, by position."""
    skipped = set(state.skipped)
    alone = {node for node in skipped if known_skips.get(node) == ALONE}
    return {graph.index[one]: one in skipped for one in state.observations if one in graph.index and one not in alone}


def testable(size: int, known: Known) -> list[float]:
    """Return the probability that each position below `size` can be tested; 1 everywhere before the first skip."""
    if not any(known.values()):
        return [1.0] * size
    share, length = _fit(known)
    decay = math.exp(-1 / length)
    powers = [decay**distance for distance in range(size + 1)]
    chances = [1 - share] * size
    ends = [None, *sorted(known), None]
    for left, right in itertools.pairwise(ends):
        start, stop = (0 if left is None else left), (size - 1 if right is None else right)
        for at in range(start, stop + 1):
            broken, fine = share, 1 - share
            for known_at in (left, right):
                if known_at is not None:
                    power, skipped = powers[abs(at - known_at)], known[known_at]
                    broken *= 1 - power + (power / share if skipped else 0)
                    fine *= 1 - power + (0 if skipped else power / (1 - share))
            chances[at] = fine / (fine + broken)
    return chances


def _fit(known: Known) -> tuple[float, int]:
    """Return the likeliest share and length, given the known positions; the first of equals."""
    return max(
        itertools.product(SHARES, LENGTHS),
        key=lambda chain: _likelihood(known, *chain) - math.log(chain[1] / USUAL_LENGTH) ** 2 / 4,
    )


def _likelihood(known: Known, share: float, length: int) -> float:
    """Return the log-likelihood of the known positions as one walk along the chain."""
    order = sorted(known)
    weight = {True: share, False: 1 - share}
    total = math.log(weight[known[order[0]]])
    for left, right in itertools.pairwise(order):
        power = math.exp(-(right - left) / length)
        total += math.log(weight[known[right]] * (1 - power) + (power if known[left] == known[right] else 0))
    return total
