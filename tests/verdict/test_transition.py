from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.verdict.transition import Change, Finding, VerdictPair, judge_transition, turned
from patchkit.verdict.verdict import Answer, Reason, Series, Verdict

SAID = {
    "good": (Answer.GOOD, Reason.PASSED),
    "absent": (Answer.GOOD, Reason.ABSENT),
    "bad": (Answer.BAD, Reason.SIGNATURE),
    "conflict": (Answer.SKIP, Reason.CONFLICT),
    "unknown": (Answer.SKIP, Reason.TIMEOUT),
}
WITHOUT = ("good", "absent", "bad", "unknown")  # nothing is applied, so nothing conflicts
PAIRS = list(itertools.product(WITHOUT, SAID))


def verdict(said: str, series: Series, at: str) -> Verdict:
    answer, reason = SAID[said]
    return Verdict("issue", "repro", at, "c" * 40, "", series, answer, reason, said, "static", 0.0, None)


def pair(words: tuple[str, str], at: str = "v2") -> VerdictPair:
    return VerdictPair(verdict(words[0], "without", at), verdict(words[1], "with", at))


@pytest.mark.parametrize(
    ("before", "after", "change", "patched"),
    [
        (("good", "good"), ("bad", "good"), Change.NEWLY_BAD, True),
        (("absent", "absent"), ("bad", "good"), Change.NEWLY_BAD, True),
        (("good", "good"), ("bad", "bad"), Change.NEWLY_BAD, False),
        (("bad", "good"), ("bad", "good"), Change.STILL_BAD, True),
        (("bad", "good"), ("bad", "bad"), Change.STILL_BAD, False),
        (("unknown", "good"), ("bad", "good"), Change.NEWLY_BAD, True),
        (("bad", "good"), ("good", "good"), Change.FIXED_UPSTREAM, False),
        (("good", "good"), ("good", "good"), Change.STILL_GOOD, False),
        (("good", "good"), ("absent", "absent"), Change.ABSENT, False),
        (("good", "good"), ("good", "bad"), Change.NEWLY_BAD, False),
        (("good", "bad"), ("good", "bad"), Change.STILL_BAD, False),
        (("bad", "good"), ("bad", "conflict"), Change.CONFLICT, False),
        (("good", "good"), ("good", "conflict"), Change.CONFLICT, False),
        (("good", "good"), ("unknown", "good"), Change.CANNOT_TELL, False),
        (("bad", "good"), ("bad", "unknown"), Change.CANNOT_TELL, False),
        (("good", "good"), ("unknown", "bad"), Change.NEWLY_BAD, False),
    ],
)
def test_two_pairs_of_verdicts_have_one_name(
    before: tuple[str, str], after: tuple[str, str], change: Change, patched: bool
) -> None:
    transition = judge_transition(pair(before, "v1"), pair(after))
    assert (transition.change, transition.patched) == (change, patched)
    assert (transition.before, transition.at) == ("v1", "v2")


@given(st.sampled_from(PAIRS), st.sampled_from(PAIRS))
def test_a_fault_that_nobody_heals_and_a_conflict_are_always_alarming(
    before: tuple[str, str], after: tuple[str, str]
) -> None:
    transition = judge_transition(pair(before, "v1"), pair(after))
    assert transition.alarming == (after[1] in {"bad", "conflict"})
    assert not (transition.alarming and transition.patched)
    assert not (transition.patched and after[0] != "bad")


@given(st.sampled_from(PAIRS))
def test_nothing_turns_against_itself_and_absent_is_as_good_as_good(words: tuple[str, str]) -> None:
    assert not turned(pair(words), pair(words))
    swapped = ("good" if words[0] == "absent" else words[0], "good" if words[1] == "absent" else words[1])
    assert not turned(pair(words), pair((swapped[0], swapped[1])))


@pytest.mark.parametrize(
    ("before", "after", "differs"),
    [
        (("good", "good"), ("bad", "good"), True),
        (("bad", "good"), ("bad", "conflict"), True),
        (("bad", "unknown"), ("bad", "good"), False),
        (("unknown", "good"), ("bad", "bad"), True),
        (("unknown", "unknown"), ("bad", "good"), False),
    ],
)
def test_what_is_unknown_is_no_difference(before: tuple[str, str], after: tuple[str, str], differs: bool) -> None:
    assert turned(pair(before), pair(after)) is differs
    assert turned(pair(after), pair(before)) is differs


def test_a_series_that_breaks_what_upstream_has_right_says_so() -> None:
    assert judge_transition(pair(("good", "good")), pair(("good", "bad"))).detail == "the series itself makes it bad"


def test_findings_tell_conflict_from_what_could_not_be_told() -> None:
    assert pair(("unknown", "conflict")).findings == (Finding.UNKNOWN, Finding.CONFLICT)
