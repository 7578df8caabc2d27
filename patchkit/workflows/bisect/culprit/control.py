"""When a culprit or its parent was told with a fix-up: does the other answer the same with it?

A fix-up that brings the fault itself makes the first commit that it is carried onto look guilty. So the culprit and its
parents are compared on equal terms: each is judged with every fix-up that one of the others was told with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from patchkit.errors import StoreFailure
from patchkit.search import CommitGraph, Settings
from patchkit.verdict.verdict import Reason
from patchkit.workflows.bisect.culprit.trial import count_reverts, fix_ups_of
from patchkit.workflows.bisect.holes import FixUp, judge_with, lacks, name_fix_up
from patchkit.workflows.bisect.journal.events import Event
from patchkit.workflows.bisect.subject import CommitSubject, Subject


@dataclass(frozen=True)
class Control:
    """A node with a fix-up that it did not need; `expected` is its answer without."""

    node: str
    fix_up: FixUp
    expected: str


def find_controls(subject: Subject, events: Sequence[Event], culprit: str) -> tuple[Control, ...]:
    """Return what is to be compared; nothing where no fix-up took part."""
    if not isinstance(subject, CommitSubject) or not subject.fix_ups:
        return ()
    parents = subject.graph.parents.get(culprit, ())
    told = {node: fix_ups_of(events, node) for node in (culprit, *parents)}
    carried = dict.fromkeys(one for seen in told.values() for one in seen if one)
    found = []
    for node, seen in told.items():
        for fix_up in carried:
            missing = lacks(subject, subject.source.resolve(node), fix_up)
            if missing and missing not in seen:
                found.append(Control(node, missing, "bad" if node == culprit else "good"))
    return tuple(dict.fromkeys(found))


def count_controls(graph: CommitGraph, events: Sequence[Event], control: Control, settings: Settings) -> int:
    """Return how many runs a control wants besides those of the journal; one where verdicts hold.

    Where runs may err a bad one ends it: it is the one that is seldom wrong.
    """
    answers = [event["answer"] for event in control_events(events, control)]
    if any(answer != "good" for answer in answers):
        return 0
    return max(count_reverts(graph, events, control.node, settings) - len(answers), 0)


def control_events(events: Sequence[Event], control: Control) -> list[Event]:
    """Return the events of one control."""
    return [
        event
        for event in events
        if event["event"] == "control" and event["node"] == control.node and tuple(event["fix_up"]) == control.fix_up
    ]


def judge_control(subject: CommitSubject, control: Control) -> tuple[dict[str, Any], bool]:
    """Return the event of a run, and whether it is to be kept: what the machine spoiled is tried again."""
    event = {"event": "control", "node": control.node, "fix_up": list(control.fix_up), "expected": control.expected}
    try:
        verdict = judge_with(subject, subject.source.resolve(control.node), control.fix_up, subject.flaky)
    except StoreFailure as error:
        spoiled = {"answer": "skip", "reason": Reason.INFRASTRUCTURE.value, "detail": error.message, "evidence": None}
        return {**event, **spoiled, "duration_seconds": 0.0}, False
    told = {
        "answer": verdict.answer.value,
        "reason": verdict.reason.value,
        "detail": verdict.detail,
        "evidence": verdict.evidence,
        "duration_seconds": round(verdict.duration_seconds, 3),
    }
    return {**event, **told}, verdict.reason is not Reason.INFRASTRUCTURE


def find_false_fix_up(events: Sequence[Event], controls: Sequence[Control]) -> str:
    """Return what a control says against the answer; '' when none does."""
    for control in controls:
        answers = [event["answer"] for event in control_events(events, control)]
        told = next((answer for answer in ("bad", "skip", "good") if answer in answers), "skip")
        if told not in (control.expected, "skip"):
            node, name = control.node[:12], name_fix_up(control.fix_up)
            turned = "brings the fault" if told == "bad" else "mends it"
            return f"{node} is {control.expected}, but {told} with {name} carried onto it: that itself {turned}"
    return ""


def find_unproven(events: Sequence[Event], controls: Sequence[Control]) -> list[dict[str, Any]]:
    """Return a warning for each control that said nothing; none where those of the other side said all.

    The culprit and a parent need one fix-up in common: what each was told with besides need not fit the other.
    """
    runs = {control: control_events(events, control) for control in controls}
    sides: dict[str, list[bool]] = {}
    for control, seen in runs.items():
        sides.setdefault(control.expected, []).append(bool(seen) and all(e["answer"] == control.expected for e in seen))
    found = []
    for control in controls:
        skip = next((event for event in runs[control] if event["answer"] == "skip"), None)
        other = sides.get({"bad": "good", "good": "bad"}[control.expected], [])
        if skip and not (other and all(other)):
            why = f"{skip['reason']}: {skip['detail']}"
            message = (
                f"{control.node[:12]} cannot be told with {name_fix_up(control.fix_up)} ({why}): whether that fix-up "
                "is innocent is not known"
            )
            found.append({"kind": "fix-up-unproven", "message": message, "commits": [control.node, *control.fix_up]})
    return found
