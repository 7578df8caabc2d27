"""`patchkit lock`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from patchkit.cli.options import json_option, recipe_argument, source_option
from patchkit.cli.terminal import emit_json, make_toolkit, say


@click.command()
@recipe_argument
@source_option
@click.option("--dry-run", is_flag=True, help="Write nothing; exit 1 when recipe.lock would change.")
@json_option
@click.pass_context
def command(
    context: click.Context, recipe: Path, source: Literal["auto", "git", "package"], dry_run: bool, as_json: bool
) -> int:
    """Resolve every moving part of a recipe into recipe.lock.

    Upstream commits and trees, sdist hashes, patches, pull request heads, base image digest and the resulting tree.
    `build` and `repro` use the lock when it matches the recipe; with --locked they refuse to run without it.
    """
    from patchkit.workflows.lock import lock_recipe

    result = lock_recipe(make_toolkit(context), recipe, source, dry_run)
    if as_json:
        emit_json({"lock": result.lock.model_dump(mode="json", by_alias=True), "changed": result.changed})
    else:
        state = ("would change" if dry_run else "written") if result.changed else "unchanged"
        say(f"{result.path}: {state}")
        for name, upstream in sorted(result.lock.upstream.items()):
            say(f"  {name:<14} {upstream.ref} {upstream.commit[:12]}")
        say(f"  {'tree':<14} {result.lock.tree[:12]}")
    return 1 if dry_run and result.changed else 0
