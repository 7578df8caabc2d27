"""A lock that moves by itself is no lock: equal inputs write equal bytes, and what is locked is what is used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from patchkit.errors import PatchConflict, RequestError
from patchkit.pipeline import open_recipe, patch_tree, resolve_commit
from patchkit.recipe.lock import LockedPull, dump_lock, read_lock
from patchkit.stack.carry.compare import Sign
from patchkit.stack.carry.moved import Movement
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.import_patch import ImportRequest, import_patch
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
    assert lock_recipe(toolkit, world.recipe, "auto").lock.tree == tree
    assert lock_recipe(toolkit, world.recipe, "auto", update=True).lock.tree != tree


def pulling(folder: Path, files: dict[str, str]) -> tuple[World, str]:
    """Build a world with pull request 7, which is one commit on the first one of main; return its head too."""
    world, commits = linear(folder, ["fault"])
    world.recipe.write_text(world.recipe.read_text().replace("[heal]", "[heal, {pull: 7}]"))
    return world, push(world, commits[0], files)


def push(world: World, fork: str, files: dict[str, str], message: str = "the pull request") -> str:
    """Put one commit on a fork, and the pull request on that."""
    world.upstream.branch("work", fork)
    head = world.upstream.commit(files, message, branch="work")
    world.upstream.ref("refs/pull/7/head", "work")
    return head


MOVED = ("side.txt", "first\n")


def test_a_rebased_pull_request_is_told_as_that_and_not_taken(tmp_path: Path, toolkit: Toolkit) -> None:
    world, old = pulling(tmp_path / "world", dict([MOVED]))
    first = lock_recipe(toolkit, world.recipe, "auto")
    assert first.moves == ()
    fork = world.upstream.commit({"other.txt": "1\n"}, "upstream goes on")
    new = push(world, fork, dict([MOVED]))
    kept = lock_recipe(toolkit, world.recipe, "auto")
    (move,) = kept.moves
    assert (move.pull, move.old, move.new, move.movement) == (7, old, new, Movement.REBASED)
    assert [pair.sign for pair in move.pairs] == [Sign.SAME]
    assert [pull.commit for pull in kept.lock.pulls] == [old]
    again = lock_recipe(toolkit, world.recipe, "auto")
    assert (again.changed, again.moves) == (False, kept.moves)
    taken = lock_recipe(toolkit, world.recipe, "auto", update=True)
    assert ([pull.commit for pull in taken.lock.pulls], taken.lock.tree) == ([new], kept.lock.tree)
    after = lock_recipe(toolkit, world.recipe, "auto", update=True)
    assert (after.changed, after.moves) == (False, ())


@pytest.mark.parametrize(
    ("files", "movement"),
    [
        ({"side.txt": "second\n"}, Movement.CHANGED),
        ({"engine.txt": engine(0, "fault") + "more\n", "side.txt": "first\n"}, Movement.CHANGED),
        ({}, Movement.CHANGED),
    ],
)
def test_a_force_push_that_changes_something_is_told_as_that(
    tmp_path: Path, toolkit: Toolkit, files: dict[str, str], movement: Movement
) -> None:
    world, old = pulling(tmp_path / "world", dict([MOVED]))
    lock_recipe(toolkit, world.recipe, "auto")
    push(world, world.upstream.find(f"{old}~1"), files)
    (move,) = lock_recipe(toolkit, world.recipe, "auto").moves
    assert move.movement is movement
    assert all(pair.sign is not Sign.SAME for pair in move.pairs)


def test_lines_that_changed_around_a_pull_request_are_no_other_change(tmp_path: Path, toolkit: Toolkit) -> None:
    world, _ = pulling(tmp_path / "world", {"engine.txt": engine(0, "fault") + "more\n"})
    world.recipe.write_text(world.recipe.read_text().replace("[heal, ", "["))
    lock_recipe(toolkit, world.recipe, "auto")
    fork = world.upstream.commit({"engine.txt": engine(1, "fault", "roof")}, "another line above")
    push(world, fork, {"engine.txt": engine(1, "fault", "roof") + "more\n"})
    (move,) = lock_recipe(toolkit, world.recipe, "auto").moves
    assert move.movement is Movement.SURROUNDINGS


def test_more_commits_on_top_are_told_as_that(tmp_path: Path, toolkit: Toolkit) -> None:
    world, old = pulling(tmp_path / "world", dict([MOVED]))
    lock_recipe(toolkit, world.recipe, "auto")
    push(world, old, {"side.txt": "second\n"}, "and more")
    (move,) = lock_recipe(toolkit, world.recipe, "auto").moves
    assert move.movement is Movement.EXTENDED
    assert [(pair.sign, pair.title) for pair in move.pairs] == [(Sign.SAME, "the pull request"), (Sign.NEW, "and more")]


def test_squashed_commits_are_the_same_change(tmp_path: Path, toolkit: Toolkit) -> None:
    world, first = pulling(tmp_path / "world", dict([MOVED]))
    push(world, first, {"side.txt": "second\n"}, "and more")
    lock_recipe(toolkit, world.recipe, "auto")
    push(world, world.upstream.find(f"{first}~1"), {"side.txt": "second\n"})
    assert lock_recipe(toolkit, world.recipe, "auto").moves[0].movement is Movement.REBASED


def test_an_old_head_that_nobody_has_any_more_stops_the_lock(tmp_path: Path, toolkit: Toolkit) -> None:
    world, _ = pulling(tmp_path / "world", dict([MOVED]))
    lock_recipe(toolkit, world.recipe, "auto")
    path = lock_path(world)
    lock = read_lock(path)
    assert lock is not None
    pulls = [{"upstream": "vllm", "pull": 7, "commit": "1" * 40}]
    path.write_bytes(dump_lock(lock.model_copy(update={"pulls": tuple(map(LockedPull.model_validate, pulls))})))
    with pytest.raises(RequestError, match="the old head is gone") as caught:
        lock_recipe(toolkit, world.recipe, "auto")
    assert "--update" in caught.value.hint
    assert lock_recipe(toolkit, world.recipe, "auto", update=True).lock.pulls == lock.pulls


def test_pull_requests_of_patch_folders_are_held_too(tmp_path: Path, toolkit: Toolkit) -> None:
    world, old = pulling(tmp_path / "world", dict([MOVED]))
    (world.folder / "patches/side").mkdir()
    (world.folder / "patches/side/patch.yaml").write_text("format: 1\ntitle: t\nchange: [{pull: 7}]\n")
    world.recipe.write_text(world.recipe.read_text().replace("{pull: 7}", "side"))
    tree = lock_recipe(toolkit, world.recipe, "auto").lock.tree
    push(world, old, {"side.txt": "second\n"})
    opened = open_recipe(toolkit, world.recipe, locked=True)
    result = patch_tree(opened, resolve_commit(opened))
    assert result.patched is not None
    assert result.patched.id == tree
    assert lock_recipe(toolkit, world.recipe, "auto").moves[0].old == old


def test_a_pull_request_that_a_patch_was_imported_from_is_told_when_it_moved(tmp_path: Path, toolkit: Toolkit) -> None:
    world, old = pulling(tmp_path / "world", dict([MOVED]))
    world.recipe.write_text(world.recipe.read_text().replace(", {pull: 7}", ""))
    import_patch(toolkit, ImportRequest("pull/7", world.recipe, name="side", add=True))
    first = lock_recipe(toolkit, world.recipe, "auto")
    assert first.moves == ()
    new = push(world, world.upstream.find(f"{old}~1"), {"side.txt": "second\n"})
    for update in (False, True):
        again = lock_recipe(toolkit, world.recipe, "auto", update=update)
        (move,) = again.moves
        assert (again.changed, move.patch, move.old, move.new) == (False, "side", old, new)
        assert move.movement is Movement.CHANGED
    assert lock_recipe(replace(toolkit, offline=True), world.recipe, "auto").lock == first.lock
    import_patch(toolkit, ImportRequest("pull/7", world.recipe, name="side", update=True))
    assert lock_recipe(toolkit, world.recipe, "auto").moves == ()


def test_an_imported_pull_request_that_is_gone_hinders_no_lock(tmp_path: Path, toolkit: Toolkit) -> None:
    world, _ = pulling(tmp_path / "world", dict([MOVED]))
    world.recipe.write_text(world.recipe.read_text().replace(", {pull: 7}", ""))
    import_patch(toolkit, ImportRequest("pull/7", world.recipe, name="side", add=True))
    text = (file := world.folder / "patches/side/patch.yaml").read_text()
    file.write_text(text.replace('from: "pull/7"', 'from: "pull/8"'))
    assert lock_recipe(toolkit, world.recipe, "auto").moves == ()


def test_a_conflict_with_the_old_head_tells_that_there_is_a_new_one(tmp_path: Path, toolkit: Toolkit) -> None:
    world, old = pulling(tmp_path / "world", {"engine.txt": engine(0, "fault") + "more\n"})
    lock_recipe(toolkit, world.recipe, "auto")
    fork = world.upstream.commit({"engine.txt": engine(1, "fault") + "less\n"}, "in the way")
    push(world, fork, {"engine.txt": engine(1, "fault") + "less\nmore\n"})
    with pytest.raises(PatchConflict, match=f"pull/7 moved from {old[:12]}") as caught:
        lock_recipe(toolkit, world.recipe, "auto")
    assert "--update" in caught.value.hint
    assert lock_recipe(toolkit, world.recipe, "auto", update=True).changed


def test_a_broken_lock_is_replaced(tmp_path: Path, toolkit: Toolkit) -> None:
    world, _ = pulling(tmp_path / "world", dict([MOVED]))
    lock_path(world).write_text("format: 1\nnonsense: true\n")
    assert lock_recipe(toolkit, world.recipe, "auto").changed


def test_two_recipes_in_a_folder_have_a_lock_each(tmp_path: Path, toolkit: Toolkit) -> None:
    world, _ = linear(tmp_path / "world", ["good", "fault"])
    other = world.recipe.with_name("other.yaml")
    other.write_text(world.recipe.read_text().replace("name: product", "name: other"))
    written = [lock_recipe(toolkit, recipe, "auto").path for recipe in (world.recipe, other)]
    assert len(set(written)) == 2
    assert open_recipe(toolkit, world.recipe, locked=True).lock != open_recipe(toolkit, other, locked=True).lock
