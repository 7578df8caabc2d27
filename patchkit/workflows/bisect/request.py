"""What a bisect is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchkit.source.pins import Prefer
from patchkit.source.source import Preference
from patchkit.verdict.verdict import Series

Tell = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class BisectRequest:
    """What to look for, and how. `axis` None: releases for a package, commits for git.

    `at` is the fixed commit of the axes that have one ('': the recipe's own), `pin` which of the two vLLMs that a
    commit names is its pair.

    `exhaustive`: suspects among commits that cannot be tested are all tried, however little a probe may tell.
    `confirm`: runs of the culprit that must be bad, and of each parent that must be good, those of the search included.
    `from_git_log`: the output of `git bisect log` whose marks count as known; it names the ends where `good` or `bad`
    is empty. `ray`: the address of a Ray cluster where the probes run, or `local` for one made here. `emit_revert`: the
    name of a patch to write when taking the culprit back heals the bad end. `fix_up`: what is carried onto commits that
    cannot be tested, each a commit or several with commas between.
    """

    recipe: Path
    source: Preference
    issue: str
    good: str
    bad: str
    axis: str | None = None
    series: Series = "others"
    jobs: int = 1
    restart: bool = False
    flaky: bool = False
    confidence: float = 0.99
    confirm: int = 3
    from_git_log: Path | None = None
    emit_revert: str = ""
    at: str = ""
    pin: Prefer = "newest"
    ray: str = ""
    exhaustive: bool = False
    fix_up: tuple[str, ...] = ()
