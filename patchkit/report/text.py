"""Results as plain text for people: aligned columns, no colour (the terminal adds it), no trailing spaces."""

from __future__ import annotations

from collections.abc import Sequence

from patchkit.stack.outcome import SeriesResult
from patchkit.verdict.verdict import Verdict


def align(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out rows under a header in columns as wide as their widest cell; an empty last cell leaves no spaces."""
    lines = [list(header), *([flatten(cell) for cell in row] for row in rows)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(header))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def flatten(text: str) -> str:
    """Return text on one line: the first line that says something, control characters replaced."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in first)


def seconds(duration_seconds: float) -> str:
    """Say a duration as people do: `0.4 s`, `12 s`, `3 min 05 s`, `1 h 40 min`."""
    if duration_seconds < 9.95:
        return f"{duration_seconds:.1f} s"
    whole = round(duration_seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def series_table(result: SeriesResult) -> str:
    """Return one row a patch: its outcome, how it was applied, and the detail; then what is not needed any more."""
    if not result.records:
        return "the series is empty"
    rows = [(record.patch, record.outcome.value, record.method, record.detail) for record in result.records]
    told = [removable_line(record.patch, record.removable) for record in result.records if record.removable]
    return "\n".join([align(("patch", "outcome", "method", "detail"), rows), *told])


def removable_line(patch: str, reason: str) -> str:
    """Say that a patch is not needed any more, by its own `remove-when`."""
    return f"{patch} is not needed any more: {flatten(reason)} (remove-when)"


def verdict_table(verdicts: Sequence[Verdict]) -> str:
    """Return one row a verdict; a verdict that was known before says so instead of its duration."""
    rows = [
        (
            verdict.at,
            f"{verdict.issue}/{verdict.repro}",
            verdict.series,
            verdict.answer.value,
            verdict.reason.value,
            verdict.fidelity,
            "known" if verdict.reused else seconds(verdict.duration_seconds),
            verdict.detail,
        )
        for verdict in verdicts
    ]
    return align(("at", "issue", "series", "answer", "reason", "fidelity", "time", "detail"), rows)
