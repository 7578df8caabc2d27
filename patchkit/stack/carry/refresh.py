"""A diff made anew against the tree where it now lands: the same change, other numbers, and nothing but them lost.

What is written must give the very tree that the old text gave, exactly and without an offset; else nothing is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchkit.errors import RequestError
from patchkit.recipe.condition import Facts
from patchkit.recipe.model import ChangePatch
from patchkit.stack.apply import Step, choose_change
from patchkit.stack.carry.compare import Pair, compare_series
from patchkit.stack.carry.mail import Sheet, read_naming, read_sheets
from patchkit.stack.carry.text import Naming, join_parts, render_file, render_trees
from patchkit.stack.ladder.climb import Footing, climb
from patchkit.stack.ladder.exact import apply_exact
from patchkit.stack.lineage.lineage import Lineage
from patchkit.stack.outcome import Outcome
from patchkit.stack.patch import FilePatch, MalformedPatch, Patch, parse_patches
from patchkit.stack.paths import matches
from patchkit.tools.git.objects import Repository

NEXT_STEPS = {
    Outcome.REVIEW: "look at it with `patchkit status`, then write it anew, or as a rewrite",
    Outcome.CONFLICT: "`patchkit status --first-conflict` names the commit in the way",
    Outcome.TEST_ONLY: "leave the tests out with `exclude:`, then refresh",
    Outcome.TARGET_GONE: "`patchkit status` names the commit that took the file away",
    Outcome.BROKEN: "mend the file by hand",
}


@dataclass(frozen=True)
class Refreshed:
    """What became of one patch. `data` is None where there is nothing to write; `refused` says why there cannot be."""

    patch: str
    outcome: Outcome
    detail: str
    path: Path | None = None
    data: bytes | None = None
    changed: bool = False
    pairs: tuple[Pair, ...] = ()
    refused: str = ""


@dataclass(frozen=True)
class Press:
    """Where patches are made anew: the repository of the trees, and the history behind them."""

    repository: Repository
    lineage: Lineage | None
    facts: Facts

    def refresh(self, step: Step) -> Refreshed:
        """Make the diff of one patch anew, where it has one. Raises `RequestError` when its file cannot be read."""
        record = step.record
        change, _ = choose_change(step.patch.changes, self.facts)
        plain = Refreshed(record.patch, record.outcome, record.detail)
        if not record.outcome.stands:
            return replace(plain, refused=NEXT_STEPS.get(record.outcome, "see: patchkit status"))
        if record.outcome is Outcome.NOT_APPLICABLE or not isinstance(change, ChangePatch):
            why = record.detail if record.outcome is Outcome.NOT_APPLICABLE else "is no diff: nothing to refresh"
            return replace(plain, detail=why)
        plain = replace(plain, path=step.patch.folder / change.patch)
        if record.outcome is Outcome.ALREADY_UPSTREAM:
            return replace(plain, detail=f"{record.detail}: nothing is left of it; take it out of the series")
        return self._write(step, change, plain)

    def _write(self, step: Step, change: ChangePatch, plain: Refreshed) -> Refreshed:
        path = step.patch.folder / change.patch
        data = read_file(path)
        sheets = read_sheets(data, change.strip, change.root)
        old = [sheet.patch for sheet in sheets]
        naming = read_naming(data, old, change.strip, change.root)
        trees = self.trees(step, sheets, change)
        if trees is None:
            return replace(plain, refused="its mails do not land one by one; split them with `patchkit import`")
        text = b"".join(
            _write_sheet(self.repository, sheet, pair, (naming, change.exclude))
            for sheet, pair in zip(sheets, trees, strict=True)
        )
        if not self._gives(text, step, change):
            return replace(plain, refused="written anew it would not give the same tree: it is kept as it is")
        new = parse_patches(text, change.strip, change.root)
        return replace(plain, path=path, data=text, changed=text != data, pairs=compare_series(old, new))

    def trees(self, step: Step, sheets: Sequence[Sheet], change: ChangePatch) -> list[tuple[str, str]] | None:
        """Return the trees before and after each mail of a file; None where they do not lead to the step's result."""
        kept = [keep_files(sheet.patch, change.exclude) for sheet in sheets]
        if sum(bool(patch.files) for patch in kept) == 1:
            return [(step.tree, step.attempt.tree if patch.files else step.tree) for patch in kept]
        at, pairs = step.tree, []
        for patch in kept:
            attempt = climb(Footing(self.repository, at, self.lineage), [patch]) if patch.files else None
            if attempt is not None and not attempt.outcome.stands:
                return None
            pairs.append((at, attempt.tree if attempt else at))
            at = pairs[-1][1]
        return pairs if at == step.attempt.tree else None

    def _gives(self, text: bytes, step: Step, change: ChangePatch) -> bool:
        """Return whether a text applies exactly, and to the same result."""
        try:
            patches = [keep_files(patch, change.exclude) for patch in parse_patches(text, change.strip, change.root)]
        except MalformedPatch:
            return False
        attempt = apply_exact(self.repository, step.tree, [patch for patch in patches if patch.files])
        return attempt.tree == step.attempt.tree and attempt.outcome is Outcome.CLEAN


def _write_sheet(
    repository: Repository, sheet: Sheet, trees: tuple[str, str], how: tuple[Naming, Sequence[str]]
) -> bytes:
    """Return one mail anew; what `exclude` keeps out of the tree stays as it was. Empty when nothing is left of it."""
    naming, exclude = how
    parts = render_trees(repository, trees, moves_of(keep_files(sheet.patch, exclude)), naming)
    kept = (file for file in sheet.patch.files if matches(file.path, exclude))
    parts |= {file.path: render_file(file, naming, sheet.modes.get(file.line)) for file in kept}
    return sheet.preamble + join_parts(parts) if parts else b""


def moves_of(patch: Patch) -> Mapping[str, FilePatch]:
    """Return the renames and copies of a patch by their new path."""
    return {file.path: file for file in patch.files if file.moves}


def read_file(path: Path) -> bytes:
    """Return the bytes of a file that a recipe names. Raises `RequestError`."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise RequestError(f"{path}: cannot be read: {error.strerror}") from error


def keep_files(patch: Patch, globs: Sequence[str]) -> Patch:
    """Return a patch without the files that globs leave out."""
    return Patch(patch.header, tuple(file for file in patch.files if not matches(file.path, globs)))
