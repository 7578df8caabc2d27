"""`patchkit triage`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from patchkit.cli.options import json_option
from patchkit.cli.terminal import emit_json, make_toolkit, say

if TYPE_CHECKING:
    from patchkit.diagnosis.diagnose import Diagnosis
    from patchkit.diagnosis.matching import Match
    from patchkit.diagnosis.progress import Progress
    from patchkit.diagnosis.root_cause import RootCause
    from patchkit.workflows.triage import LogSource, TriageReport

COLUMN = 12
MOST_RANKS_TOLD = 16
MOST_CHARACTERS_TOLD = 300  # of a message; --json has all of it


@click.command()
@click.argument("log", metavar="LOG")
@click.option("--before", metavar="OLD", help="An older log: tell whether its failure is the same, gone, or moved on.")
@json_option
@click.pass_context
def command(context: click.Context, log: str, before: str | None, as_json: bool) -> int:
    """Find the root cause in a vLLM log, and the known issue, patch and recipe for it.

    LOG is a file, or - for stdin: `docker logs NAME 2>&1 | patchkit triage -`. Give the log of all processes; several
    nodes may be interleaved. Exit 0: there is a root cause, known or not. Exit 1: the log has no failure.
    """
    from patchkit.report.text import flatten
    from patchkit.workflows.triage import triage_log

    if log == before == "-":
        raise click.UsageError("only one of the two logs can be stdin")
    report = triage_log(make_toolkit(context), _open_source(log), None if before is None else _open_source(before))
    if as_json:
        emit_json(_document(report))
    else:
        for name, text in _rows(report):
            say(f"{name:<{COLUMN}}{flatten(text)}".rstrip())
    return 0 if report.diagnosis.root_cause else 1


def _open_source(name: str) -> LogSource:
    from patchkit.workflows.triage import LogSource

    return LogSource("stdin", sys.stdin.buffer) if name == "-" else LogSource(name)


def _document(report: TriageReport) -> dict[str, Any]:
    """Return the report as JSON; `before` and `change` only where there is an older log."""
    diagnosis = report.diagnosis
    document: dict[str, Any] = {
        **_diagnosis_document(diagnosis),
        "matches": [_match_document(match) for match in report.matches],
        "facts": diagnosis.progress.facts,
        "starts": diagnosis.starts,
        "start": diagnosis.start,
        "next": list(report.next_steps),
    }
    if report.before is not None:
        document |= {"change": str(report.change), "before": _diagnosis_document(report.before)}
    return document


def _diagnosis_document(diagnosis: Diagnosis) -> dict[str, Any]:
    cause, progress = diagnosis.root_cause, diagnosis.progress
    return {
        "root_cause": None if cause is None else _cause_document(cause, diagnosis.ranks_total),
        "progress": {
            "stage": progress.stage,
            "done": progress.done,
            "total": progress.total,
            "part": progress.part,
        },
    }


def _cause_document(cause: RootCause, ranks_total: int) -> dict[str, Any]:
    frame = cause.frame
    shown = None if frame is None else {**asdict(frame), "path": frame.product_path or frame.path}
    return {
        "kind": cause.kind or None,
        "sentence": cause.sentence,
        "hint": cause.hint,
        "type": cause.failure.root.type or None,
        "message": cause.message,
        "chain": [str(raised) for raised in cause.failure.chain],
        "frame": shown,
        "certain": cause.certain,
        "rank": cause.rank or None,
        "ranks": list(cause.ranks),
        "ranks_failed": cause.ranks_failed,
        "ranks_total": ranks_total or None,
        "line": cause.failure.line,
    }


def _match_document(match: Match) -> dict[str, Any]:
    issue = match.issue
    return {
        "issue": issue.slug,
        "title": issue.title,
        "is_cause": match.is_cause,
        "signature": match.signature,
        "line": match.line,
        "patches": list(issue.patches),
        "recipes": list(issue.recipes),
        "links": list(issue.links),
    }


def _rows(report: TriageReport) -> Iterator[tuple[str, str]]:
    """Yield what people read: a name and a text for each row."""
    diagnosis = report.diagnosis
    cause = diagnosis.root_cause
    if cause is None:
        yield "root cause", "none: the log has no failure"
    else:
        yield from _cause_rows(cause, diagnosis.ranks_total)
    if diagnosis.starts > 1:
        yield "start", f"{diagnosis.start} of {diagnosis.starts} in this log"
    yield "got to", _tell_progress(diagnosis.progress)
    if facts := _tell_facts(diagnosis.progress.facts):
        yield "seen", facts
    for match in report.matches:
        yield from _match_rows(match)
    if cause is not None and not any(match.is_cause for match in report.matches):
        yield "issue", "none of the library"
    if report.before is not None:
        yield from _change_rows(report)
    for step in report.next_steps:
        yield "next", step


def _cause_rows(cause: RootCause, ranks_total: int) -> Iterator[tuple[str, str]]:
    kind = cause.failure.root.type
    message = cause.message
    message = message if len(message) <= MOST_CHARACTERS_TOLD else f"{message[:MOST_CHARACTERS_TOLD]} …"
    yield "root cause", f"{kind}: {message}" if kind and message else kind or message
    if cause.frame is not None:
        yield "frame", str(cause.frame)
        if cause.frame.code:
            yield "", cause.frame.code
    yield "line", str(cause.failure.line)
    if cause.rank:
        yield "rank", _tell_ranks(cause, ranks_total)
    if cause.kind:
        yield "kind", f"{cause.kind}: {cause.sentence}"
    if not cause.certain:
        yield "", "only seen from afar: the process that failed first is not in this log, or said nothing"


def _tell_ranks(cause: RootCause, ranks_total: int) -> str:
    """Say which rank failed first and which failed alike: `TP3 first, the same on 7 of 8: TP0, TP1 …`."""
    if cause.ranks_failed < 2:
        of = f", alone of {ranks_total}" if ranks_total > 1 and cause.ranks else ""
        return f"{cause.rank}{of}"
    of = f" of {ranks_total}" if ranks_total >= cause.ranks_failed else ""
    others = ", ".join(cause.ranks[1 : MOST_RANKS_TOLD + 1]) + (" …" if len(cause.ranks) > MOST_RANKS_TOLD + 1 else "")
    return f"{cause.rank} first, the same on {cause.ranks_failed}{of} ranks" + (f": also {others}" if others else "")


def _tell_facts(facts: dict[str, str]) -> str:
    """Say what the log shows of version, model and deployment, but not what is the default."""
    told = [f"{name.replace('_', ' ')} {value}" for name, value in facts.items() if value not in ("1", "None", "auto")]
    return ", ".join(told)


def _tell_progress(progress: Progress) -> str:
    counts = f", {progress.done} of {progress.total}" if progress.total else ""
    part = f", {progress.part}" if progress.part else ""
    return f"{progress.stage or 'unknown: no line tells it'}{counts}{part}"


def _match_rows(match: Match) -> Iterator[tuple[str, str]]:
    issue = match.issue
    yield "issue", f"{issue.slug}: {issue.title}" + ("" if match.is_cause else " (of another failure in this log)")
    yield "patch", ", ".join(issue.patches) or "none"
    yield "recipe", ", ".join(issue.recipes) or "none"


def _change_rows(report: TriageReport) -> Iterator[tuple[str, str]]:
    from patchkit.diagnosis.progress import Change

    before, now = report.before, report.diagnosis
    was = _tell_progress(before.progress) if before else ""
    ways = f"from {was} to {_tell_progress(now.progress)}"
    yield (
        "before",
        {
            Change.SAME: "the same failure",
            Change.MOVED_ON: f"moved on {ways}",
            Change.WENT_BACK: f"went back {ways}",
            Change.OTHER: "another failure in the same place",
            Change.GONE: f"gone: failed at {was}, and this log has no failure",
            Change.NEW: "new: the older log has no failure",
            Change.NONE: "neither log has a failure",
        }[report.change or Change.NONE],
    )
    if report.change in (Change.MOVED_ON, Change.WENT_BACK, Change.OTHER) and now.root_cause and before:
        old = before.root_cause
        yield "", f"was: {old.failure.root.type}: {old.message}" if old else ""
