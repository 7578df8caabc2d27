"""Which commits are likelier to be the culprit before anything is probed.

A repro opens few files of the tree, and most commits change none of them. Of the probability .8 is shared by those that
do, .2 by all: a fault can come from a file that was not opened (a default in a file that a child process reads, a build
setting), so the prior orders the probes and never excludes a commit.
"""

from __future__ import annotations

from collections.abc import Iterable

from patchkit.search.decision import Share
from patchkit.search.graph import CommitGraph

FAVOURED = 0.8


def favour(graph: CommitGraph, nodes: Iterable[str]) -> tuple[Share, ...]:
    """Return the prior in which the nodes named share `FAVOURED`; uniform when none or all of the graph's are named."""
    members = 0
    for node in nodes:
        if node in graph.index:
            members |= 1 << graph.index[node]
    chosen, total = members.bit_count(), len(graph.nodes)
    if chosen in (0, total):
        return ()
    base = (1 - FAVOURED) / total
    return (Share((base + FAVOURED / chosen) / base, members), Share(1.0, graph.whole & ~members))
