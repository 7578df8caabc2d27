"""What became of an issue between two commits: a pure function of the verdicts without and with the series at each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from patchkit.verdict.verdict import Answer, Reason, Verdict


class Change(StrEnum):
    """What is true at the newer commit, in the light of the older one."""

    STILL_GOOD = "still-good"
    STILL_BAD = "still-bad"
    NEWLY_BAD = "newly-bad"
    FIXED_UPSTREAM = "fixed-upstream"
    ABSENT = "absent"  # upstream does not have the feature
    CONFLICT = "conflict"  # the series does not apply
    CANNOT_TELL = "cannot-tell"


class Finding(StrEnum):
    """What one verdict says, as far as a transition needs to know."""

    GOOD = "good"
    ABSENT = "absent"
    BAD = "bad"
    CONFLICT = "conflict"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class VerdictPair:
    """The verdicts on one repro at one commit: on upstream's tree, and on the tree with the series."""

    without: Verdict
    with_series: Verdict

    @property
    def findings(self) -> tuple[Finding, Finding]:
        """Return what both say; good and absent differ here, `turned` treats them alike."""
        return find(self.without), find(self.with_series)


@dataclass(frozen=True)
class Transition:
    """The change at one commit, seen from an older one. `patched`: upstream is bad there and the series heals it."""

    issue: str
    repro: str
    before: str
    at: str
    change: Change
    patched: bool
    pair: VerdictPair
    detail: str = ""

    @property
    def alarming(self) -> bool:
        """Return whether somebody must act: bad with the series, or the series does not apply."""
        return self.change is Change.CONFLICT or self.pair.with_series.answer is Answer.BAD


def find(verdict: Verdict) -> Finding:
    """Return what a verdict says."""
    if verdict.reason is Reason.CONFLICT:
        return Finding.CONFLICT
    if verdict.answer is Answer.SKIP:
        return Finding.UNKNOWN
    if verdict.answer is Answer.BAD:
        return Finding.BAD
    return Finding.ABSENT if verdict.reason is Reason.ABSENT else Finding.GOOD


def turned(before: VerdictPair, after: VerdictPair) -> bool:
    """Return whether the commits differ in what matters: bad or not, applies or not. Unknown is no difference."""
    pairs = zip(before.findings, after.findings, strict=True)
    return any(Finding.UNKNOWN not in (old, new) and _plain(old) is not _plain(new) for old, new in pairs)


def judge_transition(before: VerdictPair, after: VerdictPair) -> Transition:
    """Return what changed from one commit to a newer one."""
    change, detail = _change(before, after)
    without, with_series = after.findings
    patched = without is Finding.BAD and with_series in (Finding.GOOD, Finding.ABSENT)
    verdict = after.without
    return Transition(verdict.issue, verdict.repro, before.without.at, verdict.at, change, patched, after, detail)


def _change(before: VerdictPair, after: VerdictPair) -> tuple[Change, str]:
    """Decide by the newer commit first: what does not apply or cannot be told there is that, whatever was before."""
    (was, was_with), (now, now_with) = before.findings, after.findings
    if now_with is Finding.CONFLICT:
        return Change.CONFLICT, after.with_series.detail
    if now_with is Finding.BAD and now is not Finding.BAD:
        change = Change.STILL_BAD if was_with is Finding.BAD else Change.NEWLY_BAD
        return change, "the series itself makes it bad" if now is not Finding.UNKNOWN else "bad with the series"
    if now is Finding.UNKNOWN or now_with is Finding.UNKNOWN:
        unknown = after.without if now is Finding.UNKNOWN else after.with_series
        return Change.CANNOT_TELL, f"{unknown.reason.value}: {unknown.detail}".rstrip(": ")
    if now is Finding.BAD:
        return (Change.STILL_BAD if was is Finding.BAD else Change.NEWLY_BAD), after.without.detail
    if now is Finding.ABSENT:
        return Change.ABSENT, after.without.detail
    return (Change.FIXED_UPSTREAM if was is Finding.BAD else Change.STILL_GOOD), after.without.detail


def _plain(finding: Finding) -> Finding:
    return Finding.GOOD if finding is Finding.ABSENT else finding
