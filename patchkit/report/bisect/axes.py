"""What is said of a bisect on some axes only: the trees of a pair, and the patches of a series."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchkit.report.text import flatten, seconds
from patchkit.search.decision import count_steps

Document = Mapping[str, Any]
NOUNS = {"commits": "commit", "releases": "release", "pair": "commit"}


def noun_of(axis: str) -> str:
    """Return what lies on an axis, one of it."""
    return NOUNS.get(axis, "version")


def pair_lines(event: Document) -> list[str]:
    """Return what the culprit and its parent are paired with: one line when that is the same, else both."""
    pair = event.get("pair")
    if not pair or not pair["culprit"]:
        return []
    before, culprit, name = pair["before"], pair["culprit"], pair["upstream"]
    if before and before["commit"] == culprit["commit"]:
        return [f"with {name} {_name(culprit)} before and after ({culprit['place']})"]
    moved = f"it moves {name} from {_name(before)} to" if before else f"with {name}"
    return [f"{moved} {_name(culprit)} ({culprit['place']}: {flatten(culprit['text'])})"]


def fixed_text(event: Document) -> str:
    """Return at which commit of the other upstream a range is searched, '' where none is fixed."""
    fixed = event.get("fixed")
    carried = "+".join(one[:12] for one in fixed.get("fix_up", ())) if fixed else ""
    mended = f" with {carried}" if carried else ""
    return f", at {fixed['upstream']} {fixed['commit'][:12]}{mended}" if fixed else ""


def patches_text(event: Document) -> str:
    """Return an event of the axis `patches` as lines for people."""
    return {"start": _start_text, "probe": _probe_text, "result": _result_text}[event["event"]](event)


def patches_log_text(event: Document) -> str:
    """Return an event of the journal of the axis `patches` as lines, '' for one that says nothing to people."""
    if event["event"] == "end":
        return _result_text(event["document"])
    if event["event"] == "confirm":
        return f"  {event['answer']:<4}  once more      {' + '.join(event['holds'])}"
    told = {"start": lambda event: _start_text({**event, "known": 0}), "probe": _probe_text, "spoiled": _probe_text}
    return told[event["event"]](event) if event["event"] in told else ""


def _start_text(event: Document) -> str:
    known = f"; {event['known']} sets known from before" if event["known"] else ""
    names = event["patches"]
    return (
        f"bisect {event['issue']}/{event['repro']} ({event['fidelity']}): which of {len(names)} patches bring it"
        f" at {event['at']}: {', '.join(names)}{known}"
    )


def _probe_text(event: Document) -> str:
    took = "known" if event["reused"] else seconds(event["duration_seconds"])
    steps = count_steps(event["left"]) if event.get("left") else 0
    left = f"  {event['left']} left" if steps else ""
    detail = f"  {flatten(event['detail'])}" if event["answer"] == "skip" else ""
    return f"  {event['answer']:<4}  {event['reason']:<14}  {took:>8}  {event['node']}{left}{detail}"


def _result_text(event: Document) -> str:
    if not event["culprits"]:
        return f"{event['message']}\nhint: {event['hint']}"
    guilty = ", ".join(event["culprits"])
    word = "brings" if len(event["culprits"]) == 1 else "together bring"
    state = "confirmed" if event["confirmed"] else f"not confirmed{': ' if event['message'] else ''}{event['message']}"
    lines = [f"{guilty} {word} it ({state})", event["next"]]
    return "\n".join([*lines, f"{event['probes']} probes of {len(event['patches'])} patches"])


def _name(paired: Mapping[str, Any]) -> str:
    short = paired["commit"][:12]
    return short if paired["commit"].startswith(paired["ref"]) else f"{paired['ref']} ({short})"
