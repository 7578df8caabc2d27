"""Which patches of a recipe are needed, for people, for programs, and as Markdown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from patchkit.report.json import verdict_document
from patchkit.report.markdown import escape, table
from patchkit.report.text import align
from patchkit.verdict.expectation import Need, Removal, Trial

SAID = {
    Need.NEEDED: "needed",
    Need.REMOVABLE: "possibly removable",
    Need.NOT_HERE: "does not apply here",
    Need.CANNOT_TELL: "cannot be told",
}
HEADER = ("removed", "also", "the patch is", "detail")


@dataclass(frozen=True)
class NecessityReport:
    """Every patch of a recipe, left out in turn. `places` are the commits, one of each upstream, looked at in turn."""

    recipe: str
    places: tuple[tuple[str, ...], ...]
    removals: tuple[Removal, ...]

    @property
    def needs(self) -> frozenset[Need]:
        """Return the answers that there are."""
        return frozenset(removal.need for removal in self.removals)


def necessity_text(report: NecessityReport) -> str:
    """Return a line for the commits, and one for each patch."""
    lines = [f"at {', '.join(place)}" for place in report.places]
    return "\n".join([*lines, align(HEADER, _rows(report))])


def necessity_markdown(report: NecessityReport) -> str:
    """Return the same for an issue comment or a job summary."""
    places = "; ".join(", ".join(place) for place in report.places)
    title = f"## patchkit repro --leave-one-out: {escape(report.recipe)}"
    return "\n".join([title, "", f"At {escape(places)}.", "", *table(HEADER, _rows(report)), ""])


def necessity_document(report: NecessityReport) -> dict[str, Any]:
    """Return `recipe, at: [[…]], removals: […]`."""
    removals = [
        {
            "patch": removal.patch,
            "also": list(removal.also),
            "need": removal.need.value,
            "detail": removal.detail,
            "trials": [_trial(trial) for trial in removal.trials],
        }
        for removal in report.removals
    ]
    return {"recipe": report.recipe, "at": [list(place) for place in report.places], "removals": removals}


def _rows(report: NecessityReport) -> list[tuple[str, ...]]:
    return [(one.patch, ", ".join(one.also), SAID[one.need], one.detail) for one in report.removals]


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "issue": trial.whole.issue,
        "repro": trial.whole.repro,
        "notices": trial.notices,
        "whole": verdict_document(trial.whole),
        "without": verdict_document(trial.without),
    }
