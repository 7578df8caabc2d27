from __future__ import annotations

import pytest

from patchkit.search import Clues, Settings, believe, build_chain, favour, fold, missing_bits

GRAPH = build_chain(["good", "a", "b", "c", "d"])
ENDS = [{"event": "probe", "node": "d", "answer": "bad"}, {"event": "probe", "node": "good", "answer": "good"}]


def test_before_a_search_every_suspect_is_as_likely_as_its_prior() -> None:
    assert believe(GRAPH, fold(ENDS), Settings()) == (0.25, 0.25, 0.25, 0.25)
    weighed = believe(GRAPH, fold(ENDS), Settings(prior=favour(GRAPH, Clues(["b"]))))
    assert weighed[1] == pytest.approx(0.85)
    assert sum(weighed) == pytest.approx(1)


def test_what_a_verdict_clears_is_no_suspect_any_more() -> None:
    seen = fold([*ENDS, {"event": "probe", "node": "b", "answer": "good"}])
    assert believe(GRAPH, seen, Settings()) == (0, 0, 0.5, 0.5)
    both = fold(
        [*ENDS, {"event": "probe", "node": "a", "answer": "bad"}, {"event": "probe", "node": "d", "answer": "good"}]
    )
    assert believe(GRAPH, both, Settings()) == (0, 0, 0, 0)


def test_with_flaky_runs_the_rest_to_one_is_a_wrong_end() -> None:
    belief = believe(GRAPH, fold(ENDS), Settings(flaky=True))
    assert 0.9 < sum(belief) < 1


def test_bits_are_what_is_missing_to_certainty() -> None:
    assert missing_bits((0.25,) * 4) == 2
    assert missing_bits((0, 1, 0)) == 0
