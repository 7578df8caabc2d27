"""`patchkit watch`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from patchkit.cli.options import json_option, recipe_argument, source_option
from patchkit.cli.terminal import emit_line, make_toolkit, say

EXIT_ATTENTION = 1
EXIT_CANNOT_TELL = 125
FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@recipe_argument
@click.option("--since", metavar="REF", required=True, help="The commit or release to compare with.")
@click.option(
    "--axis",
    type=click.Choice(["commits", "releases"]),
    help="What is watched: commits (default for git) or releases (default for packages).",
)
@click.option("--restart", is_flag=True, help="Begin at --since again instead of where the last look ended.")
@click.option("--junit", metavar="FILE", type=FILE, help="Write JUnit XML.")
@click.option("--markdown", metavar="FILE", type=FILE, help="Write Markdown.")
@click.option("--html", metavar="FILE", type=FILE, help="Write one self-contained HTML file.")
@source_option
@json_option
@click.pass_context
def command(context: click.Context, /, recipe: Path, as_json: bool, **chosen: Any) -> int:
    """Run a recipe's repros on what is new upstream, without and with the series.

    Tells where each issue turned: newly-bad, fixed-upstream, still-bad, still-good, absent, conflict, cannot-tell. What
    was judged is kept: the next look with the same --since begins where this one ended. Exit code 0: everything is good
    or patched; 1: something is bad with the series, or the series does not apply; 125: something cannot be told.
    """
    from patchkit.report.html import html
    from patchkit.report.junit import junit
    from patchkit.report.markdown import markdown
    from patchkit.report.watch import event_text, report_text
    from patchkit.tools.cache import write_atomically
    from patchkit.workflows.watch import WatchRequest, watch

    files = {render: chosen.pop(render.__name__) for render in (junit, markdown, html)}

    def tell(event: Mapping[str, Any]) -> None:
        if as_json:
            emit_line(dict(event))
        elif text := event_text(event):
            say(text)

    report = watch(make_toolkit(context), WatchRequest(recipe=recipe, **chosen), tell)
    for render, file in files.items():
        if file is not None:
            write_atomically(file, render(report).encode())
    if not as_json:
        say(report_text(report))
    if report.alarming:
        return EXIT_ATTENTION
    return EXIT_CANNOT_TELL if report.untold else 0
