"""What `watch` found, as one value that text, JUnit, Markdown and HTML are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from patchkit.recipe.model import Fidelity
from patchkit.report.text import align, flatten, removable_line
from patchkit.verdict.transition import Change, Finding, Transition, VerdictPair, find
from patchkit.verdict.verdict import Reason, Verdict

WORDS = {
    Finding.GOOD: "good",
    Finding.ABSENT: "absent",
    Finding.BAD: "bad",
    Finding.CONFLICT: "conflict",
    Finding.UNKNOWN: "cannot tell",
}


@dataclass(frozen=True)
class Subject:
    """A repro of an issue: one column of the matrix."""

    issue: str
    repro: str
    title: str
    fidelity: Fidelity

    @property
    def name(self) -> str:
        """Return `issue/repro`."""
        return f"{self.issue}/{self.repro}"


@dataclass(frozen=True)
class SeriesConflict:
    """The first commit to which the series does not apply any more, and why."""

    at: str
    detail: str


@dataclass(frozen=True)
class WatchReport:
    """The matrix of commits and issues, with what changed. `nodes` are the judged commits, newest first.

    `pairs` is keyed by `Subject.name`, then by node; `new` counts what upstream added since the last look.
    `removable` names the patches that the newest commit does not need any more, with the reason.
    """

    recipe: str
    upstream: str
    axis: str
    since: str
    newest: str
    new: int
    nodes: tuple[str, ...]
    subjects: tuple[Subject, ...]
    pairs: Mapping[str, Mapping[str, VerdictPair]]
    transitions: tuple[Transition, ...]
    conflict: SeriesConflict | None
    removable: Mapping[str, str] = field(default_factory=dict)

    @property
    def standing(self) -> tuple[Transition, ...]:
        """Return the last transition of each subject: how things are now."""
        last = {(transition.issue, transition.repro): transition for transition in self.transitions}
        return tuple(last.values())

    @property
    def alarming(self) -> int:
        """Count what somebody must act on: issues that are bad with the series, and a series that does not apply."""
        issues = sum(transition.alarming for transition in self.standing)
        return issues or int(self.conflict is not None)

    @property
    def untold(self) -> int:
        """Count the issues that cannot be told now."""
        return sum(transition.change is Change.CANNOT_TELL for transition in self.standing)

    @property
    def message(self) -> str:
        """Say the outcome in one sentence."""
        since, newest = short(self.since), short(self.newest)
        news = f"{self.new} new since {since}" if self.new else f"nothing new since {newest}"
        if self.alarming:
            return f"{news}: {self.alarming} demand{'s' * (self.alarming == 1)} attention"
        if self.untold:
            return f"{news}: {self.untold} cannot be told"
        return f"{news}: everything is good or patched"


def word(verdict: Verdict) -> str:
    """Return what a verdict says, in one or two words."""
    return WORDS[find(verdict)]


def summary_document(report: WatchReport) -> dict[str, Any]:
    """Return the last event of `watch`."""
    return {
        "event": "summary",
        "recipe": report.recipe,
        "upstream": report.upstream,
        "axis": report.axis,
        "since": report.since,
        "newest": report.newest,
        "new": report.new,
        "judged": list(report.nodes),
        "alarming": report.alarming,
        "cannot_tell": report.untold,
        "conflict": None if report.conflict is None else {"at": report.conflict.at, "detail": report.conflict.detail},
        "removable": [{"patch": patch, "detail": reason} for patch, reason in report.removable.items()],
        "message": report.message,
    }


def conflict_document(conflict: SeriesConflict) -> dict[str, Any]:
    """Return the event that tells where the series stops applying; it concerns no single issue."""
    return {
        "event": "transition",
        "issue": None,
        "repro": None,
        "at": conflict.at,
        "transition": Change.CONFLICT.value,
        "patched": False,
        "detail": conflict.detail,
    }


def event_text(event: Mapping[str, Any]) -> str:
    """Return an event as a line for people; '' for one that says nothing to them."""
    if event["event"] == "start":
        where = ", where the last look ended" if event["resumed"] else ""
        since, newest = short(event["since"]), short(event["newest"])
        return f"watch {event['upstream']} since {since}{where}: {event['new']} new, newest {newest}"
    if event["event"] == "probe":
        return f"  {short(event['at']):<12}  {event['issue']}/{event['repro']}  {event['series']:<7}  {_said(event)}"
    if event["event"] == "transition":
        what = f"{event['issue']}/{event['repro']}" if event["issue"] else "the series"
        patched = "  patched" if event["patched"] else ""
        return f"{short(event['at']):<14}{event['transition']:<16}{what}{patched}{_before(event)}"
    return ""


def short(node: str) -> str:
    """Return a node as people read it: a commit id cut to twelve digits, a release as it is."""
    return node[:12] if len(node) == 40 else node


def _said(event: Mapping[str, Any]) -> str:
    """Return a probe's answer; good because the code in question is not there is `absent`, as in the reports."""
    return "absent" if event["reason"] == Reason.ABSENT else str(event["answer"])


def _before(event: Mapping[str, Any]) -> str:
    before = event.get("before", "")
    return f"  (since {short(before)})" if before and before != event["at"] else ""


def report_text(report: WatchReport) -> str:
    """Return how things stand, a row an issue, and the outcome in one sentence."""
    rows = [
        (
            short(transition.at),
            f"{transition.issue}/{transition.repro}",
            transition.change.value,
            word(transition.pair.without),
            word(transition.pair.with_series),
            transition.pair.without.fidelity,
            flatten(transition.detail) if transition.alarming or transition.change is Change.CANNOT_TELL else "",
        )
        for transition in report.standing
    ]
    table = align(("at", "issue", "now", "without", "with", "fidelity", "detail"), rows)
    conflict = report.conflict
    trouble = [f"the series does not apply from {conflict.at} on: {flatten(conflict.detail)}"] if conflict else []
    spare = [removable_line(patch, reason) for patch, reason in report.removable.items()]
    return "\n".join(["", table, *trouble, *spare, report.message])
