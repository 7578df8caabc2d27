"""The events of a bisect, as documents (JSON Lines) and as lines for people made from those documents."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from patchkit.report.text import flatten, seconds
from patchkit.search import Answer, Contradiction
from patchkit.search.decision import count_steps
from patchkit.tools.git.objects import COMMITTER, CommitRecord
from patchkit.verdict.verdict import Verdict

FIDELITY = {
    "real": "the real fault on the real code",
    "stubbed": "the real code, with stand-ins for what this machine lacks",
    "static": "the code was read, not run",
    "needs-gpu": "needs a GPU",
}
_SERIES = {"with": "with the series", "without": "without the series", "others": "with the series' other patches"}
Document = Mapping[str, Any]


@dataclass(frozen=True)
class Tally:
    """What a bisect took, earlier sessions included. `builds` counts native builds."""

    probes: int
    nodes: int
    builds: int


def probe_document(node: str, verdict: Verdict, *, stage: str, fresh: bool) -> dict[str, Any]:
    """Return the event of a finished probe; the same keys go into the journal."""
    return {
        "event": "probe",
        "node": node,
        "commit": verdict.commit,
        "tree": verdict.tree,
        "answer": verdict.answer.value,
        "reason": verdict.reason.value,
        "detail": verdict.detail,
        "duration_seconds": round(verdict.duration_seconds, 3),
        "evidence": verdict.evidence,
        "reused": verdict.reused,
        "stage": stage,
        "fresh": fresh,
    }


def answer_document(
    answer: Answer | Contradiction, commits: Mapping[str, str], culprit: CommitRecord | None, tally: Tally
) -> dict[str, Any]:
    """Return the last event: what was found. `commits` maps nodes to ids; `culprit` describes the first bad one."""
    found = answer if isinstance(answer, Answer) else Answer((), "", "", (), confirmed=False)
    first_bad = found.first_bad
    return {
        "event": "result",
        "first_bad": first_bad,
        "first_bad_commit": commits.get(first_bad or ""),
        "last_good": found.last_good or None,
        "last_good_commit": commits.get(found.last_good),
        "candidates": [
            {"node": suspect.node, "commit": commits.get(suspect.node), "probability": round(suspect.probability, 6)}
            for suspect in found.candidates
        ],
        "skipped": list(found.skipped),
        "confirmed": found.confirmed,
        "probes": tally.probes,
        "nodes": tally.nodes,
        "builds": tally.builds,
        "culprit": None if culprit is None else _describe(culprit),
        "message": answer.message if isinstance(answer, Contradiction) else answer.detail,
        "hint": answer.hint if isinstance(answer, Contradiction) else "",
    }


def event_text(event: Document) -> str:
    """Return an event as lines for people."""
    texts = {"start": _start_text, "probe": _probe_text, "step": _step_text, "result": _result_text}
    return texts[event["event"]](event)


def _start_text(event: Document) -> str:
    known = f"; {event['known']} probes known from before" if event["known"] else ""
    return (
        f"bisect {event['issue']}/{event['repro']} ({event['fidelity']}, {_SERIES[event['series']]}): "
        f"{_count(event['commits'], event['axis'])} after {event['good']} (good) up to {event['bad']} (bad){known}"
    )


def _probe_text(event: Document) -> str:
    parts = [f"  {_short(event['node']):<12}", f"{event['answer']:<4}", f"{event['reason']:<14}"]
    parts.append(f"{'known' if event['reused'] else seconds(event['duration_seconds']):>8}")
    if event["stage"] == "confirm":
        parts.append("  once more")
    elif event["stage"] == "search":
        steps = count_steps(event["left"])
        parts.append(f"  {event['left']} left" + (f", about {steps} step{'s' * (steps != 1)}" if steps else ""))
    detail = f"  {flatten(event['detail'])}" if event["answer"] == "skip" else ""
    return "  ".join(parts) + detail


def _step_text(event: Document) -> str:
    """Tell an answer inside which the search goes on."""
    return "\n".join([*_found_lines(event), "inside it:"])


def _result_text(event: Document) -> str:
    if event["candidates"]:
        lines = _found_lines(event) if event["first_bad"] else _suspect_lines(event)
    else:
        message = re.sub(r"\b([0-9a-f]{12})[0-9a-f]{28}\b", r"\1", event["message"])
        lines = [message, f"hint: {event['hint']}"]
    lines.append(f"{_plural(event['probes'], 'probe')} of {_count(event['nodes'], event['axis'])}")
    if event.get("note"):
        lines.append(f"note: {event['note']}")
    if event.get("inside"):
        inner = {**event["inside"], "next": ""}
        lines += [
            f"inside it, {event['inside']['upstream']}:",
            *(f"    {line}" for line in _result_text(inner).split("\n")),
        ]
    if event.get("next"):
        lines.append(f"next: {event['next']}")
    return "\n".join(lines)


def _found_lines(event: Document) -> list[str]:
    kind, culprit = event["axis"].removesuffix("s"), event["culprit"]
    state = "confirmed" if event["confirmed"] else f"not confirmed: {event['message']}"
    lines = [f"{event['first_bad']} is the first bad {kind} ({state}); last good: {event['last_good']}"]
    if culprit:
        author = f"{flatten(culprit['author'])}, " if culprit["author"] else ""
        lines += [f"    {flatten(culprit['subject'])}", f"    {author}{culprit['date']}"]
    lines.append(f"fidelity: {event['fidelity']} ({FIDELITY[event['fidelity']]})")
    return lines


def _suspect_lines(event: Document) -> list[str]:
    kind, skipped = event["axis"], set(event["skipped"])
    lines = [f"{event['message']}; the first bad one is among {_count(len(event['candidates']), kind)}:"]
    for suspect in event["candidates"]:
        lines.append(f"    {suspect['node']}" + ("  (skipped)" if suspect["node"] in skipped else ""))
    return [*lines, f"last good: {event['last_good']}"]


def _describe(culprit: CommitRecord) -> dict[str, Any]:
    """Describe a commit; one that patchkit made from an sdist has no author."""
    date = time.strftime("%Y-%m-%d", time.gmtime(culprit.author_time))
    return {
        "subject": culprit.subject,
        "author": None if culprit.author == COMMITTER else culprit.author[0],
        "date": date,
    }


def _short(node: str) -> str:
    return node[:12] if len(node) == 40 and set(node) <= set("0123456789abcdef") else node


def _count(number: int, kind: str) -> str:
    return _plural(number, kind.removesuffix("s"))


def _plural(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"
