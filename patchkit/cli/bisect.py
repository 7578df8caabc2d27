"""`patchkit bisect`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from patchkit.cli.options import json_option, recipe_argument, source_option
from patchkit.cli.terminal import emit_line, make_toolkit, note, say

EXIT_NOT_FOUND = 1


@click.command()
@recipe_argument
@click.option("--issue", metavar="ISSUE[/REPRO]", default="", help="Needed when the recipe has more than one.")
@click.option("--good", metavar="REF", required=True, help="A commit or release without the issue.")
@click.option("--bad", metavar="REF", required=True, help="A newer one with it.")
@click.option(
    "--axis",
    type=click.Choice(["commits", "releases"]),
    help="What lies between: commits (default for git) or releases (default for packages).",
)
@click.option(
    "--series",
    type=click.Choice(["with", "without", "others"]),
    default="others",
    show_default=True,
    help="Patches to apply at each commit; others: all but those that mend the issue.",
)
@click.option("--jobs", metavar="N", type=click.IntRange(1, 64), default=1, show_default=True, help="Probes at once.")
@click.option("--flaky", is_flag=True, help="Runs may err: weigh many runs (default where the repro says `flaky`).")
@click.option(
    "--confidence",
    metavar="P",
    type=click.FloatRange(0.5, 0.9999),
    default=0.99,
    show_default=True,
    help="With --flaky: how sure the answer must be.",
)
@click.option("--restart", is_flag=True, help="Forget the journal of the same bisect and begin anew.")
@source_option
@json_option
@click.pass_context
def command(context: click.Context, /, recipe: Path, as_json: bool, **chosen: Any) -> int:
    """Find the first bad commit or release of an issue.

    Every finished probe is kept: an interrupted bisect goes on where it stopped when the same command is run again.
    Exit code 0: found and confirmed; 1: a set of suspects, or the ends are not what they were said to be.
    """
    from patchkit.report.bisect import event_text
    from patchkit.workflows.bisect import BisectRequest, bisect

    request = BisectRequest(recipe=recipe, **chosen)
    try:
        result = bisect(
            make_toolkit(context), request, lambda event: emit_line(dict(event)) if as_json else say(event_text(event))
        )
    except KeyboardInterrupt:
        again = [word for word in sys.argv[1:] if word != "--restart"]
        note(f"to go on from here: {shlex.join(['patchkit', *again])}")
        raise
    return 0 if result["confirmed"] else EXIT_NOT_FOUND
