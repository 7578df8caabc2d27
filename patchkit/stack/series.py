"""From a recipe to the patches of one upstream, in order, ready to be applied at any commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path

from patchkit.errors import RequestError
from patchkit.recipe.library import LoadedPatch, LoadedRecipe
from patchkit.recipe.model import (
    Change,
    ChangeCherryPick,
    ChangePatch,
    ChangePull,
    ChangeRevert,
    RewriteStep,
    SeriesFile,
    SeriesPatch,
)
from patchkit.tools.cache import digest_file, digest_of


@dataclass(frozen=True)
class StackPatch:
    """One patch of a series. All of `when` must hold, then the first of `changes` whose own `when` holds is applied.

    Where `remove_when` holds the patch is not needed any more, which is told and changes nothing. `folder` is what the
    changes' file names are relative to; `rewrites` are the steps by the name of their file.
    """

    name: str
    folder: Path
    changes: tuple[Change, ...]
    sha256: str
    when: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    issues: tuple[str, ...] = ()
    rewrites: Mapping[str, tuple[RewriteStep, ...]] = field(default_factory=dict)
    heads: Mapping[int, str] = field(default_factory=dict)  # commits that pull requests are frozen to
    remove_when: str | None = None


def load_series(loaded: LoadedRecipe, upstream: str) -> tuple[StackPatch, ...]:
    """Return the patches of one upstream in the recipe's order.

    A patch folder names its upstream; every other entry belongs to the recipe's main one. Raises `RequestError` when a
    diff of the recipe cannot be read.
    """
    is_main = upstream == loaded.recipe.main_upstream
    elsewhere = {slug for slug, patch in loaded.patches.items() if patch.patch.upstream != upstream}
    series = []
    for entry in loaded.recipe.series:
        if isinstance(entry, str | SeriesPatch):
            slug, when = (entry, None) if isinstance(entry, str) else (entry.patch, entry.when)
            if slug not in elsewhere:
                series.append(_from_folder(loaded.patches[slug], when, elsewhere))
        elif is_main:
            series.append(_from_entry(loaded.path.parent, entry))
    return tuple(series)


def leave_out(series: Sequence[StackPatch], issue: str) -> tuple[StackPatch, ...]:
    """Return the series without the patches that name an issue as theirs."""
    return tuple(patch for patch in series if issue not in patch.issues)


def freeze_pulls(series: Sequence[StackPatch], heads: Mapping[int, str]) -> tuple[StackPatch, ...]:
    """Return the series with pull requests held at the commits that a lock names, by number."""
    return tuple(replace(patch, heads=heads) for patch in series)


def _from_folder(loaded: LoadedPatch, when: str | None, elsewhere: AbstractSet[str]) -> StackPatch:
    patch = loaded.patch
    return StackPatch(
        name=loaded.slug,
        folder=loaded.folder,
        changes=patch.change,
        sha256=loaded.sha256,
        when=tuple(condition for condition in (when, patch.when) if condition is not None),
        requires=tuple(slug for slug in patch.requires if slug not in elsewhere),  # those stand on another tree
        issues=patch.issue,
        rewrites=loaded.rewrites,
        remove_when=patch.remove_when,
    )


def _from_entry(folder: Path, entry: SeriesFile | ChangeRevert | ChangeCherryPick | ChangePull) -> StackPatch:
    """Return the patch of an entry that has no folder of its own."""
    document = {"entry": entry.model_dump(mode="json")}
    if isinstance(entry, SeriesFile):
        options = {"exclude": entry.exclude, "strip": entry.strip, "root": entry.root, "when": entry.when}
        change: Change = ChangePatch.model_validate({"patch": entry.file, **options})
        return StackPatch(
            entry.file, folder, (change,), digest_of({**document, "content": _digest(folder / entry.file)})
        )
    if isinstance(entry, ChangeRevert):
        name = f"revert {entry.revert[:12]}"
    elif isinstance(entry, ChangeCherryPick):
        name = f"cherry-pick {entry.cherry_pick[:12]}"
    else:
        name = f"pull {entry.pull}"
    return StackPatch(name, folder, (entry,), digest_of(document))


def _digest(path: Path) -> str:
    try:
        return digest_file(path)
    except OSError as error:
        raise RequestError(f"{path}: cannot be read: {error.strerror}") from error
