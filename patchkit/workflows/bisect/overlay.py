"""Changes of upstream's own history around a series: a repair carried back before it, a culprit taken back after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from patchkit.pipeline import OpenedRecipe
from patchkit.recipe.library import LoadedPatch
from patchkit.recipe.model import ChangeCherryPick, ChangeRevert, Patch
from patchkit.verdict.verdict import Series


def with_changes(
    opened: OpenedRecipe, series: Series, upstream: str, changes: Sequence[ChangeRevert | ChangeCherryPick]
) -> tuple[OpenedRecipe, Series]:
    """Return the recipe with picks before its series and reverts after it, or alone where the series is left out."""
    loaded = opened.loaded
    added: dict[str, LoadedPatch] = {}
    first = []
    for change in changes:
        if isinstance(change, ChangeRevert):
            name = f"revert-{change.revert[:12]}"
        else:
            name = f"fix-up-{change.cherry_pick[:12]}"
            first.append(name)
        patch = Patch(format=1, title=name, upstream=upstream, change=(change,))
        added[name] = LoadedPatch(name, loaded.folder, patch, {}, name)
    own = () if series == "without" else loaded.recipe.series
    last = [name for name in added if name not in first]
    recipe = loaded.recipe.model_copy(update={"series": (*first, *own, *last)})
    loaded = replace(loaded, recipe=recipe, patches={**loaded.patches, **added})
    return replace(opened, loaded=loaded), "with" if series == "without" else series
