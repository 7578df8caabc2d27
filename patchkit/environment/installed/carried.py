"""A series made for a repository, for what its wheel carries: which files of each patch are in, and which are not.

Tests, docs and build files of a repository are not in its wheel. What a patch says of them is told, never lost; what
only takes effect after a native build makes the patch unfit, since half of it would be applied.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchkit.recipe.condition import Facts, parse_condition
from patchkit.recipe.model import Change, ChangeFile, ChangePatch, ChangeRewrite
from patchkit.source.installed.distribution import name_some
from patchkit.stack.apply import choose_change
from patchkit.stack.change import read_diff
from patchkit.stack.outcome import Outcome, PatchRecord, SeriesResult
from patchkit.stack.patch import MalformedPatch
from patchkit.stack.paths import is_native
from patchkit.stack.series import StackPatch

PREFIX = re.compile(rb'^(?:---|\+\+\+|diff --git) "?(\S*?/(?:site|dist)-packages/)', re.MULTILINE)

SPECIAL = re.compile(r"([*?[])")  # in a glob


@dataclass(frozen=True)
class LeftOut:
    """A file of a patch that the distribution does not carry. `native`: its change needs a native build."""

    patch: str
    file: str
    native: bool

    @property
    def outcome(self) -> str:
        """Return what became of the file, in a word."""
        return "needs-native-build" if self.native else "not-in-package"


@dataclass(frozen=True)
class Carried:
    """A series for a distribution, and what of it the distribution does not carry."""

    series: tuple[StackPatch, ...]
    left_out: tuple[LeftOut, ...]


def carry_series(series: Sequence[StackPatch], facts: Facts, carries: Callable[[str], bool]) -> Carried:
    """Return a series without the files that a distribution does not carry; conditions are asked of `facts`."""
    carried: list[StackPatch] = []
    left: list[LeftOut] = []
    for as_written in series:
        changes = tuple(_re_root(as_written.folder, change) for change in as_written.changes)
        patch = replace(as_written, changes=changes)
        holds = all(parse_condition(condition).decide(facts).holds for condition in patch.when)
        change, _ = choose_change(patch.changes, facts) if holds else (None, "")
        outside = () if change is None else tuple(path for path in _files(patch, change) if not carries(path))
        carried.append(_without(patch, change, outside) if change is not None and outside else patch)
        left += [LeftOut(patch.name, path, is_native(path)) for path in outside]
    return Carried(tuple(carried), tuple(left))


def tell_left_out(result: SeriesResult, left_out: Iterable[LeftOut]) -> SeriesResult:
    """Return a result in which each patch says what of it is left out; one with native files is for review."""
    records = tuple(_told(record, [one for one in left_out if one.patch == record.patch]) for record in result.records)
    stands = all(record.outcome.stands for record in records)
    return SeriesResult(records, result.patched if stands else None)


def _told(record: PatchRecord, left: Sequence[LeftOut]) -> PatchRecord:
    if not left or not record.outcome.stands:
        return record
    if native := [one.file for one in left if one.native]:
        detail = f"needs a native build: {name_some(native)}; `exclude` applies the rest without it"
        return replace(record, outcome=Outcome.REVIEW, method="none", detail=detail, files=(), native=True)
    told = f"not in the package: {name_some([one.file for one in left])}"
    return replace(record, detail=f"{record.detail}; {told}" if record.detail else told)


def _re_root(folder: Path, change: Change) -> Change:
    """Return a diff that was made between installed files with as many parts stripped as lead to site-packages."""
    if not isinstance(change, ChangePatch):
        return change
    try:
        found = PREFIX.findall((folder / change.patch).read_bytes())
    except OSError:
        return change  # whoever applies it says so
    depths = {prefix.count(b"/") for prefix in found if b"/dev/null" not in prefix}
    return change.model_copy(update={"strip": depths.pop()}) if len(depths) == 1 else change


def _files(patch: StackPatch, change: Change) -> tuple[str, ...]:
    """Return the files that a change is about; none where only history knows them, or the diff cannot be read."""
    if isinstance(change, ChangeRewrite):
        return tuple(dict.fromkeys(step.file for step in patch.rewrites[change.rewrite]))
    if isinstance(change, ChangeFile):
        return (change.file,)
    if not isinstance(change, ChangePatch):
        return ()
    try:
        patches = read_diff(patch.folder, change)
    except MalformedPatch:
        return ()
    return tuple(dict.fromkeys(file.path for one in patches for file in one.files))


def _without(patch: StackPatch, change: Change, outside: Sequence[str]) -> StackPatch:
    """Return a patch without some files of the change that is used; without any change when nothing is left of it."""
    if len(outside) == len(_files(patch, change)):
        return replace(patch, changes=())
    if isinstance(change, ChangeRewrite):
        steps = tuple(step for step in patch.rewrites[change.rewrite] if step.file not in outside)
        return replace(patch, rewrites={**patch.rewrites, change.rewrite: steps})
    if isinstance(change, ChangePatch):
        globs = tuple("/" + SPECIAL.sub(r"[\1]", path) for path in outside)
        kept = change.model_copy(update={"exclude": (*change.exclude, *globs)})
        return replace(patch, changes=tuple(kept if one is change else one for one in patch.changes))
    return patch
