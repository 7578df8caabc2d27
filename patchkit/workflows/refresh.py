"""Rewrite the diffs of a series against the tree where they now land; all of those asked for, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from patchkit.errors import RequestError
from patchkit.pipeline import open_recipe, resolve_commit, series_of, source_of
from patchkit.source.commit import Commit
from patchkit.source.source import Preference
from patchkit.stack.apply import Step, open_lineage, walk_series
from patchkit.stack.carry.refresh import Press, Refreshed
from patchkit.stack.change import Ground
from patchkit.stack.series import StackPatch
from patchkit.tools.cache import write_atomically
from patchkit.tools.toolkit import Toolkit


@dataclass(frozen=True)
class RefreshRequest:
    """Which patches of a recipe to refresh (none named: all), where, and of which upstream (None: the main one)."""

    recipe: Path
    patches: tuple[str, ...] = ()
    at: str | None = None
    dry_run: bool = False
    source: Preference = "auto"
    upstream: str | None = None


@dataclass(frozen=True)
class RefreshReport:
    """What became of each patch asked for; `blocked` are those before them that do not stand."""

    commit: Commit
    patches: tuple[Refreshed, ...]
    blocked: tuple[str, ...]
    written: tuple[Path, ...]

    @property
    def stands(self) -> bool:
        """Return whether every patch asked for could be made anew."""
        return not self.blocked and not any(patch.refused for patch in self.patches)


def refresh_recipe(toolkit: Toolkit, request: RefreshRequest) -> RefreshReport:
    """Make the diffs of one upstream of a recipe anew: against the commit of the request, the lock, or the recipe.

    Nothing is written when one of them cannot be. Raises `RequestError` for a patch that the series does not have.
    """
    opened = open_recipe(toolkit, request.recipe, request.source)
    commit = resolve_commit(opened, request.at, request.upstream)
    source = source_of(opened, commit.upstream)
    series = series_of(opened, commit.upstream)
    _check_names(request, series)
    facts = source.facts(commit, opened.settings)
    lineage = open_lineage(source, commit)
    steps = list(walk_series(Ground(source, commit, commit.tree, lineage), series, facts))
    chosen = [step for step in steps if not request.patches or step.patch.name in request.patches]
    press = Press(source.repository, lineage, facts)
    patches = tuple(press.refresh(step) for step in chosen)
    report = RefreshReport(commit, patches, _blocked(steps, chosen), ())
    if not report.stands or request.dry_run:
        return report
    return RefreshReport(commit, patches, (), _write_all(patches))


def _check_names(request: RefreshRequest, series: Sequence[StackPatch]) -> None:
    names = [patch.name for patch in series]
    for name in request.patches:
        if name not in names:
            raise RequestError(f"{request.recipe}: no patch {name} in the series", f"it has: {', '.join(names)}")


def _blocked(steps: Sequence[Step], chosen: Sequence[Step]) -> tuple[str, ...]:
    """Return the patches that do not stand before the last one chosen: its tree would not be the real one."""
    last = max((steps.index(step) for step in chosen), default=-1)
    return tuple(step.patch.name for step in steps[:last] if not step.record.outcome.stands and step not in chosen)


def _write_all(patches: Sequence[Refreshed]) -> tuple[Path, ...]:
    """Write what changed. Raises `RequestError` before the first byte when two entries of the series share a file."""
    texts: dict[Path, bytes] = {}
    for patch in patches:
        if patch.path is None or patch.data is None:
            continue
        if texts.setdefault(patch.path, patch.data) != patch.data:
            raise RequestError(f"{patch.path}: stands twice in the series", "give each entry a file of its own")
    changed = [patch.path for patch in patches if patch.changed and patch.path is not None]
    for path in dict.fromkeys(changed):
        write_atomically(path, texts[path])
    return tuple(dict.fromkeys(changed))
