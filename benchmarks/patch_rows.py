"""What the measurements of the patch engine stand on, and the rows that they give."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.patch_clone import Clone
from patchkit.tools.git.objects import Repository


@dataclass(frozen=True)
class Row:
    """One measurement; what `bar` is the bound of is in the name: a ratio theirs / ours, seconds, a share, a count.

    A row without a bar is told and judged by nobody.
    """

    name: str
    rival: str
    theirs: float | None
    ours: float
    bar: float | None
    holds: bool

    def __str__(self) -> str:
        theirs = "" if self.theirs is None else f"{self.rival} {self.theirs}"
        verdict = "-" if self.bar is None else f"bar {self.bar:<4} {'holds' if self.holds else 'MISSED'}"
        times = f"{self.theirs / self.ours:.1f}×" if self.theirs and self.name.endswith(", s") else ""
        return f"{self.name:<62} {self.ours:>9} {theirs:<30} {times:>6} {verdict}"


@dataclass(frozen=True)
class Bench:
    """What the measurements stand on."""

    clone: Clone
    tip: str
    folder: Path
    quick: bool

    @property
    def repository(self) -> Repository:
        """Return the objects."""
        return self.clone.repository


def ratio(name: str, rival: str, theirs: float, ours: float, bar: float | None) -> Row:
    """Return a row whose bar is the least ratio theirs / ours."""
    return Row(f"{name}, s", rival, round(theirs, 4), round(ours, 4), bar, bar is None or theirs / ours >= bar)


def most(name: str, rival: str, theirs: float | None, ours: float, bar: float) -> Row:
    """Return a row whose bar is the most that ours may be."""
    return Row(name, rival, theirs, round(ours, 3), bar, ours <= bar)


def least(name: str, rival: str, theirs: float | None, ours: float, bar: float) -> Row:
    """Return a row whose bar is the least that ours may be."""
    return Row(name, rival, theirs, round(ours, 2), bar, ours >= bar)


def told(name: str, rival: str, theirs: float, ours: float) -> Row:
    """Return a row that nobody judges."""
    return Row(name, rival, theirs, ours, None, True)


def clock(action: Callable[[], object]) -> float:
    """Return the seconds that an action takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def middle(taken: dict[str, list[float]]) -> dict[str, float]:
    """Return the median of what was taken, by what took it."""
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def conclude(rows: Sequence[Row], file: Path | None) -> None:
    """Write the rows where asked, and exit 1 when one does not hold."""
    if file:
        file.write_text(json.dumps({"format": 1, "rows": [asdict(row) for row in rows]}, indent=2))
    sys.exit(0 if all(row.holds for row in rows) else 1)
