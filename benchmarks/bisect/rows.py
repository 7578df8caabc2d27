"""A row of the table, and the work for it spread over the processors."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from benchmarks.bisect.rivals import GitBisect
from benchmarks.bisect.worlds import Outcome, World, search
from patchkit.search import Settings

Item, Found = TypeVar("Item"), TypeVar("Found")


@dataclass(frozen=True)
class Options:
    """How much is measured, and on what.

    `seeds` culprits a cell are searched by us, the first `git_seeds` of them by git. `points` are kills of a bisect.
    `clones` holds clones of real repositories, None where there are none; `scratch` is a folder on the same disk.
    """

    seeds: int = 200
    git_seeds: int = 200
    points: int = 50
    clones: Path | None = None
    scratch: Path | None = None
    quick: bool = False

    def few(self, most: int) -> range:
        """Return the seeds of a cell: all, in a quick run no more than its cost allows."""
        return range(min(self.seeds, most) if self.quick else self.seeds)


@dataclass(frozen=True)
class Row:
    """One measurement; `unit` says of what. `bar` is what ours must keep to, None where none is set.

    `success` is the share of right answers, `stated` what was claimed, `p95` ours at the 95th percentile, `note` what
    else belongs to the figure. `culprits` were searched by us, `rival_culprits` by the rival; None where it is not
    culprits that are counted. `not_run` says why nothing was measured: such a row has no figures and does not hold.
    """

    name: str
    rival: str
    theirs: float | None
    ours: float | None
    bar: float | None
    unit: str
    holds: bool
    success: float | None = None
    stated: float | None = None
    p95: float | None = None
    note: str = ""
    culprits: int | None = None
    rival_culprits: int | None = None
    not_run: str = ""


def leave_out(name: str, unit: str, why: str) -> Row:
    """Return the row of what is not measured in this run."""
    return Row(name, "", None, None, None, unit, holds=False, not_run=why)


def spread(work: Callable[[Sequence[Item]], list[Found]], items: Sequence[Item]) -> list[Found]:
    """Return the results of all items, in their order; every process works on a part of them."""
    workers = os.cpu_count() or 1
    size = max((len(items) + 4 * workers - 1) // (4 * workers), 1)
    parts = [items[start : start + size] for start in range(0, len(items), size)]
    with ProcessPoolExecutor(workers) as pool:
        return [one for part in pool.map(work, parts) for one in part]


def search_all(worlds: Sequence[World], settings: Settings) -> list[Outcome]:
    """Search each world with us."""
    return spread(partial(_search_part, settings), worlds)


def _search_part(settings: Settings, worlds: Sequence[World]) -> list[Outcome]:
    return [search(world, settings) for world in worlds]


def git_all(worlds: Sequence[World]) -> list[tuple[int, str]]:
    """Run `git bisect` on each world; all have the same graph."""
    return spread(_git_part, worlds)


def _git_part(worlds: Sequence[World]) -> list[tuple[int, str]]:
    with tempfile.TemporaryDirectory(prefix="patchkit-bench-") as folder:
        rival = GitBisect(Path(folder) / "repository", worlds[0].graph)
        return [rival.run(world) for world in worlds]


def mean(values: Iterable[float]) -> float:
    """Return the mean, to two places."""
    return round(statistics.mean(values), 2)


def percentile(values: Iterable[float], share: float = 0.95) -> float:
    """Return the smallest value that `share` of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(-int(-share * len(ordered) // 1) - 1, 0)]
