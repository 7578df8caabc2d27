"""From a recipe to the patches of one upstream."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchkit.errors import RequestError
from patchkit.recipe.library import LoadedPatch, LoadedRecipe
from patchkit.recipe.model import Patch, Recipe
from patchkit.stack.series import leave_out, load_series

DIFF = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-one\n+two\n"


def patch(folder: Path, slug: str, **values: object) -> LoadedPatch:
    document = {"format": 1, "title": slug, "change": [{"file": "new.py", "source": "new.py"}], **values}
    return LoadedPatch(slug, folder / slug, Patch.model_validate_json(_json(document)), {}, f"sha of {slug}")


def recipe(folder: Path, series: list[object], *patches: LoadedPatch) -> LoadedRecipe:
    upstream = {"vllm": {"package": "vllm", "ref": "v1"}, "other": {"package": "other", "ref": "v2"}}
    document = {"format": 1, "name": "r", "upstream": upstream, "series": series}
    model = Recipe.model_validate_json(_json(document))
    return LoadedRecipe(folder / "recipe.yaml", model, {one.slug: one for one in patches}, {}, (), folder)


def _json(document: object) -> str:
    import json

    return json.dumps(document)


def test_the_order_of_the_recipe_is_kept_and_every_kind_has_a_name(tmp_path: Path) -> None:
    (tmp_path / "fix.patch").write_text(DIFF)
    series: list[object] = [
        "b-patch",
        {"revert": "0123456789abcdef"},
        {"cherry-pick": "abcdef0123456789"},
        {"pull": 7, "exclude": ["tests/**"]},
        {"file": "fix.patch", "when": "vllm < 2"},
        {"patch": "a-patch", "when": "vllm > 1"},
    ]
    loaded = recipe(tmp_path, series, patch(tmp_path, "a-patch", when="vllm > 0"), patch(tmp_path, "b-patch"))
    result = load_series(loaded, "vllm")
    assert [one.name for one in result] == [
        "b-patch",
        "revert 0123456789ab",
        "cherry-pick abcdef012345",
        "pull 7",
        "fix.patch",
        "a-patch",
    ]
    assert result[5].when == ("vllm > 1", "vllm > 0")
    assert result[4].changes[0].when == "vllm < 2"
    assert len({one.sha256 for one in result}) == 6


def test_each_upstream_has_its_own_patches_and_the_main_one_the_rest(tmp_path: Path) -> None:
    mine, theirs = patch(tmp_path, "mine", requires=["theirs"]), patch(tmp_path, "theirs", upstream="other")
    loaded = recipe(tmp_path, ["theirs", {"pull": 7}, "mine"], mine, theirs)
    assert [one.name for one in load_series(loaded, "vllm")] == ["pull 7", "mine"]
    assert [one.name for one in load_series(loaded, "other")] == ["theirs"]
    assert load_series(loaded, "vllm")[1].requires == ()  # what stands on another tree is not asked for on this one


def test_the_hash_of_a_diff_is_that_of_its_bytes_and_options(tmp_path: Path) -> None:
    def sha256(**options: object) -> str:
        return load_series(recipe(tmp_path, [{"file": "fix.patch", **options}]), "vllm")[0].sha256

    (tmp_path / "fix.patch").write_text(DIFF)
    plain = sha256()
    assert sha256() == plain
    assert sha256(strip=0) != plain
    (tmp_path / "fix.patch").write_text(DIFF.replace("two", "zwei"))
    assert sha256() != plain


def test_a_diff_that_cannot_be_read_is_an_error_of_the_request(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"none\.patch: cannot be read"):
        load_series(recipe(tmp_path, [{"file": "none.patch"}]), "vllm")


def test_the_patches_that_name_an_issue_can_be_left_out(tmp_path: Path) -> None:
    loaded = recipe(tmp_path, ["one", "two"], patch(tmp_path, "one", issue=["i", "j"]), patch(tmp_path, "two"))
    series = load_series(loaded, "vllm")
    assert [one.name for one in leave_out(series, "i")] == ["two"]
    assert leave_out(series, "k") == series
