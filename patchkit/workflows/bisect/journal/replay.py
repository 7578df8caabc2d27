"""Make every decision of a journal again: the same history and the same answers must ask for the same probes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from patchkit.search import CommitGraph, Probe
from patchkit.workflows.bisect.journal.events import Event, ask_event, result_event, running_in, view

COMPARED = ("nodes", "stage", "fresh")


@dataclass(frozen=True)
class Replay:
    """How many decisions were made again, and the first that came out otherwise: `line` of the journal, from 1."""

    decisions: int
    line: int = 0
    difference: str = ""

    @property
    def is_same(self) -> bool:
        """Return whether every decision came out as the journal has it."""
        return not self.difference


def replay(graph: CommitGraph, events: Sequence[Event]) -> Replay:
    """Decide again at every line that was a decision; stop at the first difference."""
    decisions, decided = 0, False  # since the search last learnt something
    for at, event in enumerate(events):
        kind, difference = event["event"], ""
        if kind in ("ask", "result"):
            difference = _compare(graph, events[:at], event)
            decisions, decided = decisions + 1, True
        elif kind in ("probe", "spoiled"):
            difference = _check_answer(graph, events[:at], event, decided)
            decisions, decided = decisions + (not decided), False
        elif kind == "cancelled":
            difference = _check_cancelled(graph, events[:at], event)
            decisions, decided = decisions + 1, False
        elif kind == "session":
            decided = False
        if difference:
            return Replay(decisions, at + 1, difference)
    return Replay(decisions)


def _compare(graph: CommitGraph, before: Sequence[Event], event: Event) -> str:
    """Return how a decision differs from the one that the journal has, '' when it does not."""
    made = _decide(graph, before)
    compared = COMPARED if made["event"] == "ask" else tuple(made)
    if made["event"] == event["event"] and all(made[name] == event.get(name) for name in compared):
        return ""
    return f"the journal has {_tell(event)}, now it is {_tell(made)}"


def _check_answer(graph: CommitGraph, before: Sequence[Event], event: Event, decided: bool) -> str:
    """Return what is wrong with an answer: nobody had asked, or more should have been asked before waiting for it."""
    if event["node"] not in running_in(before):
        return f"{event['node']} was probed although the journal has no question for it"
    if decided or event["node"] in view(graph, before).spent(graph):  # it was to be ended, and had ended by itself
        return ""
    made = _decide(graph, before)
    waits = made["event"] == "ask" and not made["nodes"]
    return "" if waits else f"the journal waits, now it is {_tell(made)}"


def _check_cancelled(graph: CommitGraph, before: Sequence[Event], event: Event) -> str:
    """Return what is wrong with a probe that was ended: it could still have told something."""
    spent = view(graph, before).spent(graph)
    return "" if event["node"] in spent else f"{event['node']} was cancelled although its answer was not known"


def _decide(graph: CommitGraph, before: Sequence[Event]) -> Event:
    """Return the event of the decision that is made after these events."""
    decision = view(graph, before).decide(graph)
    if isinstance(decision, Probe):
        return ask_event(decision)
    return result_event(decision)


def _tell(event: Event) -> str:
    if event["event"] == "ask":
        again = ", fresh" if event["fresh"] else ""
        return f"{event['stage']}{again}: {' '.join(_short(node) for node in event['nodes']) or 'nothing'}"
    named: list[Any] = [node for node, _ in event.get("candidates", ())] or event.get("nodes", [])
    state = event.get("message") or ("confirmed" if event.get("confirmed") else "suspects")
    return f"the answer ({state}): {' '.join(_short(node) for node in named)}"


def _short(node: str) -> str:
    return node[:12]
