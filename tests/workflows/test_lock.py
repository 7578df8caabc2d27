"""A lock that moves by itself is no lock: equal inputs write equal bytes, and what is locked is what is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchkit.errors import PatchConflict, RequestError
from patchkit.pipeline import open_recipe, patch_tree, resolve_commit
from patchkit.recipe.lock import read_lock
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.lock import lock_recipe
from tests.workflows.worlds import World, engine, linear


def lock_path(world: World) -> Path:
    return world.recipe.with_name("recipe.lock")


def test_a_second_lock_changes_no_byte(tmp_path: Path, toolkit: Toolkit) -> None:
    world, commits = linear(tmp_path / "world", ["good", "fault"])
    assert lock_recipe(toolkit, world.recipe, "auto").changed
    first = lock_path(world).read_bytes()
    assert not lock_recipe(toolkit, world.recipe, "auto").changed
    assert lock_path(world).read_bytes() == first
    lock = read_lock(lock_path(world))
    assert lock is not None
    assert lock.upstream["vllm"].commit == commits[1]


def test_what_is_locked_stays_when_upstream_moves(tmp_path: Path, toolkit: Toolkit) -> None:
    world, commits = linear(tmp_path / "world", ["good", "fault"])
    lock_recipe(toolkit, world.recipe, "auto")
    newer = world.upstream.commit({"engine.txt": engine(2, "fault")}, "moves on")
    assert resolve_commit(open_recipe(toolkit, world.recipe, locked=True)).id == commits[1]
    assert lock_recipe(toolkit, world.recipe, "auto", dry_run=True).changed
    lock_recipe(toolkit, world.recipe, "auto")
    assert resolve_commit(open_recipe(toolkit, world.recipe, locked=True)).id == newer


def test_a_lock_of_another_recipe_is_refused_where_a_lock_is_asked_for(tmp_path: Path, toolkit: Toolkit) -> None:
    world, _ = linear(tmp_path / "world", ["good"])
    with pytest.raises(RequestError, match="there is no lock"):
        open_recipe(toolkit, world.recipe, locked=True)
    lock_recipe(toolkit, world.recipe, "auto")
    (world.folder / "patches/heal/heal.patch").write_text("")
    with pytest.raises(RequestError, match="stale: patch heal has changed"):
        open_recipe(toolkit, world.recipe, locked=True)
    assert open_recipe(toolkit, world.recipe).lock is None


def test_a_series_that_does_not_stand_is_not_locked(tmp_path: Path, toolkit: Toolkit) -> None:
    world, _ = linear(tmp_path / "world", ["drifted:fault"])
    with pytest.raises(PatchConflict, match="heal: conflict"):
        lock_recipe(toolkit, world.recipe, "auto")
    assert not lock_path(world).exists()


def test_a_pull_request_stays_at_the_head_that_was_locked(tmp_path: Path, toolkit: Toolkit) -> None:
    world, commits = linear(tmp_path / "world", ["fault"])
    world.recipe.write_text(world.recipe.read_text().replace("[heal]", "[heal, {pull: 7}]"))
    world.upstream.branch("work", commits[0])
    world.upstream.commit({"side.txt": "first\n"}, "the pull request", branch="work")
    world.upstream.ref("refs/pull/7/head", "work")
    tree = lock_recipe(toolkit, world.recipe, "auto").lock.tree
    world.upstream.commit({"side.txt": "pushed again\n"}, "pushed again", branch="work")
    world.upstream.ref("refs/pull/7/head", "work")
    opened = open_recipe(toolkit, world.recipe, locked=True)
    result = patch_tree(opened, resolve_commit(opened))
    assert result.patched is not None
    assert result.patched.id == tree
    assert lock_recipe(toolkit, world.recipe, "auto").lock.tree != tree


def test_two_recipes_in_a_folder_have_a_lock_each(tmp_path: Path, toolkit: Toolkit) -> None:
    world, _ = linear(tmp_path / "world", ["good", "fault"])
    other = world.recipe.with_name("other.yaml")
    other.write_text(world.recipe.read_text().replace("name: product", "name: other"))
    written = [lock_recipe(toolkit, recipe, "auto").path for recipe in (world.recipe, other)]
    assert len(set(written)) == 2
    assert open_recipe(toolkit, world.recipe, locked=True).lock != open_recipe(toolkit, other, locked=True).lock
