from __future__ import annotations

import json

import pytest

from patchkit.report.json import (
    pair_document,
    read_pair,
    read_verdict,
    series_document,
    transition_document,
    verdict_document,
)
from patchkit.stack.outcome import Outcome, PatchRecord, SeriesResult
from tests.report.pictures import NASTY, SAID, make_report, pair, verdict


@pytest.mark.parametrize("said", SAID)
def test_a_verdict_is_read_as_it_was_written_but_for_being_known_now(said: str) -> None:
    from dataclasses import replace

    one = verdict(said, "with", "v1", detail=NASTY)
    assert read_verdict(json.loads(json.dumps(verdict_document(one)))) == replace(one, reused=True)


def test_a_pair_goes_out_and_in() -> None:
    both = pair(("bad", "conflict"), "v1")
    assert read_pair(pair_document(both)).findings == both.findings


@pytest.mark.parametrize("document", [{}, {"answer": "perhaps"}, {"answer": "good", "reason": "passed", "more": 1}])
def test_what_is_no_verdict_is_refused(document: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        read_verdict(document)


def test_a_series_that_does_not_stand_has_no_tree() -> None:
    record = PatchRecord("guard", Outcome.CONFLICT, "exact", "no such line", (), "0" * 64)
    assert series_document(SeriesResult((record,), None)) == {
        "base": None,
        "tree": None,
        "series": [
            {
                "patch": "guard",
                "outcome": "conflict",
                "method": "exact",
                "detail": "no such line",
                "files": [],
                "sha256": "0" * 64,
                "removable": None,
            }
        ],
    }


def test_a_transition_says_what_was_without_and_with_the_series() -> None:
    document = transition_document(make_report().transitions[0])
    assert {name: document[name] for name in ("event", "before", "at", "transition", "patched", "without", "with")} == {
        "event": "transition",
        "before": "v0.25.1",
        "at": "v0.26.0",
        "transition": "newly-bad",
        "patched": True,
        "without": "bad",
        "with": "good",
    }
    json.dumps(document)
