from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchkit.search import fold

PROBES = st.builds(
    lambda node, answer, fresh: {"event": "probe", "node": node, "answer": answer, "fresh": fresh},
    st.sampled_from("abc"),
    st.sampled_from(["good", "bad", "skip"]),
    st.booleans(),
)


@given(st.lists(PROBES))
def test_every_probe_is_in_the_state_once_and_in_order(events: list[dict[str, object]]) -> None:
    state = fold(events)
    assert state.runs == len(events)
    for node in "abc":
        seen = [run.answer for run in state.observations.get(node, ())]
        assert seen == [event["answer"] for event in events if event["node"] == node]


def test_events_that_are_no_probes_say_nothing() -> None:
    assert fold([{"event": "start", "node": "a"}, {"event": "result"}]).runs == 0


@pytest.mark.parametrize(
    "event", [{"event": "probe", "answer": "good"}, {"event": "probe", "node": "a", "answer": "maybe"}]
)
def test_a_probe_without_node_or_answer_is_refused(event: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="not a probe"):
        fold([event])


def test_a_node_with_a_skip_and_a_verdict_is_not_skipped() -> None:
    events = [{"event": "probe", "node": "a", "answer": "skip"}, {"event": "probe", "node": "b", "answer": "skip"}]
    assert fold([*events, {"event": "probe", "node": "a", "answer": "bad"}]).skipped == ("b",)
