"""A killed bisect goes on from its journal: that is worth nothing unless equal input gives an equal decision."""

from __future__ import annotations

import pickle
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from patchkit.search import Clues, Costs, Probe, Settings, build_graph, decide, favour, fold
from tests.search.oracle import World, worlds

HOWS = st.builds(
    Settings,
    slots=st.integers(1, 3),
    flaky=st.booleans(),
    metric=st.booleans(),
    least_bits=st.sampled_from([0.0, 0.03]),
)


@settings(max_examples=40)
@given(worlds(skips=True, most=16), HOWS, st.integers(0, 99))
def test_a_decision_depends_on_graph_state_settings_and_what_runs_and_on_nothing_else(
    world: World, how: Settings, seed: int
) -> None:
    rng, graph, running = random.Random(seed), world.graph, []
    keys = {node: rng.choice("abc") for node in world.parents}
    costs = Costs(1.0, rng.choice([0.0, 40.0]), build_keys=keys, built=frozenset({"a"}))
    prior = favour(graph, Clues(graph.nodes[::3]))
    how = Settings(how.slots, 1, prior, how.flaky, 0.9, how.metric, costs, {}, how.least_bits)
    events: list[dict[str, object]] = []
    for _ in range(25):
        decision = decide(graph, fold(events), how, running)
        again = build_graph(dict(reversed(list(world.parents.items()))), "good", world.bad)
        assert again == graph
        assert decide(again, fold(pickle.loads(pickle.dumps(events))), how, list(running)) == decision
        if not isinstance(decision, Probe):
            return
        running += decision.nodes
        ended = running.pop(rng.randrange(len(running)))
        events.append(world.event(ended, decision.fresh) | {"value": rng.gauss(0, 1)})
