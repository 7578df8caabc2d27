"""A measured value scatters: one threshold and one run a commit name an innocent commit as soon as it scatters much."""

from __future__ import annotations

import random
import statistics

import pytest

from patchkit.search import Answer, Contradiction, Probe, Settings, build_chain, decide, fold

LINE = build_chain(["good", *(f"c{at}" for at in range(1, 65))])
BY_VALUE = Settings(metric=True, confidence=0.95)


def measure(culprit: int, effect: float, seed: int, how: Settings = BY_VALUE) -> tuple[object, int]:
    """Search where commits from the culprit on measure `effect` deviations more."""
    rng = random.Random(seed)
    events: list[dict[str, object]] = []
    while isinstance(decision := decide(LINE, fold(events), how), Probe):
        assert decision.fresh
        for node in decision.nodes:
            value = 20 + (effect if node != "good" and int(node[1:]) >= culprit else 0) + rng.gauss(0, 1)
            events.append({"event": "probe", "node": node, "answer": "good", "value": value, "fresh": True})
        assert len(events) < 300
    return decision, len(events)


@pytest.mark.parametrize("effect", [8.0, -3.0])
def test_a_value_that_changes_is_found_as_surely_as_is_claimed(effect: float) -> None:
    right, stated = [], []
    for seed in range(20):
        culprit = random.Random(-1 - seed).randint(1, 64)
        answer, _ = measure(culprit, effect, seed)
        assert isinstance(answer, Answer)
        right.append(answer.first_bad == f"c{culprit}")
        stated.append(answer.candidates[0].probability)
    assert statistics.mean(right) >= statistics.mean(stated) - 0.08


def test_the_scale_of_the_values_does_not_matter() -> None:
    events = [
        {"event": "probe", "node": node, "answer": "good", "value": value}
        for node, value in (("c64", 9.0), ("good", 1.0)) * 3
    ]
    scaled = [event | {"value": float(str(event["value"])) * 1e6 - 7} for event in events]
    assert decide(LINE, fold(events), BY_VALUE) == decide(LINE, fold(scaled), BY_VALUE)


def test_ends_that_measure_the_same_are_told_to() -> None:
    decision, runs = measure(99, 5.0, 1)
    assert isinstance(decision, Contradiction)
    assert "do not differ by more than they scatter" in decision.message
    assert runs <= 80


def test_both_ends_are_measured_before_anything_else() -> None:
    first = decide(LINE, fold([]), BY_VALUE)
    assert isinstance(first, Probe)
    assert (first.nodes, first.stage) == (("c64",), "ends")


@pytest.mark.parametrize("value", ["fast", float("nan")])
def test_a_value_that_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="not a value"):
        fold([{"event": "probe", "node": "c1", "answer": "good", "value": value}])
