"""`patchkit new`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from patchkit.cli.options import json_option
from patchkit.cli.terminal import emit_json, make_toolkit, note, say, visible

NEXT = {
    "recipe": "fill it in, then: patchkit check {folder} && patchkit apply {folder}",
    "patch": "fill it in, name it in the series of a recipe, then: patchkit apply RECIPE",
    "issue": "fill in repro.py, name it under issues: of a recipe, then: patchkit repro RECIPE --issue {name}",
}


@click.command(short_help="Make a new recipe, patch or issue that says what to fill in.")
@click.argument("kind", type=click.Choice(["recipe", "patch", "issue"]))
@click.argument("name")
@click.option(
    "--in",
    "library",
    type=click.Path(path_type=Path),
    metavar="LIBRARY",
    help="The folder with patches/, issues/ and recipes/. Default: the one that the current folder belongs to.",
)
@json_option
@click.pass_context
def command(
    context: click.Context, kind: Literal["recipe", "patch", "issue"], name: str, library: Path | None, as_json: bool
) -> int:
    """Make a new recipe, patch or issue that passes `patchkit check` and says what to FILL IN.

    Until then the patch is a conflict, and the issue's repro answers 125: it cannot tell. Nothing is overwritten.
    """
    from patchkit.workflows.new import make_new

    report = make_new(make_toolkit(context), kind, name, library)
    files = [str(report.folder / file) for file in report.files]
    if as_json:
        emit_json({"kind": kind, "name": name, "files": files})
        return 0
    for file in files:
        say(visible(file))
    note(visible(NEXT[kind].format(folder=report.folder, name=name)))
    return 0
