"""The events of a bisect as documents: JSON Lines for programs, and what the journal keeps."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from patchkit.search import Answer, Contradiction
from patchkit.tools.git.objects import COMMITTER, CommitRecord
from patchkit.verdict.expectation import READ_THE_TREE
from patchkit.verdict.verdict import Reason, Verdict


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
        "value": verdict.value,
        "fix_up": list(verdict.fix_up),
        "build": verdict.build,
        "build_seconds": round(verdict.build_seconds, 1),
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


def untold_end(answer: Contradiction, events: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return message and hint with what the probe of an end said that cannot be told; nothing for other answers."""
    probes = [one for one in events if one["event"] in ("probe", "spoiled") and one["node"] in answer.nodes]
    if len(answer.nodes) != 1 or not probes or probes[-1]["answer"] != "skip":
        return {}
    last = probes[-1]
    hint = READ_THE_TREE if last["reason"] == Reason.NOTHING_LOADED else answer.hint
    return {"message": f"{answer.message}: {last['detail']}" if last["detail"] else answer.message, "hint": hint}


def _describe(culprit: CommitRecord) -> dict[str, Any]:
    """Describe a commit; one that patchkit made from an sdist has no author."""
    date = time.strftime("%Y-%m-%d", time.gmtime(culprit.author_time))
    return {
        "subject": culprit.subject,
        "author": None if culprit.author == COMMITTER else culprit.author[0],
        "date": date,
        "merge": len(culprit.parents) > 1,
    }
