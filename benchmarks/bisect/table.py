"""The table of rows: for people line by line, for programs as JSON, and as an exit code."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.bisect.rows import Row


def tell(rows: Iterable[Row], file: Path | None, about: Mapping[str, Any] | None = None) -> int:
    """Print each row when it is there, write all to the file, and return 1 when one missed its bar, else 0.

    Rows that were not run neither hold nor miss: the last line counts them. The file is written after each row.
    """
    told: list[Row] = []
    for row in rows:
        told.append(row)
        print_row(row)
        if file:
            document = {"format": 1, **(about or {}), "rows": [asdict(one) for one in told]}
            file.write_text(json.dumps(document, indent=2))
    missed, left_out = [row for row in told if has_missed(row)], sum(bool(row.not_run) for row in told)
    hold = len(told) - len(missed) - left_out
    print(f"{len(told)} rows: {hold} hold, {len(missed)} missed, {left_out} not run")
    return 1 if missed else 0


def has_missed(row: Row) -> bool:
    """Return whether a row was measured and does not hold."""
    return not row.holds and not row.not_run


def print_row(row: Row) -> None:
    """Print a row for people."""
    if row.not_run:
        print(f"{row.name:<42} {'-':>8} {row.unit:<8} NOT RUN  {row.not_run}", flush=True)
        return
    theirs = "" if row.theirs is None else f"{row.theirs:g}"
    bar = "" if row.bar is None else f"bar {row.bar:g}"
    rate = "" if row.success is None else f"right {row.success:.3f}"
    tail = "" if row.p95 is None else f"p95 {row.p95:g}"
    verdict = "holds" if row.holds else "MISSED"
    print(
        f"{row.name:<42} {row.ours:>8g} {row.unit:<8} {tail:<7} {bar:<10} {rate:<11} {verdict}  "
        f"{row.rival} {theirs}  {row.note}",
        flush=True,
    )
