"""`patchkit status`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from patchkit.cli.options import json_option, recipe_argument, source_option
from patchkit.cli.terminal import emit_json, make_toolkit, say

if TYPE_CHECKING:
    from patchkit.workflows.status import FirstConflict, StatusReport


@click.command()
@recipe_argument
@click.option(
    "--against",
    metavar="REF",
    multiple=True,
    help="A commit, tag, branch or pull/N to look at; several make a matrix. Default: the recipe's own commit.",
)
@click.option("--range", "span", metavar="A..B", help="Also tell from where to where each patch applies between them.")
@click.option(
    "--first-conflict",
    is_flag=True,
    help="Find the commit at which a patch that does not stand any more stopped to: bisects from the recipe's own "
    "commit, or the begin of --range, with dry runs.",
)
@click.option("--git", metavar="URL", help="RECIPE is a diff, to be looked at on this git repository.")
@click.option(
    "--strip",
    metavar="N",
    type=click.IntRange(0),
    default=1,
    show_default=True,
    help="With --git: leading parts to remove from names in the diff.",
)
@click.option(
    "--symbols",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Look at a downstream package instead: every name of the upstream that the folder's files import, use, "
    "replace or override. With --range also since when a name is gone.",
)
@click.option(
    "--baseline",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="With --symbols: problems in this file do not fail.",
)
@click.option(
    "--write-baseline",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="With --symbols: write the problems of today there, and exit 0.",
)
@source_option
@json_option
@click.pass_context
def command(context: click.Context, /, recipe: Path, as_json: bool, **chosen: Any) -> int:
    """Tell how each patch and hunk stands against other commits, and which commit made it so.

    Exit 0 when every patch (name) stands against every commit, 1 when one does not.
    """
    symbols = {name: chosen.pop(name) for name in ("symbols", "baseline", "write_baseline")}
    if symbols["symbols"] is not None:
        return _tell_symbols(context, recipe, as_json, {**chosen, **symbols})
    if given := [f"--{name.replace('_', '-')}" for name, value in symbols.items() if value]:
        raise click.UsageError(f"{given[0]} needs --symbols PATH")
    from patchkit.workflows.status import StatusRequest, tell_status

    report = tell_status(make_toolkit(context), StatusRequest(recipe=recipe, **chosen))
    if as_json:
        emit_json(_document(report))
    else:
        _say_report(report)
    return 0 if report.stands else 1


def _tell_symbols(context: click.Context, recipe: Path, as_json: bool, chosen: dict[str, Any]) -> int:
    from patchkit.report.status.symbols import symbols_document, symbols_text
    from patchkit.workflows.symbols import SymbolsRequest, tell_symbols

    if chosen["first_conflict"] or chosen["git"]:
        raise click.UsageError(f"{'--git' if chosen['git'] else '--first-conflict'} is about patches, not --symbols")
    names = ("against", "span", "baseline", "write_baseline", "source")
    request = SymbolsRequest(recipe, chosen["symbols"], **{name: chosen[name] for name in names})
    report = tell_symbols(make_toolkit(context), request)
    if as_json:
        emit_json(symbols_document(report))
    else:
        say(symbols_text(report))
    return 0 if report.stands or request.write_baseline else 1


def _document(report: StatusReport) -> dict[str, Any]:
    from patchkit.report.status.json import refs_document, window_document

    document = refs_document(report.refs)
    found = {(one.patch, one.at): one for one in report.first_conflicts}
    for patch in document["patches"]:
        one = found.get((patch["patch"], patch["at"]))
        patch["first_conflict"] = None if one is None else _conflict_document(one)
    return {**document, "windows": [window_document(window) for window in report.windows]}


def _conflict_document(one: FirstConflict) -> dict[str, Any]:
    from patchkit.report.status.json import touch_document

    by: dict[str, Any] = {"commit": None, "subject": None, **(touch_document(one.by) or {})}
    return {**by, "last_good": one.last_good or None, "detail": one.detail, "probes": one.probes}


def _say_report(report: StatusReport) -> None:
    from patchkit.report.status.text import status_text, window_text

    say(status_text(report.refs))
    if report.windows:
        say(window_text(report.windows))
    for one in report.first_conflicts:
        found = f"{one.by} (last good {one.last_good[:12]}, {one.probes} probes)" if one.by else one.detail
        say(f"first conflict of {one.patch} up to {one.at}: {found}")
