"""The suspects, as the sets that running probes will not tell apart, and what a probe would tell about them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from patchkit.search.decision import Share
from patchkit.search.graph import CommitGraph


@dataclass(frozen=True)
class Field:
    """The suspects: in `cells`, the sets that the running probes will not tell apart, and weighed by `prior`."""

    cells: Sequence[int]
    prior: Sequence[Share]

    @property
    def members(self) -> int:
        """Return all suspects as one set."""
        union = 0
        for cell in self.cells:
            union |= cell
        return union

    def cut(self, graph: CommitGraph, chosen: Iterable[int]) -> Field:
        """Return the field after the answers of some more probes, whatever they are."""
        cells = self.cells
        for at in chosen:
            cells = split(cells, graph.ancestors[at])
        return Field(cells, self.prior)

    def parts(self) -> list[list[Share]]:
        """Return each cell as its non-empty parts of one weight."""
        prior = self.prior or (Share(1, self.members),)
        cut = ([Share(share.weight, cell & share.members) for share in prior] for cell in self.cells)
        return [[share for share in shares if share.members] for shares in cut]

    def bits(self, graph: CommitGraph, among: Iterable[int]) -> dict[int, tuple[float, float]]:
        """Return what each position that tells anything tells, in bits, and its chance of being bad."""
        cells = [(shares, _mass(shares)) for shares in self.parts()]
        total = sum(mass for _, mass in cells)
        uncut = sum(_entropy_part(mass) for _, mass in cells)
        found = {}
        for at in among:
            ancestors = graph.ancestors[at]
            cut, bad, parts = 0.0, 0.0, 0
            for shares, mass in cells:
                reach = 0.0
                for share in shares:
                    reach += share.weight * (ancestors & share.members).bit_count()
                cut += _entropy_part(reach) + _entropy_part(mass - reach)
                bad += reach
                parts += 0 < reach < mass
            if parts:
                found[at] = ((uncut - cut) / total, bad / total)
        return found


def split(cells: Iterable[int], ancestors: int) -> list[int]:
    """Cut each cell into what a probe with these ancestors would accuse and what it would clear."""
    parts = (part for cell in cells for part in (cell & ancestors, cell & ~ancestors))
    return [part for part in parts if part]


def _mass(shares: Iterable[Share]) -> float:
    return sum(share.weight * share.members.bit_count() for share in shares)


def _entropy_part(mass: float) -> float:
    return mass * math.log2(mass) if mass > 0 else 0.0
