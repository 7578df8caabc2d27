"""Which nodes to probe next: those whose answers together tell most about the suspects for what they cost.

With one probe at a time and equal costs that is git's midpoint, max min(reach, n - reach), of the suspects' prior
weight where some are likelier than others. With several probes it is greedy joint information: the running probes cut
the suspects into cells, and the next one is chosen to cut those. Information counts with the chance that the probe
gives an answer at all. Where builds cost, the best node is that of least cost(v) + E V after v, on a line and for one
probe at a time: V is exact for few suspects without skips (`costs.interval`), else V(S) = t_test H(S) + (builds ahead,
see `costs.builds`). Otherwise the best node is that of most information a second.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from patchkit.search.costs import MOST_EXACT, Costs, Line, plan_builds
from patchkit.search.decision import Explanation, Settings
from patchkit.search.exact.field import Field
from patchkit.search.graph import CommitGraph, positions
from patchkit.search.skips import telling, testable
from patchkit.search.state import State

POOL = 160  # nodes that several probes at once are chosen among: a part of a 160th is as good as an even one
HOLE = 64  # suspects that several probes at once are worth to test one by one; vLLM's holes are of ten commits


@dataclass(frozen=True)
class Ground:
    """What the choice looks at apart from the suspects: which nodes can be probed, how likely, at what cost."""

    graph: CommitGraph
    untested: Sequence[int]
    chances: Sequence[float]
    costs: Costs | None
    is_level: bool
    least_bits: float
    is_alone: bool  # one probe at a time

    def seconds(self, at: int) -> float:
        """Return what a probe costs; 0 when nothing is known of costs."""
        return self.costs.seconds(self.graph.nodes[at]) if self.costs else 0.0


def choose_nodes(
    graph: CommitGraph, state: State, settings: Settings, cells: Sequence[int], running: Collection[str]
) -> dict[str, Explanation]:
    """Return the nodes to probe beside the running ones, best first; none when no node tells enough."""
    count = settings.slots - len(running)
    field = Field(cells, settings.prior)
    wanted = least_bits(graph, state, settings, field.members)
    ground = _survey(graph, state, replace(settings, least_bits=wanted), running)
    if count > 1 or len(cells) > 1:
        ground = _thin(ground, field)
    chosen: list[int] = []
    while len(chosen) < count and (best := _choose(ground, field, chosen)) is not None:
        chosen.append(best)
    for place in range(len(chosen) if len(chosen) > 1 else 0):  # halves, then quarters: move them towards thirds
        others = [*chosen[:place], *chosen[place + 1 :]]
        moved = _choose(ground, field, others)
        chosen[place] = chosen[place] if moved is None else moved
    return _explain(ground, field, chosen)


def least_bits(graph: CommitGraph, state: State, settings: Settings, suspects: int) -> float:
    """Return what a probe must be expected to tell to be worth it: anything, unless a suspect cannot be tested.

    With several probes at once the one that ends first decides which are next, so where an early stop leaves the
    suspects would be chance. Tested to the end, a hole of skipped commits has one answer whatever the order.
    """
    if settings.slots > 1 and suspects.bit_count() <= HOLE:
        return 0.0
    in_hole = any(suspects >> graph.index[node] & 1 for node in state.skipped if node in graph.index)
    return settings.least_bits if in_hole else 0.0


def _survey(graph: CommitGraph, state: State, settings: Settings, running: Collection[str]) -> Ground:
    untested = [at for at, node in enumerate(graph.nodes) if node not in state.observations and node not in running]
    known = telling(graph, state, settings.known_skips)
    costs = settings.costs.with_setups(running) if settings.costs else None
    is_level = costs is None or costs.is_level
    chances = testable(len(graph.nodes), known)
    return Ground(graph, untested, chances, costs, is_level, settings.least_bits, is_alone=settings.slots == 1)


def _thin(ground: Ground, field: Field) -> Ground:
    """Keep the nodes whose chances of being bad lie about evenly: several probes at once look at each many times."""
    if len(ground.untested) <= POOL:
        return ground
    whole = Field([field.members], field.prior)
    reach = {at: bad for at, (_, bad) in whole.bits(ground.graph, ground.untested).items()}
    kept: dict[int, int] = {}
    for at, bad in reach.items():
        place = int(bad * POOL)
        if place not in kept or ground.chances[at] > ground.chances[kept[place]]:
            kept[place] = at
    return replace(ground, untested=sorted(kept.values()))


def _choose(ground: Ground, field: Field, chosen: Sequence[int]) -> int | None:
    """Choose among the suspects; others only when no suspect helps (side branches can still tell two of them apart)."""
    cut = field.cut(ground.graph, chosen)
    suspects = field.members
    rest = [at for at in ground.untested if at not in chosen]
    best = _best(ground, cut, [at for at in rest if suspects >> at & 1], chosen)
    return best if best is not None else _best(ground, cut, [at for at in rest if not suspects >> at & 1], chosen)


def _best(ground: Ground, field: Field, among: Sequence[int], chosen: Sequence[int]) -> int | None:
    """Return the best position, the oldest of equals; None when none tells enough, if all suspects were alike.

    A prior that is sure makes each probe tell little, but it takes a probe to know that it was right.
    """
    bits = _bits(ground, field, among)
    if max(bits.values(), default=0.0) <= ground.least_bits:
        alike = _bits(ground, Field(field.cells, ()), bits) if ground.least_bits else {}
        if max(alike.values(), default=0.0) <= ground.least_bits:
            return None
    scores = _score(ground, field, bits, chosen)
    return max(scores, key=lambda at: (scores[at], -at))


def _bits(ground: Ground, field: Field, among: Iterable[int]) -> dict[int, float]:
    """Return what each position is expected to tell."""
    return {at: ground.chances[at] * told for at, (told, _) in field.bits(ground.graph, among).items()}


def _score(ground: Ground, field: Field, bits: Mapping[int, float], chosen: Sequence[int]) -> Mapping[int, float]:
    """Return how good each position is: its bits, the seconds that it saves, or its bits a second."""
    if ground.costs is None or ground.is_level:
        return bits
    costs = ground.costs.with_setups([ground.graph.nodes[at] for at in chosen])
    seconds = {at: costs.seconds(ground.graph.nodes[at]) for at in bits}
    if len(field.cells) > 1 or not ground.graph.is_line:
        return {at: told / max(seconds[at], 1e-9) for at, told in bits.items()}
    if ground.is_alone and field.members.bit_count() <= MOST_EXACT and min(ground.chances) == 1:
        return _score_exactly(ground.graph, costs, field, bits)
    plan = plan_builds(ground.graph, costs, _masses(ground.graph, field))
    test = costs.test_seconds
    return {at: test * told + ground.chances[at] * plan.savings[at] - seconds[at] for at, told in bits.items()}


def _score_exactly(graph: CommitGraph, costs: Costs, field: Field, among: Collection[int]) -> dict[int, float]:
    """Return the expected seconds to the answer, negative, by the position that is probed next; of a line."""
    suspects = list(positions(field.members))
    start, stop = suspects[0], suspects[-1] + 1
    names = (graph.good, *graph.nodes)[start : stop + 1]
    seconds = [costs.setup_seconds(name) for name in names]
    masses = _masses(graph, field)[start:stop]
    ahead = Line([costs.setup(name) for name in names], seconds, masses, costs.test_seconds).seconds_ahead()
    return {at: -ahead[at - start] for at in among}


def _masses(graph: CommitGraph, field: Field) -> list[float]:
    """Return the chance of each position to be the culprit."""
    masses = [0.0] * len(graph.nodes)
    for shares in field.parts():
        for share in shares:
            for at in positions(share.members):
                masses[at] = share.weight
    total = sum(masses)
    return [mass / total for mass in masses]


def _explain(ground: Ground, field: Field, chosen: Sequence[int]) -> dict[str, Explanation]:
    """Return the numbers of each chosen node, where the ones before it are probed, too."""
    explanations = {}
    for place, at in enumerate(chosen):
        told, bad = field.cut(ground.graph, chosen[:place]).bits(ground.graph, [at]).get(at, (0.0, 0.0))
        chance = ground.chances[at]
        explanations[ground.graph.nodes[at]] = Explanation(chance * told, ground.seconds(at), 1 - chance, bad)
    return explanations
