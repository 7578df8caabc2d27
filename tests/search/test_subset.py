"""Which patches of a series bring a fault: a tool that names one too few, or an innocent one, sends people astray."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchkit.search import Contradiction, Culprits, Try, decide_subset

Held = frozenset[str]


def drive(items: list[str], ask: Callable[[Held], str]) -> tuple[Culprits | Contradiction, int]:
    """Run to the end; the number of runs beyond those with all items and with none."""
    seen: dict[Held, str] = {}
    while isinstance(decision := decide_subset(items, seen), Try):  # type: ignore[arg-type]
        assert decision.holds not in seen, "nothing is run twice"
        seen[decision.holds] = ask(decision.holds)
        assert len(seen) < 4 * len(items) ** 2 + 10, "the search does not end"
    return decision, len(seen) - 2


def names(count: int) -> list[str]:
    return [f"p{number:02}" for number in range(count)]


@given(st.integers(1, 12), st.data())
def test_the_culprits_are_those_whatever_their_number(count: int, data: st.DataObject) -> None:
    items = names(count)
    guilty = data.draw(st.sets(st.sampled_from(items), min_size=1))
    answer, _ = drive(items, lambda held: "bad" if guilty <= held else "good")
    assert isinstance(answer, Culprits)
    assert (set(answer.items), answer.minimal) == (guilty, True)


@settings(max_examples=300)
@given(st.integers(1, 9), st.data())
def test_whatever_cannot_be_run_the_culprits_are_named_and_the_others_only_as_doubtful(
    count: int, data: st.DataObject
) -> None:
    items = names(count)
    guilty = data.draw(st.sets(st.sampled_from(items), min_size=1, max_size=3))
    broken = data.draw(st.sets(st.frozensets(st.sampled_from(items), min_size=1, max_size=count), max_size=12))
    broken = {held for held in broken if len(held) < count}
    answer, _ = drive(items, lambda held: "skip" if held in broken else "bad" if guilty <= held else "good")
    assert isinstance(answer, Culprits)
    assert guilty <= set(answer.items) <= guilty | set(answer.doubtful)
    assert answer.minimal == (not answer.doubtful)


def test_where_either_of_two_will_do_one_is_named() -> None:
    answer, _ = drive(names(8), lambda held: "bad" if held & {"p02", "p05"} else "good")
    assert isinstance(answer, Culprits)
    assert answer.items in {("p02",), ("p05",)}


def test_two_guilty_of_sixteen_take_about_half_the_runs_of_ddmin() -> None:
    counts = []
    for guilty in itertools.combinations(names(16), 2):
        answer, runs = drive(names(16), lambda held, guilty=guilty: "bad" if held.issuperset(guilty) else "good")
        assert isinstance(answer, Culprits)
        assert answer.items == guilty
        counts.append(runs)
    assert statistics.mean(counts) <= 9.5
    assert max(counts) <= 10


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ((lambda held: "good"), "with all items there is no fault"),
        ((lambda held: "bad"), "the fault is there without any item"),
        ((lambda held: "skip"), "with all items nothing can be told"),
    ],
)
def test_ends_that_are_not_what_they_must_be_are_told(answers: Callable[[Held], str], message: str) -> None:
    answer, _ = drive(names(4), answers)
    assert isinstance(answer, Contradiction)
    assert answer.message == message


def test_an_item_that_hides_the_fault_of_another_is_told() -> None:
    seen = {frozenset(names(4)): "bad", frozenset[str](): "good"}
    seen |= {frozenset({"p01"}): "bad", frozenset({"p01", "p02"}): "good"}
    answer = decide_subset(names(4), seen)  # type: ignore[arg-type]
    assert isinstance(answer, Contradiction)
    assert answer.message == "bad with p01, but good with p02 on top"


@pytest.mark.parametrize(
    ("items", "seen", "complaint"),
    [(["a", "a"], {}, "given twice"), (["a"], {frozenset({"b"}): "good"}, "b was observed")],
)
def test_items_that_are_no_set_are_refused(items: list[str], seen: dict[Held, str], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        decide_subset(items, seen)  # type: ignore[arg-type]
