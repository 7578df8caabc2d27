"""Which commits are likelier to be the culprit before anything is probed.

A repro opens few files of the tree, and most commits change none of them. Of the probability .8 is shared by those that
do, .2 by all: a fault can come from a file that was not opened (a default in a file that a child process reads, a build
setting). Where the failure is a crash, a commit that changes native files counts as one of those: what it changes is
opened as a binary. Then two things that titles tell multiply what a commit has: it takes another back or brings one
again, or upstream took it back after the bad end. The prior orders the probes and never excludes a commit.

The factors are careful readings of vLLM's and vLLM-Ascend's histories (`python -m benchmarks.bisect.prior`). Of 180
commits that a later one names as the cause of a fault 7 take another back, 3.9 % where .6 % of all commits do, but all
seven are in one of the two: 2 is less than that says. .6 % of all commits were taken back later, and 1 of 8 regressions
whose first bad commit is known: 8 is less than that, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from patchkit.search.decision import Share
from patchkit.search.graph import CommitGraph

FAVOURED = 0.8
TURNS = 2.0
TAKEN_BACK = 8.0


@dataclass(frozen=True)
class Clues:
    """What is known of nodes: they change a file that the repro `opened`, or a `native` one, of which it crashed.

    `turns` take another commit back or bring it again; `taken_back` were taken back after the bad end.
    """

    opened: Collection[str] = ()
    native: Collection[str] = ()
    turns: Collection[str] = ()
    taken_back: Collection[str] = ()


def favour(graph: CommitGraph, clues: Clues) -> tuple[Share, ...]:
    """Return the prior in which nodes that change what failed share `FAVOURED`; empty where all nodes are alike."""
    chosen = _members(graph, (*clues.opened, *clues.native))
    count, total = chosen.bit_count(), len(graph.nodes)
    lift = 1.0 if count in (0, total) else 1 + FAVOURED / count / ((1 - FAVOURED) / total)
    shares = defaultdict(int, {1.0: graph.whole})
    factors = ((lift, chosen), (TURNS, _members(graph, clues.turns)), (TAKEN_BACK, _members(graph, clues.taken_back)))
    for factor, members in factors:
        cut: defaultdict[float, int] = defaultdict(int)
        for weight, share in shares.items():
            cut[weight * factor] |= share & members
            cut[weight] |= share & ~members
        shares = cut
    found = tuple(Share(weight, share) for weight, share in shares.items() if share)
    return found if len(found) > 1 else ()


def _members(graph: CommitGraph, nodes: Iterable[str]) -> int:
    members = 0
    for node in nodes:
        if node in graph.index:
            members |= 1 << graph.index[node]
    return members
