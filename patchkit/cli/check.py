"""`patchkit check`: every problem of recipe, patch and issue files, as file:line:column."""

from __future__ import annotations

from pathlib import Path

import click

from patchkit.cli.options import json_option
from patchkit.cli.terminal import emit_json, note, say, visible


@click.command("check", short_help="Check recipe, patch and issue files.")
@click.argument("paths", metavar="FILE…", nargs=-1, required=True, type=click.Path(path_type=Path))
@json_option
def command(paths: tuple[Path, ...], as_json: bool) -> int:
    """Check recipe, patch, issue, rewrite and lock files, and all of them below folders.

    Exits with 0 when everything is valid, 1 with all problems otherwise.
    """
    from dataclasses import asdict

    from patchkit.workflows.check import check_paths

    problems = check_paths(paths)
    if as_json:
        emit_json({"problems": [asdict(problem) for problem in problems]})
        return 1 if problems else 0
    for problem in problems:
        say(visible(str(problem)))
        if problem.hint:
            say(f"  hint: {visible(problem.hint)}")
    note(f"{len(problems)} problem{'s' if len(problems) != 1 else ''}" if problems else "valid")
    return 1 if problems else 0
