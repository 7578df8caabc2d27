"""Changes of upstream's own history as the last patch of a series: a culprit taken back, a repair carried back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from patchkit.pipeline import OpenedRecipe
from patchkit.recipe.library import LoadedPatch
from patchkit.recipe.model import ChangeCherryPick, ChangeRevert, Patch
from patchkit.verdict.verdict import Series


def with_last(
    opened: OpenedRecipe, series: Series, upstream: str, changes: Sequence[ChangeRevert | ChangeCherryPick]
) -> tuple[OpenedRecipe, Series]:
    """Return the recipe with changes after its series, or as the only ones where the series is left out."""
    loaded = opened.loaded
    added = {}
    for change in changes:
        if isinstance(change, ChangeRevert):
            name = f"revert-{change.revert[:12]}"
        else:
            name = f"fix-up-{change.cherry_pick[:12]}"
        patch = Patch(format=1, title=name, upstream=upstream, change=(change,))
        added[name] = LoadedPatch(name, loaded.folder, patch, {}, name)
    before = () if series == "without" else loaded.recipe.series
    recipe = loaded.recipe.model_copy(update={"series": (*before, *added)})
    loaded = replace(loaded, recipe=recipe, patches={**loaded.patches, **added})
    return replace(opened, loaded=loaded), "with" if series == "without" else series
