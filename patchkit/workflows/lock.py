"""Resolve every moving part of a recipe and write it down beside the recipe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import patchkit
from patchkit.errors import InvalidFile, PatchConflict, RemoteUnavailable, RequestError
from patchkit.image.base import resolve_base_digest
from patchkit.pipeline import OpenedRecipe, open_recipe
from patchkit.recipe.lock import (
    Lock,
    LockedImage,
    LockedPatch,
    LockedPull,
    LockedUpstream,
    dump_lock,
    lock_digests,
    lock_path,
    read_lock,
)
from patchkit.recipe.model import ChangePull, SeriesPull
from patchkit.source.commit import Commit
from patchkit.source.source import Preference, Source
from patchkit.stack.apply import apply_series
from patchkit.stack.carry.intake.facts import pull_number
from patchkit.stack.carry.moved import Movement, PullMove, judge_move
from patchkit.stack.outcome import SeriesResult
from patchkit.stack.series import freeze_pulls, load_series
from patchkit.tools.cache import write_atomically
from patchkit.tools.toolkit import Toolkit

TOOLS = ("ast-grep-py", "pygit2")  # what decides how a patch lands


@dataclass(frozen=True)
class LockResult:
    """The lock, where it lies, whether its bytes changed, and the pull requests that moved since the last one."""

    path: Path
    lock: Lock
    changed: bool
    moves: tuple[PullMove, ...] = ()


def lock_recipe(
    toolkit: Toolkit, path: Path, preference: Preference, dry_run: bool = False, update: bool = False
) -> LockResult:
    """Write recipe.lock for what the recipe's refs mean now; equal inputs write equal bytes.

    A pull request stays at the head that an earlier lock names, and its move is told; `update` takes the new head. One
    that a patch was imported from is told only, where upstream can be asked.
    Raises `PatchConflict` when the series does not stand, and what opening the recipe raises.
    """
    opened = open_recipe(toolkit, path, preference, use_lock=False)
    commits = {name: source.resolve(opened.loaded.recipe.upstream[name].ref) for name, source in opened.sources.items()}
    main = commits[opened.loaded.recipe.main_upstream]
    pulls, moves = _freeze_pulls(opened, update)
    moves += _imported_moves(opened)
    source = opened.sources[main.upstream]
    heads = {pull.pull: pull.commit for pull in pulls if pull.upstream == main.upstream}
    series = freeze_pulls(load_series(opened.loaded, main.upstream), heads)
    result = apply_series(source, source.tree(main), series, source.facts(main, opened.settings))
    if result.patched is None:
        raise _conflict(result, path, [move for move in moves if move.patch or not update])
    lock = Lock(
        patchkit=patchkit.__version__,
        upstream={name: _lock_upstream(opened.sources[name], commit) for name, commit in commits.items()},
        series=tuple(
            LockedPatch(patch=one.patch, sha256=one.sha256, outcome=one.outcome, method=one.method, files=one.files)
            for one in result.records
        ),
        pulls=pulls,
        image=_lock_image(opened),
        tree=result.patched.id,
        tools={name: version(name) for name in TOOLS},
        **lock_digests(opened.loaded),
    )
    return replace(_write(lock_path(opened.loaded.path), lock, dry_run), moves=moves)


def _write(target: Path, lock: Lock, dry_run: bool) -> LockResult:
    data = dump_lock(lock)
    changed = not target.exists() or target.read_bytes() != data
    if changed and not dry_run:
        write_atomically(target, data)
        read_lock(target)  # what was written must be what a later run can read
    return LockResult(target, lock, changed)


def _lock_upstream(source: Source, commit: Commit) -> LockedUpstream:
    origin = source.origin(commit)
    return LockedUpstream(
        kind=source.kind,
        ref=commit.ref,
        commit=commit.id,
        tree=commit.tree,
        version=commit.version,
        git=origin.location if source.kind == "git" else None,
        package=origin.location if source.kind == "package" else None,
        archive_sha256=origin.sha256,
    )


def _freeze_pulls(opened: OpenedRecipe, update: bool) -> tuple[tuple[LockedPull, ...], tuple[PullMove, ...]]:
    """Return the heads of all pull requests, as an earlier lock has them unless `update`, and those that moved."""
    locked = {(pull.upstream, pull.pull): pull.commit for pull in _locked_pulls(opened)}
    frozen, moves = [], []
    for name, number in _pulls(opened):
        source = opened.sources[name]
        if source.kind != "git":
            continue  # where there is no history, applying the series says so
        head = source.resolve(f"pull/{number}").id
        old = locked.get((name, number), head)
        if old != head:
            moves.append(judge_move(source, number, old, head))
        if old != head and not update and moves[-1].movement is Movement.UNKNOWN:
            raise RequestError(str(moves[-1]), f"to take the new head: patchkit lock {opened.loaded.path} --update")
        frozen.append(LockedPull(upstream=name, pull=number, commit=head if update else old))
    return tuple(frozen), tuple(moves)


def _imported_moves(opened: OpenedRecipe) -> tuple[PullMove, ...]:
    """Return the pull requests that moved since a patch was imported from them; who does not answer is passed over."""
    moves = []
    for slug, loaded in opened.loaded.patches.items():
        imported, source = loaded.patch.imported, opened.sources.get(loaded.patch.upstream)
        number = pull_number(imported) if imported else 0
        if not number or imported is None or imported.commit is None or source is None or source.kind != "git":
            continue
        try:
            head = source.resolve(f"pull/{number}").id
        except RequestError:
            continue
        if head != imported.commit:
            moves.append(replace(judge_move(source, number, imported.commit, head), patch=slug))
    return tuple(moves)


def _locked_pulls(opened: OpenedRecipe) -> tuple[LockedPull, ...]:
    """Return the pull requests of the lock that is there, stale or not; a broken one is about to be replaced."""
    try:
        lock = read_lock(lock_path(opened.loaded.path))
    except InvalidFile:
        return ()
    return lock.pulls if lock else ()


def _pulls(opened: OpenedRecipe) -> list[tuple[str, int]]:
    """Return every pull request of the recipe's series and of its patches, once, with its upstream."""
    recipe = opened.loaded.recipe
    found = [(recipe.main_upstream, entry.pull) for entry in recipe.series if isinstance(entry, SeriesPull)]
    for loaded in opened.loaded.patches.values():
        changes = (change for change in loaded.patch.change if isinstance(change, ChangePull))
        found += [(loaded.patch.upstream, change.pull) for change in changes]
    return list(dict.fromkeys(found))


def _lock_image(opened: OpenedRecipe) -> LockedImage | None:
    """Return the base image by digest; by name only, with a warning, when its registry does not answer."""
    name = opened.loaded.recipe.image.base
    if name == "none":
        return None
    try:
        digest = resolve_base_digest(opened.toolkit, name, opened.loaded.folder)
    except RemoteUnavailable as error:
        opened.toolkit.progress.warn(f"base image {name} is locked by name only: {error.message}", error.hint)
        return LockedImage(base=name)
    return LockedImage(base=name, digest=digest)


def _conflict(result: SeriesResult, path: Path, moves: Sequence[PullMove]) -> PatchConflict:
    """Return the error for a series that does not stand; a request that moved since may be what is missing."""
    failed = [f"{one.patch}: {one.outcome}: {one.detail}" for one in result.records if not one.outcome.stands]
    hint = f"see: patchkit apply {path}"
    if moves:
        hint = f"to take the new head: {moves[0].how_to_take(path)}"
    return PatchConflict("\n".join(["the series does not stand:", *failed, *map(str, moves)]), hint)
