"""Open what a bisect names, alone at its journal, and run the session; or read the journal of one.

The state is a journal and nothing else. A killed bisect goes on where it stopped: the same request has the same key.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchkit.errors import PatchkitError, RequestError
from patchkit.pipeline import open_recipe
from patchkit.report.bisect import Moment, Picture
from patchkit.search import Settings, believe
from patchkit.tools.journal import Journal
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.bisect.axes.open import open_subject
from patchkit.workflows.bisect.axes.patches import AXIS, PatchSearch, open_patches, replay_patches, search_patches
from patchkit.workflows.bisect.culprit.emit import check_name, emit_revert
from patchkit.workflows.bisect.journal.events import Event, view
from patchkit.workflows.bisect.journal.gitlog import GitLog, git_log, read_git_log
from patchkit.workflows.bisect.journal.replay import Replay, replay
from patchkit.workflows.bisect.remote import Remote, Worker, answer, open_remote
from patchkit.workflows.bisect.request import BisectRequest, Tell
from patchkit.workflows.bisect.session import Session
from patchkit.workflows.bisect.subject import CommitSubject, Subject


def bisect(toolkit: Toolkit, request: BisectRequest, tell: Tell, worker: Worker | None = None) -> dict[str, Any]:
    """Find the first bad commit and return the result's document, which is also the last event told.

    `worker` answers in the processes of a Ray cluster; without one they get this process's environment variables.

    Raises `RequestError` when the request names something that is not there or another process is at the same bisect.
    """
    told = None if request.from_git_log is None else _read_told(request.from_git_log)
    request = _with_ends(request, told)
    if request.axis == AXIS:
        return _bisect_patches(toolkit, request, tell)
    subject = open_subject(open_recipe(toolkit, request.recipe, request.source), request)
    if request.emit_revert:
        check_name(subject, request.emit_revert)
    told_nodes = _told_nodes(toolkit, request, subject, told)
    with contextlib.ExitStack() as stack:
        remote = None
        if request.ray:
            answers = worker or functools.partial(answer, env=dict(toolkit.env))
            remote = stack.enter_context(open_remote(toolkit, request, subject, answers))
        result = Searches(toolkit, request, tell, remote).run(subject, told_nodes)
    if request.emit_revert:
        try:
            result = _emit(subject, request.emit_revert, result)
        except PatchkitError:
            tell({**result, "emitted": None})  # what was found is told, whatever became of the file
            raise
    tell(result)
    return result


def _emit(subject: Subject, name: str, result: dict[str, Any]) -> dict[str, Any]:
    """Write the revert where it heals the bad end, and say how the recipe takes it up."""
    if result["reverted"] != "good" or not result["confirmed"] or not isinstance(subject, CommitSubject):
        return {**result, "emitted": None, "note": f"{name} is not written: no revert is confirmed"}
    folder = emit_revert(subject, name, result)
    recipe = subject.opened.loaded.path
    return {**result, "emitted": str(folder), "next": f"add `- {name}` to `series:` of {recipe}; {result['next']}"}


def _bisect_patches(toolkit: Toolkit, request: BisectRequest, tell: Tell) -> dict[str, Any]:
    """Find the patches of the series that bring the fault; what is searched there are sets, not a graph."""
    search = open_patches(open_recipe(toolkit, request.recipe, request.source), request)
    with _alone(toolkit, search.key):
        journal = _journal_of(toolkit, search)
        if request.restart:
            journal.clear()
        result = search_patches(search, journal, tell)
    tell(result)
    return result


@dataclass(frozen=True)
class Searches:
    """A search, then what lies inside its answer: the commits of a release, the range behind a pin."""

    toolkit: Toolkit
    request: BisectRequest
    tell: Tell
    remote: Remote | None

    def run(self, subject: Subject, told: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
        """Search a subject and return the result's document."""
        with _alone(self.toolkit, subject.key):
            journal = _journal_of(self.toolkit, subject)
            if self.request.restart:
                journal.clear()
            settings = _settings(self.request, subject)
            session = Session(subject, journal, self.tell, settings, list(journal.read()), self.remote)
            session.begin(told)
            result = session.conclude(session.search())
        inner = subject.inside(result)
        if isinstance(inner, str):
            return {**result, "note": inner} if inner else result
        self.tell({**result, "event": "step"})
        found = replace(self, remote=self.remote and self.remote.inside(result)).run(inner)
        return {**result, "inside": found, "next": found["next"] or result["next"]}


@dataclass(frozen=True)
class Record:
    """What was kept of one search: its subject and the events of its journal."""

    subject: Subject | PatchSearch
    events: tuple[Event, ...]

    def replay(self) -> Replay:
        """Make every decision again."""
        if isinstance(self.subject, PatchSearch):
            return replay_patches(self.subject, self.events)
        return replay(self.subject.graph, self.events)

    @property
    def result(self) -> Event | None:
        """Return the document that the search ended with, None for one that is not at its end."""
        ended = next((event for event in reversed(self.events) if event["event"] == "end"), None)
        return None if ended is None else ended["document"]

    def picture(self) -> Picture:
        """Return what was believed after each probe. Raises `RequestError` for sets of patches."""
        graph, moments = self._line().graph, []
        for at, event in enumerate(self.events, 1):
            if event["event"] in ("probe", "told"):
                seen = view(graph, self.events[:at])
                belief = believe(graph, seen.state, seen.settings)
                moments.append(Moment(event["node"], graph.index.get(event["node"], -1), event["answer"], belief))
        return Picture(graph.nodes, tuple(moments))

    def git_log(self) -> str:
        """Return the journal as what `git bisect log` prints. Raises `RequestError` for what git could not search."""
        about = self.subject.about()
        if about["axis"] != "commits":
            raise RequestError(f"git bisect knows no {about['axis']}", "--git-log is for --axis commits")
        subject = self._line()

        def title(node: str) -> str:
            record = subject.describe(node)
            return record.subject if record else ""

        return git_log(subject.graph, self.events, title)

    def _line(self) -> Subject:
        """Return the subject where it has nodes on a line or graph."""
        if isinstance(self.subject, PatchSearch):
            raise RequestError("--axis patches searches sets, not a line", "leave --html and --markdown out")
        return self.subject


def read_records(toolkit: Toolkit, request: BisectRequest) -> tuple[Record, ...]:
    """Return what was kept of the bisect that a request names, and of the searches inside its answer.

    Raises `RequestError` when there is nothing.
    """
    told = None if request.from_git_log is None else _read_told(request.from_git_log)
    request = _with_ends(request, told)
    opened, records = open_recipe(toolkit, request.recipe, request.source), list[Record]()
    subject: Subject | str = "" if request.axis == AXIS else open_subject(opened, request)
    if request.axis == AXIS and (events := _journal_of(toolkit, search := open_patches(opened, request)).read()):
        records.append(Record(search, events))
    while not isinstance(subject, str):
        events = _journal_of(toolkit, subject).read()
        if not events:
            break
        records.append(Record(subject, events))
        subject = subject.inside(records[-1].result) if records[-1].result else ""
    if not records:
        what = "of --axis patches" if request.axis == AXIS else f"from {request.good} to {request.bad}"
        message = f"{request.recipe}: no journal of a bisect {what}"
        raise RequestError(message, "give the words of that bisect; a recipe or issue that changed since begins anew")
    return tuple(records)


def _journal_of(toolkit: Toolkit, subject: Subject | PatchSearch) -> Journal:
    return Journal(toolkit.cache.folder("bisects", subject.key) / "journal.jsonl")


def _settings(request: BisectRequest, subject: Subject) -> Settings:
    return Settings(
        slots=request.jobs,
        confirmations=request.confirm,
        flaky=subject.flaky,
        confidence=request.confidence,
        metric=subject.measures,
        least_bits=0.0 if request.exhaustive else Settings().least_bits,
    )


def _read_told(file: Path) -> GitLog:
    try:
        return read_git_log(file.read_text(encoding="utf-8", errors="replace"), str(file))
    except OSError as error:
        raise RequestError(f"{file}: cannot be read: {error.strerror}", "`git bisect log > FILE` writes it") from error


def _with_ends(request: BisectRequest, told: GitLog | None) -> BisectRequest:
    """Return the request with the ends of the git log where it names none itself."""
    if told is None:
        return request
    good, bad = request.good or told.end("good"), request.bad or told.end("bad")
    if not good or not bad:
        word = "good" if bad else "bad"
        raise RequestError(f"{request.from_git_log}: says of no commit that it is {word}", f"name one with --{word}")
    return replace(request, good=good, bad=bad)


def _told_nodes(
    toolkit: Toolkit, request: BisectRequest, subject: Subject, told: GitLog | None
) -> tuple[tuple[str, str], ...]:
    """Return nodes and answers of a git log; the ends are asked anew whatever it says of them.

    So are skips where there are fix-ups: git had none.
    """
    if told is None:
        return ()
    if subject.about()["axis"] != "commits":
        raise RequestError(f"a git log says nothing of {subject.about()['axis']}", "it is for --axis commits")
    graph = subject.graph
    inside = [mark for mark in told.marks if mark.revision in graph.index]
    outside = len({mark.revision for mark in told.marks} - {mark.revision for mark in inside} - {request.good})
    if outside:
        toolkit.progress.warn(
            f"{request.from_git_log}: {outside} of its marks lie outside the range: not used",
            "only whole ids of commits between the ends count",
        )
    kept = (mark for mark in inside if mark.answer != "skip" or not request.fix_up)
    return tuple((mark.revision, mark.answer) for mark in kept if mark.revision != graph.bad)


@contextlib.contextmanager
def _alone(toolkit: Toolkit, key: str) -> Iterator[None]:
    """Keep other processes off one journal."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(toolkit.cache.lock(f"bisects-{key}", timeout_seconds=0))
        except TimeoutError as error:
            raise RequestError("another process is at the same bisect", "wait for it, or end it") from error
        yield
