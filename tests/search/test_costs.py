"""A build takes forty tests' time: a search that does not know takes half as long again as need be."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchkit.search import Answer, Costs, Probe, Settings, build_chain, decide, fold, foresee, is_needed
from patchkit.search.costs import Line, plan_builds
from tests.search.oracle import World, chain, worlds

KEYS = st.lists(st.integers(0, 1), min_size=3, max_size=40)


def keys_of(steps: list[int]) -> list[str]:
    """The keys of the good end and of each commit, from where they change."""
    return [f"k{number}" for number in itertools.accumulate(steps)]


def spend(keys: list[str], culprit: int, build: float) -> float:
    """The minutes of a search on a line whose ends are built, a test being one."""
    names = ["good", *(f"c{at}" for at in range(1, len(keys)))]
    graph, named, built, minutes = build_chain(names), dict(zip(names, keys, strict=True)), {keys[0], keys[-1]}, 0.0
    events = [
        {"event": "probe", "node": graph.bad, "answer": "bad"},
        {"event": "probe", "node": "good", "answer": "good"},
    ]
    while True:
        costs = Costs(1.0, build, build_keys=named, built=frozenset(built))
        decision = decide(graph, fold(events), Settings(confirmations=0, costs=costs))
        if isinstance(decision, Answer):
            assert decision.first_bad == names[culprit]
            return minutes
        assert isinstance(decision, Probe)
        (node,) = decision.nodes
        assert decision.explanations[node].cost_seconds == costs.seconds(node)
        minutes += costs.seconds(node)
        built.add(named[node])
        events.append({"event": "probe", "node": node, "answer": "bad" if names.index(node) >= culprit else "good"})


def least(keys: list[str], build: float) -> float:
    """The least mean minutes: the exact dynamic programme over (newest good, oldest bad)."""

    @cache
    def total(good: int, bad: int) -> float:
        def at(middle: int) -> float:
            paid = 1 + (0 if keys[middle] in (keys[good], keys[bad]) else build)
            return (bad - good) * paid + total(good, middle) + total(middle, bad)

        return min((at(middle) for middle in range(good + 1, bad)), default=0.0)

    return total(0, len(keys) - 1) / (len(keys) - 1)


@pytest.mark.parametrize("build", [0.5, 5.0, 40.0])
def test_a_search_takes_as_many_minutes_as_the_exact_programme_and_few_percent(build: float) -> None:
    ours, best = [], []
    for seed in range(4):
        rng = random.Random(seed)
        keys = keys_of([int(rng.random() < 0.1) for _ in range(49)])
        ours.append(statistics.mean(spend(keys, culprit, build) for culprit in range(1, 49)))
        best.append(least(keys, build))
    assert statistics.mean(best) - 1e-9 <= statistics.mean(ours) <= 1.03 * statistics.mean(best)


@settings(max_examples=60)
@given(KEYS, st.floats(0.3, 0.99))
def test_a_plan_is_the_best_tree_that_trying_every_root_finds(steps: list[int], where: float) -> None:
    keys = keys_of(steps)
    names = ["good", *(f"c{at}" for at in range(1, len(keys)))]
    masses = [where ** (at % 5) for at in range(len(keys) - 1)]
    masses = [mass / sum(masses) for mass in masses]
    built = frozenset({keys[0], keys[-1]})
    costs = Costs(1.0, 7.0, build_keys=dict(zip(names, keys, strict=True)), built=built)
    runs = [
        list(members)
        for key, members in itertools.groupby(range(len(keys)), key=lambda at: keys[at])
        if key not in built
    ]
    after = masses[runs[-1][-1]] if runs else 0.0

    @cache
    def seconds(start: int, stop: int) -> float:
        if start == stop:
            return 0.0
        weight = sum(masses[at - 1] for run in runs[start:stop] for at in run)
        weight += masses[runs[stop][0] - 1] if stop < len(runs) else after
        return 7 * weight + min(seconds(start, at) + seconds(at + 1, stop) for at in range(start, stop))

    plan = plan_builds(build_chain(names), costs, masses)
    assert math.isclose(plan.seconds, seconds(0, len(runs)), abs_tol=1e-4)
    for number, run in enumerate(runs):
        saving = seconds(0, len(runs)) - seconds(0, number) - seconds(number + 1, len(runs))
        assert all(math.isclose(plan.savings[at - 1], saving, abs_tol=1e-4) for at in run)


@settings(max_examples=100)
@given(worlds(skips=True), st.data(), st.integers(1, 3))
def test_whatever_builds_cost_the_answer_is_the_same(world: World, data: st.DataObject, slots: int) -> None:
    keys = {node: data.draw(st.sampled_from("abc")) for node in world.parents}
    costs = Costs(1.0, data.draw(st.floats(0, 100)), build_keys=keys, built=frozenset({"a"}))
    graph, events = world.graph, []
    how = Settings(slots=slots, least_bits=0, costs=costs)
    while isinstance(decision := decide(graph, fold(events), how), Probe):
        assert decision.nodes
        events += [world.event(node, decision.fresh) for node in decision.nodes]
    plain: list[dict[str, object]] = []
    while isinstance(other := decide(graph, fold(plain), Settings(least_bits=0)), Probe):
        plain += [world.event(node, other.fresh) for node in other.nodes]
    assert isinstance(decision, Answer)
    assert isinstance(other, Answer)
    assert {one.node for one in decision.candidates} == {one.node for one in other.candidates}


def test_what_is_at_hand_costs_a_test_and_what_is_not_its_build_and_its_environment() -> None:
    costs = Costs(
        60.0,
        2400.0,
        300.0,
        build_keys={"a": "old", "b": "new", "c": "wheel"},
        built=frozenset({"old"}),
        environment_keys={"a": "e1", "b": "e2"},
        made=frozenset({"e1"}),
        key_seconds={"wheel": 30.0},
    )
    assert [costs.seconds(node) for node in ("a", "b", "c", "good")] == [60.0, 2760.0, 90.0, 60.0]
    assert costs.with_setups(["b"]).seconds("b") == 60.0
    assert not costs.is_level


def test_commits_that_share_the_build_at_hand_are_tried_before_one_that_does_not() -> None:
    graph = build_chain(["good", *(f"c{at}" for at in range(1, 41))])
    keys = {"good": "old"} | {f"c{at}": "old" if at <= 18 else "mid" if at <= 22 else "new" for at in range(1, 41)}
    ends = [{"event": "probe", "node": "c40", "answer": "bad"}, {"event": "probe", "node": "good", "answer": "good"}]
    costs = Costs(1.0, 40.0, build_keys=keys, built=frozenset({"old", "new"}))
    decision = decide(graph, fold(ends), Settings(costs=costs))
    assert isinstance(decision, Probe)
    assert decision.nodes[0] in {"c18", "c23"}  # git would build c20


def test_flaky_runs_stay_where_a_build_is_and_still_find_the_culprit() -> None:
    rng, names = random.Random(5), ["good", *(f"c{at}" for at in range(1, 101))]
    keys = dict(zip(names, keys_of([int(rng.random() < 0.1) for _ in names]), strict=True))
    graph, built, events, builds = World(chain(100), "c100", "c61").graph, {keys["good"], keys["c100"]}, [], 0
    while True:
        costs = Costs(1.0, 40.0, build_keys=keys, built=frozenset(built))
        decision = decide(graph, fold(events), Settings(flaky=True, costs=costs))
        if not isinstance(decision, Probe):
            break
        for node in decision.nodes:
            builds += keys[node] not in built
            built.add(keys[node])
            fails = node != "good" and int(node[1:]) >= 61 and rng.random() >= 0.2
            events.append({"event": "probe", "node": node, "answer": "bad" if fails else "good", "fresh": True})
    assert isinstance(decision, Answer)
    assert decision.first_bad == "c61"
    assert builds <= 4


@settings(max_examples=60)
@given(st.data())
def test_what_is_ahead_on_a_short_line_is_what_trying_everything_finds(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 12))
    setups = list(itertools.accumulate(data.draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))))
    price = {setup: data.draw(st.sampled_from([0.0, 5.0, 40.0])) for setup in setups}
    masses = data.draw(st.lists(st.floats(0.01, 1), min_size=count - 1, max_size=count - 1))
    line = Line(setups, [price[setup] for setup in setups], masses, 1.0)

    def paid(good: int, middle: int, bad: int) -> float:
        probed = {setups[place] for place in (good, bad) if 0 < place < count - 1}
        return 1.0 + (0.0 if setups[middle] in probed else price[setups[middle]])

    def choices(good: int, bad: int) -> list[float]:
        weight = sum(masses[good:bad])
        return [weight * paid(good, at, bad) + least(good, at) + least(at, bad) for at in range(good + 1, bad)]

    @cache
    def least(good: int, bad: int) -> float:
        return min(choices(good, bad), default=0.0)

    ahead = line.seconds_ahead()
    assert len(ahead) == count - 2
    assert all(math.isclose(one, other) for one, other in zip(ahead, choices(0, count - 1), strict=True))


def test_a_search_takes_exactly_the_minutes_of_the_exact_programme() -> None:
    rng = random.Random(3)
    keys = keys_of([int(rng.random() < 0.1) for _ in range(59)])
    ours = statistics.mean(spend(keys, culprit, 40.0) for culprit in range(1, 59))
    assert math.isclose(ours, least(keys, 40.0))


def test_what_comes_next_is_foreseen_with_the_likeliest_answers_and_once_a_build() -> None:
    graph = build_chain(["good", *(f"c{at}" for at in range(1, 17))])
    keys = {"good": "k0"} | {f"c{at}": f"k{(at - 1) // 4}" for at in range(1, 17)}
    how = Settings(slots=4, costs=Costs(1.0, 40.0, build_keys=keys))
    found = foresee(graph, fold([]), how, ["c16", "good"])  # they make k3 and k0 themselves
    assert found
    assert {keys[node] for node in found} <= {"k1", "k2"}
    assert len({keys[node] for node in found}) == len(found)
    ready = Settings(slots=4, costs=Costs(1.0, 40.0, build_keys=keys, built=frozenset(keys.values())))
    assert foresee(graph, fold([]), ready, ["c16", "good"]) == ()
    ends = [{"event": "probe", "node": "c16", "answer": "bad"}, {"event": "probe", "node": "good", "answer": "good"}]
    above = [*ends, {"event": "probe", "node": "c8", "answer": "good"}]
    assert [is_needed(graph, fold(above), how, node) for node in ("c6", "c9")] == [False, True]
