"""Resolve every moving part of a recipe and write it down beside the recipe."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import patchkit
from patchkit.errors import PatchConflict, RemoteUnavailable
from patchkit.image.base import resolve_base_digest
from patchkit.pipeline import OpenedRecipe, Preference, open_recipe, patch_tree
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
from patchkit.recipe.model import SeriesPull
from patchkit.source.commit import Commit
from patchkit.source.source import Source
from patchkit.stack.outcome import SeriesResult
from patchkit.tools.cache import write_atomically
from patchkit.tools.toolkit import Toolkit

TOOLS = ("ast-grep-py", "pygit2")  # what decides how a patch lands


@dataclass(frozen=True)
class LockResult:
    """The lock, where it lies, and whether its bytes changed."""

    path: Path
    lock: Lock
    changed: bool


def lock_recipe(toolkit: Toolkit, path: Path, preference: Preference, dry_run: bool = False) -> LockResult:
    """Write recipe.lock for what the recipe's refs mean now; equal inputs write equal bytes.

    Raises `PatchConflict` when the series does not stand, and what opening the recipe raises.
    """
    opened = open_recipe(toolkit, path, preference, use_lock=False)
    commits = {name: source.resolve(opened.loaded.recipe.upstream[name].ref) for name, source in opened.sources.items()}
    main = commits[opened.loaded.recipe.main_upstream]
    pulls = _freeze_pulls(opened)
    result = patch_tree(opened, main)
    if result.patched is None:
        raise _conflict(result, path)
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
    return _write(lock_path(opened.loaded.path), lock, dry_run)


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
        sdist_sha256=origin.sha256,
    )


def _freeze_pulls(opened: OpenedRecipe) -> tuple[LockedPull, ...]:
    name = opened.loaded.recipe.main_upstream
    numbers = [entry.pull for entry in opened.loaded.recipe.series if isinstance(entry, SeriesPull)]
    return tuple(
        LockedPull(upstream=name, pull=number, commit=opened.sources[name].resolve(f"pull/{number}").id)
        for number in numbers
    )


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


def _conflict(result: SeriesResult, path: Path) -> PatchConflict:
    failed = [f"{one.patch}: {one.outcome}: {one.detail}" for one in result.records if not one.outcome.stands]
    return PatchConflict("the series does not stand:\n" + "\n".join(failed), f"see: patchkit apply {path}")
