"""Results as JSON-like documents: the keys are a contract, `format` is added where a document is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchkit.source.commit import Tree
from patchkit.stack.outcome import PatchRecord, SeriesResult
from patchkit.verdict.transition import Transition, VerdictPair
from patchkit.verdict.verdict import Answer, Reason, Verdict


def series_document(result: SeriesResult, base: Tree | None = None) -> dict[str, Any]:
    """Return `base: {commit, tree}, tree, series: […]`; `tree` is null when a patch does not stand.

    `base` names the tree that was patched, which a result that does not stand cannot tell.
    """
    if base is None and result.patched is not None:
        base = result.patched.base
    return {
        "base": None if base is None else {"commit": base.commit.id, "at": base.commit.name, "tree": base.id},
        "tree": None if result.patched is None else result.patched.id,
        "series": [record_document(record) for record in result.records],
    }


def record_document(record: PatchRecord) -> dict[str, Any]:
    """Return what became of one patch."""
    return {
        "patch": record.patch,
        "outcome": record.outcome.value,
        "method": record.method,
        "detail": record.detail,
        "files": list(record.files),
        "sha256": record.sha256,
        "removable": record.removable or None,
    }


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    """Return one verdict; `evidence` is the folder of the log, or null when nothing ran."""
    return {
        "issue": verdict.issue,
        "repro": verdict.repro,
        "at": verdict.at,
        "commit": verdict.commit,
        "tree": verdict.tree,
        "series": verdict.series,
        "answer": verdict.answer.value,
        "reason": verdict.reason.value,
        "detail": verdict.detail,
        "fidelity": verdict.fidelity,
        "duration_seconds": round(verdict.duration_seconds, 3),
        "evidence": verdict.evidence,
        "reused": verdict.reused,
    }


def read_verdict(document: Mapping[str, Any]) -> Verdict:
    """Return the verdict that `verdict_document` wrote. Raises `KeyError`, `TypeError` or `ValueError` else."""
    known = {**document, "answer": Answer(document["answer"]), "reason": Reason(document["reason"]), "reused": True}
    return Verdict(**known)


def transition_document(transition: Transition) -> dict[str, Any]:
    """Return one change of an issue, as an event of `watch`."""
    without, with_series = transition.pair.without, transition.pair.with_series
    return {
        "event": "transition",
        "issue": transition.issue,
        "repro": transition.repro,
        "before": transition.before,
        "at": transition.at,
        "commit": without.commit,
        "transition": transition.change.value,
        "patched": transition.patched,
        "without": without.answer.value,
        "with": with_series.answer.value,
        "reasons": {"without": without.reason.value, "with": with_series.reason.value},
        "fidelity": without.fidelity,
        "detail": transition.detail,
        "evidence": {"without": without.evidence, "with": with_series.evidence},
    }


def pair_document(pair: VerdictPair) -> dict[str, Any]:
    """Return the verdicts without and with the series."""
    return {"without": verdict_document(pair.without), "with": verdict_document(pair.with_series)}


def read_pair(document: Mapping[str, Any]) -> VerdictPair:
    """Return the pair that `pair_document` wrote. Raises as `read_verdict` does."""
    return VerdictPair(read_verdict(document["without"]), read_verdict(document["with"]))
