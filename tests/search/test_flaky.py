"""With a repro that errs, exact bisection names a wrong commit and is sure of it; the posterior must not."""

from __future__ import annotations

import itertools
import math
import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchkit.search import Answer, Clues, Contradiction, Probe, Settings, build_graph, decide, favour, fold
from patchkit.search.flaky.model import Rates
from patchkit.search.flaky.posterior import compute_posterior
from tests.search.oracle import World, ancestors, chain, worlds

SURE = Settings(flaky=True, confidence=0.99)


def run(world: World, chance: tuple[float, float], seed: int, how: Settings = SURE) -> tuple[object, int]:
    """Search where a run passes on a bad commit, and fails on a good one, with these chances."""
    rng, graph, events = random.Random(seed), world.graph, []
    false_pass, false_fail = chance
    while isinstance(decision := decide(graph, fold(events), how), Probe):
        assert decision.fresh
        for node in decision.nodes:
            is_bad = world.answer(node) == "bad"
            fails = rng.random() >= false_pass if is_bad else rng.random() < false_fail
            answer = "skip" if node in world.broken else "bad" if fails else "good"
            events.append({"event": "probe", "node": node, "answer": answer, "fresh": True})
        assert len(events) < 500
    return decision, len(events)


def line(size: int, culprit: int) -> World:
    return World(chain(size), f"c{size}", f"c{culprit}")


@pytest.mark.parametrize(("chance", "most_runs"), [((0.1, 0.0), 18), ((0.3, 0.0), 28), ((0.3, 0.05), 42)])
def test_the_answer_is_right_as_often_as_it_claims(chance: tuple[float, float], most_runs: int) -> None:
    right, stated, runs = 0, [], []
    for seed in range(40):
        culprit = random.Random(-1 - seed).randint(1, 100)
        answer, count = run(line(100, culprit), chance, seed)
        assert isinstance(answer, Answer)
        right += answer.first_bad == f"c{culprit}"
        stated.append(answer.candidates[0].probability)
        runs.append(count)
    assert right / 40 >= statistics.mean(stated) - 0.05  # three times the deviation of 40 answers that are .99 right
    assert statistics.mean(runs) <= most_runs


def test_a_good_end_that_is_bad_already_is_told() -> None:
    class BadAlready(World):
        def answer(self, node: str) -> str:
            return "bad"

    hits = 0
    for seed in range(20):
        decision, _ = run(BadAlready(chain(50), "c50", ""), (0.2, 0.0), seed)
        hits += isinstance(decision, Contradiction) and decision.nodes == ("good",)
    assert hits >= 19


@pytest.mark.parametrize("metric", [False, True])
@pytest.mark.parametrize("lost", ["c0", "c5", "c6", "c10"])
def test_a_commit_that_only_skips_after_it_had_answered_ends_no_search_in_a_loop(lost: str, metric: bool) -> None:
    graph, events = line(10, 6).graph, []
    how = Settings(flaky=not metric, metric=metric)
    while isinstance(decision := decide(graph, fold(events), how), Probe):
        for node in decision.nodes:
            is_bad = graph.index.get(node, -1) >= graph.index["c6"]
            slips = node == lost and any(event["node"] == lost for event in events)
            value = 20.0 + len(events) % 3 if is_bad else 10.0 + len(events) % 3
            answer = "skip" if slips else "bad" if is_bad else "good"
            event = {"event": "probe", "node": node, "answer": answer, "fresh": True}
            events.append({**event, "value": None if slips or not metric else value})
        assert len(events) < 200
    assert isinstance(decision, Contradiction) or "c6" in {one.node for one in decision.candidates}


def test_a_bad_end_that_never_fails_is_told_after_few_runs() -> None:
    decision, runs = run(World(chain(50), "c50", "none"), (0.2, 0.0), 1)
    assert isinstance(decision, Contradiction)
    assert decision.nodes == ("c50",)
    assert runs <= 25


@settings(max_examples=60, deadline=None)
@given(worlds(skips=True, most=16), st.integers(0, 3))
def test_a_sure_answer_on_any_history_is_a_commit_that_could_be_tested(world: World, seed: int) -> None:
    decision, _ = run(world, (0.1, 0.0), seed)
    if isinstance(decision, Answer) and decision.confirmed:
        assert decision.candidates[0].probability >= SURE.confidence
        assert decision.first_bad == decision.candidates[0].node


@settings(max_examples=60, deadline=None)
@given(worlds(skips=False, most=14), st.lists(st.tuples(st.integers(0, 13), st.booleans()), max_size=12))
def test_the_posterior_is_the_one_that_a_plain_sum_over_commits_gives(
    world: World, runs: list[tuple[int, bool]]
) -> None:
    graph = build_graph(world.parents, "good", world.bad)
    events = [
        {"event": "probe", "node": graph.nodes[at % len(graph.nodes)], "answer": "bad" if fails else "good"}
        for at, fails in runs
    ]
    prior = favour(graph, Clues(graph.nodes[:2]))
    posterior = compute_posterior(graph, fold(events), prior, Rates())
    found = {}
    for cell, mass in zip(posterior.cells, posterior.masses, strict=True):
        found |= dict.fromkeys([cell.end] if cell.end else graph.names(cell.members), mass / cell.size)
    assert found.keys() == {*graph.nodes, "good", "bad"}
    plain = {node: _weight(world, graph.nodes, node, events, prior) for node in graph.nodes}
    for one, other in itertools.pairwise(graph.nodes):
        assert math.isclose(found[one] * plain[other], found[other] * plain[one], rel_tol=1e-9)


def _weight(
    world: World, nodes: tuple[str, ...], culprit: str, events: list[dict[str, object]], prior: object
) -> float:
    """Prior times Beta-Bernoulli evidence, as products of predictive chances, one run after the other."""
    weight = next((one.weight for one in prior if one.members >> nodes.index(culprit) & 1), 1.0)  # type: ignore[attr-defined]
    rates = {True: [2.0, 0.5], False: [0.2, 10.0]}
    for event in events:
        rate = rates[culprit in ancestors(world.parents, str(event["node"]))]
        fails = event["answer"] == "bad"
        weight *= rate[0 if fails else 1] / sum(rate)
        rate[0 if fails else 1] += 1
    return weight


def test_a_run_is_explained_by_what_it_is_expected_to_tell() -> None:
    graph = line(16, 5).graph
    decision = decide(graph, fold([{"event": "probe", "node": "c16", "answer": "bad", "fresh": True}]), SURE)
    assert isinstance(decision, Probe)
    explanation = decision.explanations[decision.nodes[0]]
    assert 0 < explanation.gain_bits < 1
    assert 0.3 < explanation.bad_mass < 0.7
    assert explanation.skip_odds == 0
