"""`patchkit bisect`, with `bisect log` and `bisect replay`."""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from patchkit.cli.options import json_option, recipe_argument, source_option
from patchkit.cli.terminal import emit_json, emit_line, json_line, make_toolkit, note, say, settings_of
from patchkit.errors import RequestError

if TYPE_CHECKING:
    from patchkit.cli.live import LiveLine
    from patchkit.workflows.bisect import BisectRequest, Record

EXIT_NOT_FOUND = 1
EXIT_DIFFERS = 1
AXES = ("commits", "releases", "pair", "patches")
FILE = click.Path(dir_okay=False, path_type=Path)
F = TypeVar("F", bound=Callable[..., Any])


class Bisect(click.Command):
    """A verb that is also a group: `log` and `replay` in the place of the recipe are commands of their own."""

    @property
    def inner(self) -> dict[str, click.Command]:
        """Return the commands inside, by their word."""
        return {"log": log, "replay": replay}

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Hand the words over to the command that the first of them names."""
        if args and args[0] in self.inner:
            return self.inner[args[0]].make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


def _check_axis(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is None or value in AXES or re.fullmatch(r"dependency:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", value):
        return value
    raise click.BadParameter(f"{value!r} is none of {', '.join(AXES)}, dependency:NAME", context, parameter)


QUESTION = (
    recipe_argument,
    click.option("--issue", metavar="ISSUE[/REPRO]", default="", help="Needed when the recipe has several."),
    click.option("--good", metavar="REF", default="", help="A commit or release without the issue."),
    click.option("--bad", metavar="REF", default="", help="A newer one with it."),
    click.option(
        "--axis",
        metavar="AXIS",
        callback=_check_axis,
        help="What lies between: commits (default for git), releases (default for packages), pair (commits, "
        "each beside the commit that its files name), dependency:NAME (versions of a package); or patches "
        "(which of the series).",
    ),
    click.option("--at", metavar="REF", default="", help="The commit of patches and dependency [the recipe's]."),
    click.option(
        "--pin",
        type=click.Choice(["newest", "release"]),
        default="newest",
        show_default=True,
        help="With pair: which counts when the files name a commit and a release.",
    ),
    click.option(
        "--series",
        type=click.Choice(["with", "without", "others"]),
        default="others",
        show_default=True,
        help="Patches to apply at each commit; others: all but those that mend the issue.",
    ),
    click.option(
        "--fix-up",
        metavar="REF[,REF]",
        multiple=True,
        help="Carry these commits onto what cannot be tested without them; may be repeated.",
    ),
    click.option("--flaky", is_flag=True, help="Runs may err: weigh many runs (default where the repro says `flaky`)."),
    source_option,
)  # what names a bisect, and so its journal


def report_options(function: F) -> F:
    """Add the files that a bisect can be written to."""
    for name, what in (
        ("markdown", "Write Markdown."),
        ("html", "Write one self-contained HTML file."),
        ("junit", "Write JUnit XML: the confirmed culprit is the case that fails."),
    ):
        function = click.option(f"--{name}", metavar="FILE", type=FILE, help=what)(function)
    return function


def question_options(function: F) -> F:
    """Add the options that name a bisect."""
    for option in reversed(QUESTION):
        function = option(function)
    return function


@click.command(cls=Bisect)
@question_options
@click.option("--jobs", metavar="N", type=click.IntRange(1, 64), default=1, show_default=True, help="Probes at once.")
@click.option(
    "--confidence",
    metavar="P",
    type=click.FloatRange(0.5, 0.9999),
    default=0.99,
    show_default=True,
    help="With --flaky: how sure the answer must be.",
)
@click.option(
    "--confirm",
    metavar="N",
    type=click.IntRange(0, 100),
    default=3,
    show_default=True,
    help="Runs of the culprit that must be bad, and of each of its parents that must be good.",
)
@click.option("--exhaustive", is_flag=True, help="Among commits that cannot be tested, try all that are left.")
@click.option("--ray", metavar="ADDRESS", default="", help="Probe on a Ray cluster; `local` makes one here.")
@click.option("--from-git-log", metavar="FILE", type=FILE, help="Take what `git bisect log` printed as known.")
@click.option("--emit-revert", metavar="NAME", default="", help="Write the confirmed revert as a patch of the library.")
@click.option("--explain", is_flag=True, help="Tell why each commit is probed: bits, cost, odds.")
@report_options
@click.option("--restart", is_flag=True, help="Forget the journal of the same bisect and begin anew.")
@json_option
@click.pass_context
def command(context: click.Context, /, recipe: Path, as_json: bool, explain: bool, **chosen: Any) -> int:
    """Find the first bad commit, release or version of an issue, or the patches that bring it.

    Every finished probe is kept: an interrupted bisect goes on where it stopped when the same command is run again.
    Exit code 0: found and confirmed; 1: a set of suspects, or the ends are not what they were said to be; 130:
    interrupted by Ctrl-C or SIGTERM.

    `patchkit bisect log` and `patchkit bisect replay`, with the same words behind, print the journal and make its
    decisions again.
    """
    from patchkit.cli.worker import answer_here, keep_quiet
    from patchkit.workflows.bisect import BisectRequest, bisect, read_records

    if chosen["from_git_log"] is None:
        _need_ends(context, chosen)
    files = _take_files(context, chosen)
    request = BisectRequest(recipe=recipe, **chosen)
    keep_quiet(request.ray)
    toolkit = make_toolkit(context)
    try:
        with contextlib.ExitStack() as stack:
            live = None
            if sys.stderr.isatty() and not settings_of(context).quiet:
                live = stack.enter_context(_live_line(request))
                toolkit = replace(toolkit, progress=live)
            result = bisect(toolkit, request, lambda event: _tell(event, live, as_json, explain), answer_here)
    except KeyboardInterrupt:  # the line is gone by now
        again = [word for word in sys.argv[1:] if word != "--restart"]
        note(f"to go on from here: {shlex.join(['patchkit', *again])}")
        raise
    if files:
        _write_files(read_records(toolkit, request), files)
    return 0 if result["confirmed"] else EXIT_NOT_FOUND


def _take_files(context: click.Context, chosen: dict[str, Any]) -> dict[str, Path]:
    """Take the options of `report_options` out of those chosen; return the files that were named."""
    files = {name: chosen.pop(name) for name in ("html", "markdown", "junit")}
    named = {name: file for name, file in files.items() if file is not None}
    if named.keys() - {"junit"} and chosen["axis"] == "patches":
        raise click.UsageError("--html and --markdown are not for --axis patches", context)
    return named


def _write_files(records: Sequence[Record], files: Mapping[str, Path]) -> None:
    """Write the reports. Raises `RequestError` for a bisect that is not at its end."""
    from patchkit.report.bisect import bisect_html, bisect_junit, bisect_markdown
    from patchkit.tools.cache import write_atomically

    ended = [(record, record.result) for record in records if record.result is not None]
    if not ended:
        raise RequestError("the bisect is not at its end", "run it again: it goes on where it stopped")
    if "html" in files:
        page = bisect_html([(result, record.events, record.picture()) for record, result in ended])
        write_atomically(files["html"], page.encode())
    if "junit" in files:
        text = bisect_junit([(result, record.events) for record, result in ended])
        write_atomically(files["junit"], text.encode())
    if "markdown" in files:
        text = "\n".join(bisect_markdown(result, record.events) for record, result in ended)
        write_atomically(files["markdown"], text.encode())


def _live_line(request: BisectRequest) -> LiveLine:
    from patchkit.cli.live import LiveLine
    from patchkit.report.bisect import BisectProgress

    return LiveLine(BisectProgress(jobs=request.jobs, confirm=request.confirm))


def _tell(event: Mapping[str, Any], live: LiveLine | None, as_json: bool, explain: bool) -> None:
    """Print an event, and let the line know; questions are printed only for `--explain`."""
    from patchkit.report.bisect import event_text

    if live is not None:
        live.take(event)
    if event["event"] == "ask" and not explain:
        return
    write = live.say if live is not None else say
    write(json_line(dict(event)) if as_json else event_text(event))


@click.command("log")
@question_options
@click.option("--git-log", is_flag=True, help="Print what `git bisect log` would: `git bisect replay` takes it.")
@report_options
@json_option
@click.pass_context
def log(context: click.Context, /, recipe: Path, as_json: bool, git_log: bool, **chosen: Any) -> int:
    """Print the journal of a bisect; the words are those of the bisect.

    With --json every event as it was written, a line each.
    """
    from patchkit.report.bisect import log_text
    from patchkit.workflows.bisect import BisectRequest, read_records

    _need_ends(context, chosen)
    if git_log and as_json:
        raise click.UsageError("--git-log and --json are two formats", context)
    files = _take_files(context, chosen)
    records = read_records(make_toolkit(context), BisectRequest(recipe=recipe, **chosen))
    if files:
        _write_files(records, files)
    if git_log:
        say(records[0].git_log().rstrip("\n"))
        return 0
    for record in records:
        for event in record.events:
            if as_json:
                emit_line(dict(event))
            elif text := log_text({**record.subject.about(), **event}):
                say(text)
    return 0


@click.command("replay")
@question_options
@json_option
@click.pass_context
def replay(context: click.Context, /, recipe: Path, as_json: bool, **chosen: Any) -> int:
    """Make every decision of a bisect's journal again and compare; nothing is run.

    Exit code 0: all decisions are the same; 1: one is not, and it is told.
    """
    from patchkit.workflows.bisect import BisectRequest, read_records

    _need_ends(context, chosen)
    records = read_records(make_toolkit(context), BisectRequest(recipe=recipe, **chosen))
    replays = [record.replay() for record in records]
    decisions = sum(one.decisions for one in replays)
    differing = next((one for one in replays if not one.is_same), None)
    if as_json:
        difference = None if differing is None else {"line": differing.line, "message": differing.difference}
        emit_json({"decisions": decisions, "same": differing is None, "difference": difference})
    elif differing is None:
        say(f"{decisions} decisions, all as in the journal")
    else:
        say(f"line {differing.line} of the journal: {differing.difference}")
    return 0 if differing is None else EXIT_DIFFERS


def _need_ends(context: click.Context, chosen: dict[str, Any]) -> None:
    if chosen["axis"] == "patches":
        return
    for name in ("good", "bad"):
        if not chosen[name]:
            raise click.UsageError(f"Missing option '--{name}'.", context)
