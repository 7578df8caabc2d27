from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from patchkit.search.skips import testable as chances_of


def test_before_the_first_skip_everything_can_be_tested() -> None:
    assert chances_of(3, {1: False}) == [1.0, 1.0, 1.0]


@given(st.dictionaries(st.integers(0, 39), st.booleans()))
def test_a_chance_is_a_probability_and_certain_where_it_is_known(known: dict[int, bool]) -> None:
    chances = chances_of(40, known)
    assert all(0 <= chance <= 1 for chance in chances)
    if any(known.values()):
        assert all(chances[at] == (0 if skipped else 1) for at, skipped in known.items())


def test_the_chance_grows_with_the_distance_from_a_skip() -> None:
    chances = chances_of(100, {50: True})
    assert chances[50:] == sorted(chances[50:])
    assert chances[:51] == sorted(chances[:51], reverse=True)


def test_between_two_skips_that_are_close_little_can_be_tested() -> None:
    chances = chances_of(100, {0: False, 48: True, 49: True, 50: True, 52: True, 99: False})
    assert chances[51] < chances[30]
