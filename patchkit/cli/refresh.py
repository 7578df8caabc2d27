"""`patchkit refresh`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from patchkit.cli.options import at_option, json_option, recipe_argument, source_option, upstream_option
from patchkit.cli.terminal import emit_json, make_toolkit, note, say, visible

if TYPE_CHECKING:
    from patchkit.workflows.refresh import RefreshReport


@click.command(short_help="Rewrite the diffs of a series against the tree where they now land.")
@recipe_argument
@click.argument("patches", metavar="[PATCH]…", nargs=-1)
@at_option
@click.option("--dry-run", is_flag=True, help="Write nothing; exit 1 when a file would change.")
@upstream_option
@source_option
@json_option
@click.pass_context
def command(context: click.Context, /, recipe: Path, as_json: bool, **chosen: Any) -> int:
    """Rewrite the diffs of a series against the tree where they now land, and show what changed in them.

    Without PATCH all of them. Headers and messages stay as they are; ids are written in full, stat and signature left
    out; a second run changes no byte. What needs a person (review, conflict) is refused with what to do next, and then
    nothing is written. Exit 0 when all are fresh, 1 when one cannot be.
    """
    from patchkit.workflows.refresh import RefreshRequest, refresh_recipe

    request = RefreshRequest(recipe=recipe, **chosen)
    report = refresh_recipe(make_toolkit(context), request)
    if as_json:
        emit_json(_document(report))
    else:
        _say_report(report, request.dry_run)
    changes = any(patch.changed for patch in report.patches)
    return 0 if report.stands and not (request.dry_run and changes) else 1


def _document(report: RefreshReport) -> dict[str, Any]:
    from patchkit.report.carry.json import refreshed_document

    return {
        "at": report.commit.name,
        "commit": report.commit.id,
        "patches": [refreshed_document(patch) for patch in report.patches],
        "blocked_by": list(report.blocked),
        "written": [str(path) for path in report.written],
    }


def _say_report(report: RefreshReport, dry_run: bool) -> None:
    from patchkit.report.carry.text import refreshed_lines

    written = report.stands and not dry_run
    for patch in report.patches:
        for line in refreshed_lines(patch, written):
            say(visible(line))
    if report.blocked:
        note(f"nothing written: before them, {', '.join(report.blocked)} of the series does not stand")
    elif not report.stands:
        refused = [patch.patch for patch in report.patches if patch.refused]
        note(f"nothing written: {', '.join(refused)} cannot be refreshed")
