"""Which nodes to probe next: those whose answers together tell most about the suspects.

With one probe at a time that is git's midpoint, max min(reach, n - reach). With several it is greedy joint information:
the running probes cut the suspects into cells, and the next one is chosen to cut those. Where commits could not be
tested, information is weighed with the chance that the probe gives an answer at all.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from patchkit.search.graph import CommitGraph, positions
from patchkit.search.skips import testable
from patchkit.search.state import State


def choose_nodes(
    graph: CommitGraph, state: State, cells: Sequence[int], running: Collection[str], count: int
) -> tuple[str, ...]:
    """Return up to `count` nodes to probe, best first; none when no untested node separates any two suspects.

    `cells` are the sets of suspects that the running probes will not tell apart.
    """
    untested = [at for at, node in enumerate(graph.nodes) if node not in state.observations and node not in running]
    known = {graph.index[node]: node in state.skipped for node in state.observations if node in graph.index}
    chances = testable(len(graph.nodes), known)
    chosen: list[int] = []
    while len(chosen) < count and (best := _choose(graph, _cut(graph, cells, chosen), untested, chances)) is not None:
        chosen.append(best)
        untested.remove(best)
    for place in range(len(chosen) if len(chosen) > 1 else 0):  # halves, then quarters: move them towards thirds
        others = [*chosen[:place], *chosen[place + 1 :]]
        moved = _choose(graph, _cut(graph, cells, others), [*untested, chosen[place]], chances)
        if moved is not None and moved != chosen[place]:
            untested.remove(moved)
            untested.append(chosen[place])
            chosen[place] = moved
    return tuple(graph.nodes[at] for at in chosen)


def split(cells: Iterable[int], ancestors: int) -> list[int]:
    """Cut each cell into what a probe with these ancestors would accuse and what it would clear."""
    parts = (part for cell in cells for part in (cell & ancestors, cell & ~ancestors))
    return [part for part in parts if part]


def _cut(graph: CommitGraph, cells: Sequence[int], chosen: Iterable[int]) -> Sequence[int]:
    for at in chosen:
        cells = split(cells, graph.ancestors[at])
    return cells


def _choose(graph: CommitGraph, cells: Sequence[int], untested: list[int], chances: list[float]) -> int | None:
    """Choose among the suspects; others only when no suspect helps (side branches can still tell two of them apart)."""
    suspects = set(positions(_union(cells)))
    among = [at for at in untested if at in suspects]
    best = _best(graph, cells, among, chances)
    if best is None:
        best = _best(graph, cells, [at for at in untested if at not in suspects], chances)
    return best


def _best(graph: CommitGraph, cells: Sequence[int], among: list[int], chances: list[float]) -> int | None:
    """Return the position of most information, the oldest of equals; None when none informs."""
    sizes = [cell.bit_count() for cell in cells]
    weight = [0.0] + [number * math.log2(number) for number in range(1, max(sizes) + 1)]
    uncut = sum(weight[size] for size in sizes)
    best, most = None, 0.0
    pairs = list(zip(cells, sizes, strict=True))
    for at in among:
        ancestors = graph.ancestors[at]
        cut = 0.0
        for cell, size in pairs:
            reach = (ancestors & cell).bit_count()
            cut += weight[reach] + weight[size - reach]
        gain = (uncut - cut) * chances[at]
        if gain > most:
            best, most = at, gain
    return best


def _union(cells: Iterable[int]) -> int:
    union = 0
    for cell in cells:
        union |= cell
    return union
