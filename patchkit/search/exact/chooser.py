"""Which nodes to probe next: those whose answers together tell most about the suspects.

With one probe at a time that is git's midpoint, max min(reach, n - reach), of the suspects' prior weight where some are
likelier than others (then each counts as its weight). With several probes it is greedy joint information:
the running probes cut the suspects into cells, and the next one is chosen to cut those. Where commits could not be
tested, information is weighed with the chance that the probe gives an answer at all.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from patchkit.search.decision import Explanation, Share
from patchkit.search.graph import CommitGraph, positions
from patchkit.search.skips import testable
from patchkit.search.state import State


@dataclass(frozen=True)
class Field:
    """The suspects: in `cells`, the sets that the running probes will not tell apart, and weighed by `prior`."""

    cells: Sequence[int]
    prior: Sequence[Share]

    def cut(self, graph: CommitGraph, chosen: Iterable[int]) -> Field:
        """Return the field after the answers of some more probes, whatever they are."""
        cells = self.cells
        for at in chosen:
            cells = split(cells, graph.ancestors[at])
        return Field(cells, self.prior)

    def parts(self) -> list[list[Share]]:
        """Return each cell as its non-empty parts of one weight."""
        prior = self.prior or (Share(1, _union(self.cells)),)
        cut = ([Share(share.weight, cell & share.members) for share in prior] for cell in self.cells)
        return [[share for share in shares if share.members] for shares in cut]


def choose_nodes(
    graph: CommitGraph, state: State, field: Field, running: Collection[str], count: int
) -> dict[str, Explanation]:
    """Return up to `count` nodes to probe, best first; none when no untested node separates any two suspects."""
    untested = [at for at, node in enumerate(graph.nodes) if node not in state.observations and node not in running]
    known = {graph.index[node]: node in state.skipped for node in state.observations if node in graph.index}
    chances = testable(len(graph.nodes), known)
    chosen: list[int] = []
    while len(chosen) < count and (best := _choose(graph, field.cut(graph, chosen), untested, chances)) is not None:
        chosen.append(best)
        untested.remove(best)
    for place in range(len(chosen) if len(chosen) > 1 else 0):  # halves, then quarters: move them towards thirds
        others = [*chosen[:place], *chosen[place + 1 :]]
        moved = _choose(graph, field.cut(graph, others), [*untested, chosen[place]], chances)
        if moved is not None and moved != chosen[place]:
            untested.remove(moved)
            untested.append(chosen[place])
            chosen[place] = moved
    return {
        graph.nodes[at]: _explain(graph, field.cut(graph, chosen[:place]), at, chances[at])
        for place, at in enumerate(chosen)
    }


def split(cells: Iterable[int], ancestors: int) -> list[int]:
    """Cut each cell into what a probe with these ancestors would accuse and what it would clear."""
    parts = (part for cell in cells for part in (cell & ancestors, cell & ~ancestors))
    return [part for part in parts if part]


def _choose(graph: CommitGraph, field: Field, untested: list[int], chances: list[float]) -> int | None:
    """Choose among the suspects; others only when no suspect helps (side branches can still tell two of them apart)."""
    suspects = set(positions(_union(field.cells)))
    among = [at for at in untested if at in suspects]
    best = _best(graph, field, among, chances)
    if best is None:
        best = _best(graph, field, [at for at in untested if at not in suspects], chances)
    return best


def _best(graph: CommitGraph, field: Field, among: list[int], chances: list[float]) -> int | None:
    """Return the position of most information, the oldest of equals; None when none informs."""
    cells = [(shares, sum(share.weight * share.members.bit_count() for share in shares)) for shares in field.parts()]
    uncut = sum(_entropy_part(mass) for _, mass in cells)
    best, most = None, 0.0
    for at in among:
        ancestors = graph.ancestors[at]
        cut, parts = 0.0, 0
        for shares, mass in cells:
            reach = sum(share.weight * (ancestors & share.members).bit_count() for share in shares)
            cut += _entropy_part(reach) + _entropy_part(mass - reach)
            parts += 0 < reach < mass
        gain = (uncut - cut) * chances[at] if parts else 0.0
        if gain > most:
            best, most = at, gain
    return best


def _explain(graph: CommitGraph, field: Field, at: int, chance: float) -> Explanation:
    """Return the numbers of a node that is probed where `field` is what the probes before it leave."""
    ancestors, before, after, bad, total = graph.ancestors[at], 0.0, 0.0, 0.0, 0.0
    for shares in field.parts():
        mass = sum(share.weight * share.members.bit_count() for share in shares)
        reach = sum(share.weight * (ancestors & share.members).bit_count() for share in shares)
        before += _entropy_part(mass)
        after += _entropy_part(reach) + _entropy_part(mass - reach)
        bad, total = bad + reach, total + mass
    return Explanation(chance * (before - after) / total, 0.0, 1 - chance, bad / total)


def _entropy_part(mass: float) -> float:
    return mass * math.log2(mass) if mass > 0 else 0.0


def _union(cells: Iterable[int]) -> int:
    union = 0
    for cell in cells:
        union |= cell
    return union
