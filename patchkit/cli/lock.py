"""`patchkit lock`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from patchkit.cli.options import json_option, recipe_argument, source_option
from patchkit.cli.terminal import emit_json, make_toolkit, note, say, visible

if TYPE_CHECKING:
    from patchkit.stack.carry.moved import PullMove


@click.command()
@recipe_argument
@source_option
@click.option("--dry-run", is_flag=True, help="Write nothing; exit 1 when recipe.lock would change.")
@click.option("--update", is_flag=True, help="Take the new heads of pull requests that moved since the last lock.")
@json_option
@click.pass_context
def command(
    context: click.Context, /, recipe: Path, source: Literal["auto", "git", "package"], as_json: bool, **chosen: bool
) -> int:
    """Resolve every moving part of a recipe into recipe.lock.

    Upstream commits and trees, sdist hashes, patches, pull request heads, base image digest and the resulting tree.
    `build` and `repro` use the lock when it matches the recipe; with --locked they refuse to run without it. A pull
    request that moved since the last lock, by a push or a forced one, is told with what changed in it, and stays where
    it was without --update; so is one that a patch was imported from, which `patchkit import --update` takes.
    """
    from patchkit.workflows.lock import lock_recipe

    dry_run, update = chosen["dry_run"], chosen["update"]
    result = lock_recipe(make_toolkit(context), recipe, source, dry_run, update)
    if as_json:
        moves = [_move_document(move) for move in result.moves]
        lock = result.lock.model_dump(mode="json", by_alias=True)
        emit_json({"lock": lock, "changed": result.changed, "moved": moves})
    else:
        state = ("would change" if dry_run else "written") if result.changed else "unchanged"
        say(f"{result.path}: {state}")
        for name, upstream in sorted(result.lock.upstream.items()):
            say(f"  {name:<14} {upstream.ref} {upstream.commit[:12]}")
        say(f"  {'tree':<14} {result.lock.tree[:12]}")
        for move in result.moves:
            _say_move(move, recipe, update)
    return 1 if dry_run and result.changed else 0


def _say_move(move: PullMove, recipe: Path, update: bool) -> None:
    from patchkit.report.carry.text import range_diff

    taken = update and not move.patch
    say(visible(f"  {move}; {'taken' if taken else f'kept at {move.old[:12]}'}"))
    for line in range_diff(move.pairs):
        say(visible(f"    {line}"))
    if not taken:
        note(visible(f"to take it: {move.how_to_take(recipe)}"))


def _move_document(move: PullMove) -> dict[str, Any]:
    from patchkit.report.carry.json import pairs_document

    about = {
        "upstream": move.upstream,
        "pull": move.pull,
        "from": move.old,
        "to": move.new,
        "patch": move.patch or None,
    }
    return {**about, "movement": str(move.movement), "range_diff": pairs_document(move.pairs)}
