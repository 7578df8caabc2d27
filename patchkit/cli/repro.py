"""`patchkit repro`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from patchkit.cli.options import fresh_option, json_option, locked_option, recipe_argument, source_option
from patchkit.cli.terminal import emit_json, make_toolkit, note, say

if TYPE_CHECKING:
    from patchkit.workflows.repro import ReproReport

EXIT_REMOVABLE = 1
EXIT_CANNOT_TELL = 125
FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@recipe_argument
@click.option("--issue", "issues", multiple=True, metavar="I[/REPRO]", help="Only this issue, or one repro of it.")
@click.option(
    "--at",
    metavar="REF",
    help="Tag, branch, commit id or pull/N instead of the recipe's ref; `.` is the commit checked out here.",
)
@click.option(
    "--series",
    type=click.Choice(["both", "with", "without", "others"]),
    default="both",
    show_default=True,
    help="Which tree: with the recipe's series, without it, both, or with all patches but the issue's own.",
)
@click.option(
    "--leave-one-out",
    is_flag=True,
    help="Remove each patch in turn (with those that require it) and tell which ones no repro misses: exit 1.",
)
@click.option("--markdown", metavar="FILE", type=FILE, help="With --leave-one-out: write Markdown.")
@fresh_option
@locked_option
@source_option
@json_option
@click.pass_context
def command(context: click.Context, /, recipe: Path, as_json: bool, **options: Any) -> int:
    """Run the recipe's repros, without the series and with it.

    An issue must be bad without the series and good with it (or as its `expects` says): exit 0. Exit 1: it was tested
    and is not so. Exit 125: cannot be told. With one `--series` the code is what `git bisect run` reads, 1 for bad:

    \b
      git bisect run patchkit repro RECIPE --issue I --series without --at .
    """
    leave_one_out, markdown = options.pop("leave_one_out"), options.pop("markdown")
    if leave_one_out:
        return _leave_one_out(context, recipe, as_json, {**options, "markdown": markdown})
    if markdown:
        raise click.UsageError("--markdown is for --leave-one-out")
    from patchkit.report.json import verdict_document
    from patchkit.workflows.repro import ReproRequest, run_repros

    request = ReproRequest(
        recipe=recipe,
        source=options["source"],
        issues=options["issues"],
        at=options["at"],
        series=options["series"],
        fresh=options["fresh"],
        locked=options["locked"],
    )
    report = run_repros(make_toolkit(context), request)
    if as_json:
        problems = [vars(problem) for problem in report.problems]
        emit_json({"verdicts": [verdict_document(one) for one in report.verdicts], "problems": problems})
    else:
        _say_report(report)
    return report.exit_code


def _leave_one_out(context: click.Context, recipe: Path, as_json: bool, options: dict[str, Any]) -> int:
    """Print which patches are needed. Return 1 when one seems not to be, 125 when one cannot be told, else 0."""
    from patchkit.report.necessity import necessity_document, necessity_markdown, necessity_text
    from patchkit.tools.cache import write_atomically
    from patchkit.verdict.expectation import Need
    from patchkit.workflows.necessity import NecessityRequest, find_necessity

    if options.pop("series") != "both":
        raise click.UsageError("--leave-one-out chooses the series itself: leave out --series")
    markdown = options.pop("markdown")
    report = find_necessity(make_toolkit(context), NecessityRequest(recipe=recipe, **options))
    if markdown is not None:
        write_atomically(markdown, necessity_markdown(report).encode())
    if as_json:
        emit_json(necessity_document(report))
    else:
        say(necessity_text(report))
    if Need.REMOVABLE in report.needs:
        return EXIT_REMOVABLE
    return EXIT_CANNOT_TELL if Need.CANNOT_TELL in report.needs else 0


def _say_report(report: ReproReport) -> None:
    """Print one row a verdict, then what does not fit, and where the logs are of what needs a look."""
    from patchkit.report.text import verdict_table

    say(verdict_table(report.verdicts))
    for text in report.notes:
        say(text)
    for problem in report.problems:
        say(f"error of the issue: {problem}")
        note(f"hint: {problem.hint}")
    trouble = [verdict for verdict in report.verdicts if verdict.answer == "skip" and verdict.evidence]
    for verdict in trouble:
        say(f"log of {verdict.issue}/{verdict.repro} {verdict.series}: {verdict.evidence}/run-1.log")
