"""`patchkit export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from patchkit.cli.options import at_option, json_option, locked_option, recipe_argument, source_option, upstream_option
from patchkit.cli.terminal import emit_json, make_toolkit, note, say, visible

if TYPE_CHECKING:
    from patchkit.workflows.export import ExportReport, ExportRequest


@click.command(short_help="Write the recipe's series as files that need no patchkit: for git am, or one diff.")
@recipe_argument
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    metavar="DIR",
    required=True,
    help="The folder to write: a new or empty one, or one that an earlier export wrote.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["am", "diff"]),
    default="am",
    show_default=True,
    help="Numbered mails for git am, or the whole series as one diff.",
)
@at_option
@locked_option
@upstream_option
@source_option
@json_option
@click.pass_context
def command(context: click.Context, /, as_json: bool, **chosen: Any) -> int:
    """Write the recipe's series as files that need no patchkit: mails for `git am`, or one diff.

    Rewrites, reverts and pull requests are written as what they change in the commit. Applied to it, the files give the
    very tree that `apply` gives; equal inputs give equal bytes. Exit 1 and nothing written when a patch does not stand.
    """
    from patchkit.workflows.export import ExportRequest, export_recipe

    request = ExportRequest(**chosen)
    report = export_recipe(make_toolkit(context), request)
    if as_json:
        emit_json(_document(report, request))
    else:
        _say_report(report, request)
    return 0 if report.tree is not None else 1


def _document(report: ExportReport, request: ExportRequest) -> dict[str, Any]:
    from patchkit.report.json import record_document

    return {
        "at": report.commit.name,
        "commit": report.commit.id,
        "tree": report.tree,
        "series": [record_document(record) for record in report.records],
        "files": [str(request.to / name) for name in report.files],
        "changed": report.changed,
    }


def _say_report(report: ExportReport, request: ExportRequest) -> None:
    if report.tree is None:
        for record in report.records:
            if not record.outcome.stands:
                say(visible(f"{record.patch}: {record.outcome}: {record.detail}"))
        note("nothing written: see patchkit status")
        return
    say(f"base  {report.commit.name}  commit {report.commit.id[:12]}")
    for name in report.files:
        say(visible(f"  {request.to / name}"))
    say(f"tree  {report.tree}{'' if report.changed else '  (unchanged)'}")
    if request.form == "am" and report.files:
        note(visible(f"on {report.commit.id[:12]}: git am --keep-cr {request.to}/*.patch"))
