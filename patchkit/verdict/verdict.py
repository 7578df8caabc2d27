"""The verdict on one repro at one commit: what bisect, watch and people decide with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

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
    SIGNATURE = "signature"  # bad: failed as the issue does
    OTHER_FAILURE = "other-failure"  # skip: failed, but not as the issue does
    UNDECIDED = "undecided"  # skip: the repro said so (exit 125)
    FLAKY = "flaky"  # skip: repeats disagree
    TIMEOUT = "timeout"
    CONFLICT = "conflict"  # skip: the series does not apply
    BUILD_FAILED = "build-failed"
    INFRASTRUCTURE = "infrastructure"
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
