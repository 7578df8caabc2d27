"""One change of a patch onto a tree: each kind that patch.yaml knows, over the rungs of the ladder that it can use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from patchkit.errors import RequestError
from patchkit.recipe.model import Change, ChangeFile, ChangePatch, ChangePull, ChangeRewrite
from patchkit.source.commit import Commit
from patchkit.source.source import Source
from patchkit.stack.history import apply_history, apply_pull
from patchkit.stack.ladder.attempt import Attempt
from patchkit.stack.ladder.climb import Footing, climb
from patchkit.stack.ladder.exact import DEFAULT_MODE
from patchkit.stack.ladder.view import REGULAR, View
from patchkit.stack.lineage.lineage import Lineage
from patchkit.stack.outcome import Outcome
from patchkit.stack.patch import MalformedPatch, Patch, parse_patches
from patchkit.stack.paths import matches
from patchkit.stack.rewrite import RewriteError, rewrite_files
from patchkit.stack.series import StackPatch


@dataclass(frozen=True)
class Ground:
    """Where a change lands: a tree on its way from the base commit to the patched tree, and the history behind it."""

    source: Source
    base: Commit
    tree: str
    lineage: Lineage | None = None
    dry: bool = False  # only whether it lands counts (see `Footing`): not which files an exact result changes
    thorough: bool = False  # the gate looks at exact results too


def apply_change(ground: Ground, patch: StackPatch, change: Change) -> Attempt:
    """Apply one change. What is wrong at this tree is an outcome; `RequestError` is for what is wrong at every one."""
    if isinstance(change, ChangePatch):
        return _apply_diff(ground, patch.folder, change)
    if isinstance(change, ChangeRewrite):
        return _apply_rewrite(ground, patch, change)
    if isinstance(change, ChangeFile):
        return _apply_file(ground, patch.folder, change)
    if isinstance(change, ChangePull):
        return apply_pull(ground.source, ground.base, ground.tree, change, patch.heads.get(change.pull))
    return apply_history(ground.source, ground.tree, change)


def read_diff(folder: Path, change: ChangePatch) -> tuple[Patch, ...]:
    """Return the patches of a diff without the files that `exclude` leaves out. Raises `MalformedPatch`."""
    return _without(parse_once(_read_file(folder / change.patch), change.strip, change.root), change.exclude)


parse_once = lru_cache(maxsize=64)(parse_patches)  # by content: a bisect or a window reads each diff many times


def _apply_diff(ground: Ground, folder: Path, change: ChangePatch) -> Attempt:
    try:
        kept = read_diff(folder, change)
    except MalformedPatch as error:
        return Attempt(Outcome.BROKEN, "none", f"{change.patch}: {error}", ground.tree)
    if not kept:
        return Attempt(Outcome.NOT_APPLICABLE, "none", "`exclude` leaves nothing of it", ground.tree)
    attempt = climb(Footing(ground.source.repository, ground.tree, ground.lineage, ground.dry), kept)
    if attempt.outcome is Outcome.TARGET_GONE and change.strip and _names_files(ground, folder, change):
        detail = f"{attempt.detail}; the names fit with `strip: 0`"
        return Attempt(attempt.outcome, attempt.method, detail, attempt.tree, attempt.files)
    return attempt


def _without(patches: Sequence[Patch], globs: Sequence[str]) -> tuple[Patch, ...]:
    if not globs:
        return tuple(patches)
    kept = (
        Patch(patch.header, tuple(file for file in patch.files if not matches(file.path, globs))) for patch in patches
    )
    return tuple(patch for patch in kept if patch.files)


def _names_files(ground: Ground, folder: Path, change: ChangePatch) -> bool:
    """Return whether a diff names a file of the tree when nothing is stripped from its names."""
    try:
        data = _read_file(folder / change.patch)
        files = [file for patch in parse_once(data, 0, change.root) for file in patch.files]
    except MalformedPatch:
        return False
    return any(ground.source.repository.entry(ground.tree, file.path) for file in files)


def _apply_rewrite(ground: Ground, patch: StackPatch, change: ChangeRewrite) -> Attempt:
    view = View(ground.source.repository, ground.tree)
    try:
        result = rewrite_files(lambda path: _read_regular(view, path), patch.rewrites[change.rewrite], patch.folder)
    except RewriteError as error:
        return Attempt(Outcome.CONFLICT, "rewrite", str(error), ground.tree)
    if result.done:
        return Attempt(Outcome.ALREADY_UPSTREAM, "rewrite", result.detail, ground.tree)
    return _write(view, result.contents, Attempt(Outcome.REWRITTEN, "rewrite", result.detail, ground.tree))


def _apply_file(ground: Ground, folder: Path, change: ChangeFile) -> Attempt:
    view = View(ground.source.repository, ground.tree)
    content = _read_file(folder / change.source)
    found = view.read(change.file)
    if found is None:
        return _write(view, {change.file: content}, Attempt(Outcome.CLEAN, "file", "1 file", ground.tree))
    if found == (DEFAULT_MODE, content):
        return Attempt(Outcome.ALREADY_UPSTREAM, "file", f"{change.file} is there, the same", ground.tree)
    return Attempt(Outcome.CONFLICT, "file", f"{change.file}: is there already, with another content", ground.tree)


def _read_regular(view: View, path: str) -> bytes | None:
    """Return the bytes of a file; a symlink or submodule is no file that a rewrite may see."""
    found = view.read(path)
    return found[1] if found is not None and found[0] in REGULAR else None


def _write(view: View, contents: Mapping[str, bytes], attempt: Attempt) -> Attempt:
    """Store files, modes kept, and return the attempt with the tree that results."""
    for path, content in contents.items():
        if reason := view.obstacle(path):
            return Attempt(Outcome.BROKEN, attempt.method, f"{path}: {reason}", attempt.tree)
        found = view.read(path)
        view.write(path, found[0] if found else DEFAULT_MODE, content)
    try:
        return Attempt(attempt.outcome, attempt.method, attempt.detail, view.store())
    except ValueError as error:
        return Attempt(Outcome.BROKEN, attempt.method, str(error), attempt.tree)


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RequestError(f"{path}: cannot be read: {error.strerror}") from error
