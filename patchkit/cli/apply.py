"""`patchkit apply`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from patchkit.cli.options import at_option, json_option, locked_option, recipe_argument, source_option
from patchkit.cli.terminal import emit_json, make_toolkit, note, say, visible

if TYPE_CHECKING:
    from patchkit.workflows.apply import ApplyReport


@click.command()
@recipe_argument
@at_option
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write the patched tree to this folder: a new or empty one, or one that an earlier apply wrote.",
)
@click.option("--dry-run", is_flag=True, help="Write nothing, also with --to.")
@locked_option
@source_option
@json_option
@click.pass_context
def command(context: click.Context, /, recipe: Path, as_json: bool, **options: Any) -> int:
    """Apply the recipe's series to the tree of a commit and tell what became of every patch.

    Exit 0 when all patches stand. Exit 1 when one does not: all are tried and told, nothing is written.
    """
    from patchkit.report.json import series_document
    from patchkit.workflows.apply import ApplyRequest, apply_recipe

    report = apply_recipe(make_toolkit(context), ApplyRequest(recipe=recipe, **options))
    if as_json:
        written = None if report.written is None else str(report.written)
        emit_json({**series_document(report.result, report.base), "written": written})
    else:
        _say_report(report)
    return 0 if report.result.patched is not None else 1


def _say_report(report: ApplyReport) -> None:
    """Print the base, one row a patch, and the tree that results."""
    from patchkit.report.text import series_table

    base, patched = report.base, report.result.patched
    say(f"base  {base.commit.name}  commit {base.commit.id[:12]}  tree {base.id[:12]}")
    say(series_table(report.result))
    if patched is None:
        failed = [record.patch for record in report.result.records if not record.outcome.stands]
        note(f"no result: {', '.join(failed)} {'does' if len(failed) == 1 else 'do'} not stand")
        return
    say(f"tree  {patched.id}")
    if report.written is not None:
        say(f"written to {visible(str(report.written))}")
