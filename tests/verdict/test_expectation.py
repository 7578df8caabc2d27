"""A repro that is good without the series proves nothing, and that is told as an error of the issue."""

from __future__ import annotations

import pytest

from patchkit.recipe.model import Expects
from patchkit.verdict.expectation import Fulfilment, judge_pair, judge_single
from patchkit.verdict.verdict import Answer, Reason, Series, Verdict

DEFAULT = Expects()
GUARD = Expects.model_validate({"without": "good", "with": "good"})
REASONS = {"good": Reason.PASSED, "bad": Reason.SIGNATURE, "skip": Reason.UNDECIDED}


def verdict(series: Series, answer: str, reason: Reason | None = None) -> Verdict:
    return Verdict(
        issue="an-issue",
        repro="only",
        at="v1.0",
        commit="c",
        tree="t",
        series=series,
        answer=Answer(answer),
        reason=reason or REASONS[answer],
        detail="said so",
        fidelity="real",
        duration_seconds=1.0,
        evidence=None,
    )


@pytest.mark.parametrize(
    ("expects", "without", "with_", "fulfilment", "problems"),
    [
        (DEFAULT, "bad", "good", Fulfilment.AS_EXPECTED, 0),
        (DEFAULT, "bad", "bad", Fulfilment.NOT_AS_EXPECTED, 0),
        (DEFAULT, "good", "good", Fulfilment.NOT_AS_EXPECTED, 1),
        (DEFAULT, "good", "bad", Fulfilment.NOT_AS_EXPECTED, 0),
        (DEFAULT, "skip", "good", Fulfilment.CANNOT_TELL, 0),
        (DEFAULT, "bad", "skip", Fulfilment.CANNOT_TELL, 0),
        (GUARD, "good", "good", Fulfilment.AS_EXPECTED, 0),
        (GUARD, "good", "bad", Fulfilment.NOT_AS_EXPECTED, 0),
        (GUARD, "bad", "good", Fulfilment.NOT_AS_EXPECTED, 0),
    ],
)
def test_a_pair_of_answers(expects: Expects, without: str, with_: str, fulfilment: Fulfilment, problems: int) -> None:
    judgement = judge_pair(expects, verdict("without", without), verdict("with", with_))
    assert judgement.fulfilment is fulfilment
    assert len(judgement.problems) == problems


def test_the_message_says_that_it_proves_nothing_and_where() -> None:
    (problem,) = judge_pair(DEFAULT, verdict("without", "good"), verdict("with", "good")).problems
    assert str(problem) == "an-issue/only: good without the series: it proves nothing at v1.0"
    assert "affects" in problem.hint


def test_still_bad_is_told_as_that() -> None:
    note = judge_pair(DEFAULT, verdict("without", "bad"), verdict("with", "bad")).note
    assert note == "still bad with the series at v1.0, good is expected"


def test_a_commit_without_the_feature_is_no_error_of_the_issue() -> None:
    absent = verdict("without", "good", Reason.ABSENT)
    judgement = judge_pair(DEFAULT, absent, verdict("with", "good", Reason.ABSENT))
    assert judgement.fulfilment is Fulfilment.NOT_THERE
    assert judgement.note == "the issue is not there at v1.0: said so"


@pytest.mark.parametrize(
    ("affected", "fulfilment"),
    [(False, Fulfilment.NOT_THERE), (True, Fulfilment.NOT_AS_EXPECTED), (None, Fulfilment.NOT_AS_EXPECTED)],
)
def test_good_without_the_series_is_right_where_affects_says_no(affected: bool | None, fulfilment: Fulfilment) -> None:
    judgement = judge_pair(DEFAULT, verdict("without", "good"), verdict("with", "good"), affected)
    assert judgement.fulfilment is fulfilment


def test_a_repro_that_loaded_nothing_is_an_error_of_the_issue_whatever_else() -> None:
    blank = verdict("without", "skip", Reason.NOTHING_LOADED)
    judgement = judge_pair(DEFAULT, blank, verdict("with", "skip", Reason.NOTHING_LOADED))
    assert judgement.fulfilment is Fulfilment.NOT_AS_EXPECTED
    assert judgement.problems[0].message == "said so at v1.0 (without and with the series)"
    assert judge_single(blank).fulfilment is Fulfilment.CANNOT_TELL
    assert len(judge_single(blank).problems) == 1
    assert judge_single(verdict("with", "bad")).problems == ()
