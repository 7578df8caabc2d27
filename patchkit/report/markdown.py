"""What `watch` found as Markdown, for an issue comment or a job summary."""

from __future__ import annotations

import re

from patchkit.report.text import flatten, removable_line
from patchkit.report.watch import WatchReport, word
from patchkit.verdict.transition import VerdictPair

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~&@])")


def markdown(report: WatchReport) -> str:
    """Return the outcome, the transitions, and the matrix of commits and issues (without → with the series)."""
    lines = [f"## patchkit watch: {escape(report.recipe)}", "", f"**{escape(report.message)}**", ""]
    if report.conflict:
        why = escape(flatten(report.conflict.detail))
        lines += [f"The series does not apply from {escape(report.conflict.at)} on: {why}", ""]
    for patch, reason in report.removable.items():
        lines += [escape(removable_line(patch, reason)), ""]
    lines += table(
        ("at", "issue", "transition", "patched", "fidelity"),
        [
            (
                transition.at,
                f"{transition.issue}/{transition.repro}",
                transition.change.value,
                "yes" if transition.patched else "",
                transition.pair.without.fidelity,
            )
            for transition in reversed(report.transitions)
        ],
    )
    lines += ["", "Without → with the series:", ""]
    columns = (report.upstream, *(f"{subject.name} ({subject.fidelity})" for subject in report.subjects))
    cells = [(node, *(_cell(report.pairs.get(s.name, {}).get(node)) for s in report.subjects)) for node in report.nodes]
    return "\n".join(
        [*lines, *table(columns, [(node[:12] if len(node) == 40 else node, *row) for node, *row in cells]), ""]
    )


def escape(text: str) -> str:
    """Return text on one line that Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.splitlines()))


def table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    """Return the lines of a table."""
    lines = [header, tuple("---" for _ in header), *rows]
    written = ["| " + " | ".join(escape(cell) for cell in row) + " |" for row in (lines[0], *lines[2:])]
    return [written[0], "| " + " | ".join(lines[1]) + " |", *written[1:]]


def _cell(pair: VerdictPair | None) -> str:
    return "" if pair is None else f"{word(pair.without)} → {word(pair.with_series)}"
