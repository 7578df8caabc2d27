"""The verdict on one repro at one commit: what bisect, watch and people decide with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Literal

from patchkit.recipe.model import Fidelity

Series = Literal["with", "without", "others"]  # others: all patches but those that name the issue as theirs


class Answer(StrEnum):
    """good: the issue is not there. bad: it is, with its signature. skip: cannot be told here."""

    GOOD = "good"
    BAD = "bad"
    SKIP = "skip"


class Reason(StrEnum):
    """Why a verdict is what it is."""

    PASSED = "passed"
    ABSENT = "absent"  # good: the feature is not there yet
    METRIC = "metric"  # good or bad: on that side of the metric's threshold
    SIGNATURE = "signature"  # bad: failed as the issue does
    OTHER_FAILURE = "other-failure"  # skip: failed, but not as the issue does
    UNDECIDED = "undecided"  # skip: the repro said so (exit 125)
    FLAKY = "flaky"  # skip: repeats disagree
    TIMEOUT = "timeout"
    CONFLICT = "conflict"  # skip: the series does not apply
    BUILD_FAILED = "build-failed"
    INFRASTRUCTURE = "infrastructure"
    NO_PAIR = "no-pair"  # skip: the commit names no commit of the paired upstream that is there
    NOTHING_LOADED = "nothing-loaded"  # skip: the repro read no file of the tree, so it proves nothing


@dataclass(frozen=True)
class Verdict:
    """One repro at one commit. `evidence` is the folder with log and record (None when nothing ran)."""

    issue: str
    repro: str
    at: str
    commit: str
    tree: str  # the patched tree's id; empty when the series does not apply
    series: Series
    answer: Answer
    reason: Reason
    detail: str
    fidelity: Fidelity
    duration_seconds: float
    evidence: str | None
    reused: bool = False  # from the store, not run now
    pair: str | None = None  # the commit of the paired upstream, where the repro asks for one
    value: float | None = None  # what a metric repro measured: the mean of its runs
    fix_up: tuple[str, ...] = ()  # commits carried onto this one, which cannot be told without them
    build: str | None = None  # the key of the compiled files that it ran with, where there are some
    build_seconds: float = 0.0  # what they cost to make; 0 when they were there


def to_record(verdict: Verdict) -> dict[str, Any]:
    """Return what the store keeps of a verdict: all that does not come from the question."""
    names = ("tree", "answer", "reason", "detail", "duration_seconds", "evidence", "build", "value")
    return {name: getattr(verdict, name) for name in names}


def recall(blank: Verdict, record: Mapping[str, Any]) -> Verdict:
    """Return the verdict that the store has for a question; `blank` is one with the question and no answer."""
    return replace(
        blank,
        tree=record["tree"],
        answer=Answer(record["answer"]),
        reason=Reason(record["reason"]),
        detail=record["detail"],
        duration_seconds=record["duration_seconds"],
        evidence=record["evidence"],
        build=record.get("build"),
        value=record.get("value"),
        reused=True,
    )
