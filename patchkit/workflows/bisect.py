"""Find the first bad commit: run what the search decides through the pipeline, and keep every finished probe.

The state is a journal and nothing else. A killed bisect goes on where it stopped: the same request has the same key.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchkit.environment.open import environment_id
from patchkit.errors import RequestError
from patchkit.pipeline import OpenedRecipe, Preference, Question, environment_request, judge, open_recipe, source_of
from patchkit.recipe.library import LoadedIssue, LoadedRecipe
from patchkit.recipe.lock import recipe_digest
from patchkit.recipe.model import Repro
from patchkit.report.bisect import Tally, answer_document, probe_document
from patchkit.search import (
    Answer,
    CommitGraph,
    Contradiction,
    Probe,
    Settings,
    build_chain,
    build_graph,
    count_suspects,
    decide,
    favour,
    fold,
)
from patchkit.source.commit import Commit
from patchkit.source.source import Axis, Source
from patchkit.tools.cache import digest_of
from patchkit.tools.journal import Journal
from patchkit.tools.toolkit import Toolkit
from patchkit.verdict.evidence import read_evidence
from patchkit.verdict.verdict import Reason, Series, Verdict
from patchkit.verdict.workers import Job, Workers

Tell = Callable[[Mapping[str, Any]], None]
RETRIES = 2  # of a probe that the machine spoiled: a third failure in a row is no accident


@dataclass(frozen=True)
class BisectRequest:
    """What to look for, and how. `axis` None: releases for a package, commits for git."""

    recipe: Path
    source: Preference
    issue: str
    good: str
    bad: str
    axis: Axis | None = None
    series: Series = "others"
    jobs: int = 1
    restart: bool = False
    flaky: bool = False
    confidence: float = 0.99


@dataclass(frozen=True)
class Subject:
    """The request with everything that it names at hand."""

    opened: OpenedRecipe
    issue: LoadedIssue
    repro: Repro
    source: Source
    axis: Axis
    series: Series
    good: Commit
    bad: Commit
    graph: CommitGraph
    flaky: bool

    def ask(self, node: str, fresh: bool) -> Verdict:
        """Return the verdict at a node; a failure of the machine is tried again."""
        commit = self.source.resolve(node)
        question = Question(commit, self.issue, self.repro, self.series, fresh)
        for _ in range(RETRIES):
            verdict = judge(self.opened, question)
            if verdict.reason is not Reason.INFRASTRUCTURE:
                return verdict
        return judge(self.opened, question)

    @property
    def key(self) -> str:
        """Name the question by everything that the answers depend on."""
        opened = self.opened
        return digest_of(
            {
                "recipe": recipe_digest(opened.loaded),
                "environment": environment_id(opened.toolkit, environment_request(opened, self.repro)),
                "issue": [self.issue.slug, self.issue.sha256, self.repro.name],
                "ends": [self.good.id, self.bad.id],
                "axis": self.axis,
                "series": self.series,
                **({"flaky": True} if self.flaky else {}),
            }
        )[:32]


def bisect(toolkit: Toolkit, request: BisectRequest, tell: Tell) -> dict[str, Any]:
    """Find the first bad commit and return the result's document, which is also the last event told.

    Raises `RequestError` when the request names something that is not there or another process is at the same bisect.
    """
    subject = _open_subject(open_recipe(toolkit, request.recipe, request.source), request)
    with _alone(toolkit, subject.key):
        journal = Journal(toolkit.cache.folder("bisects", subject.key) / "journal.jsonl")
        if request.restart:
            journal.clear()
        settings = Settings(slots=request.jobs, flaky=subject.flaky, confidence=request.confidence)
        session = Session(subject, journal, tell, settings, list(journal.read()))
        session.begin()
        result = session.conclude(session.search(), request)
    tell(result)
    return result


def choose_issue(loaded: LoadedRecipe, name: str) -> tuple[LoadedIssue, Repro]:
    """Return the repro to search with: the first one meant, which is the cheapest; no name will do for one issue.

    Raises `RequestError` for a name that the recipe does not have, and when it is not clear which issue is meant.
    """
    slugs = list(loaded.issues)
    if not name and len(slugs) != 1:
        hint = f"--issue one of: {', '.join(slugs)}" if slugs else "add `issues: [NAME]` to it"
        what = "which issue?" if slugs else "the recipe names no issue"
        raise RequestError(f"{loaded.path}: {what}", hint)
    return loaded.repros_named(name or slugs[0])[0]


def _open_subject(opened: OpenedRecipe, request: BisectRequest) -> Subject:
    issue, repro = choose_issue(opened.loaded, request.issue)
    source = source_of(opened, issue.issue.upstream)
    axis: Axis = request.axis or ("releases" if source.kind == "package" else "commits")
    good, bad = source.resolve(request.good), source.resolve(request.bad)
    if good.id == bad.id:
        raise RequestError(f"{request.good} and {request.bad} are the same commit", "the ends must differ")
    graph = _make_graph(source, axis, good, bad)
    flaky = request.flaky or repro.flaky
    return Subject(opened, issue, repro, source, axis, request.series, good, bad, graph, flaky)


def _make_graph(source: Source, axis: Axis, good: Commit, bad: Commit) -> CommitGraph:
    try:
        if axis == "releases":
            return build_chain(source.releases(good, bad))
        return build_graph(source.history(good, bad), good.id, bad.id)
    except ValueError as error:
        hint = "the good end must be older than the bad one"
        raise RequestError(f"nothing to search between {good.name} and {bad.name}: {error}", hint) from error


@contextlib.contextmanager
def _alone(toolkit: Toolkit, key: str) -> Iterator[None]:
    """Keep other processes off one journal."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(toolkit.cache.lock(f"bisects-{key}", timeout_seconds=0))
        except TimeoutError as error:
            raise RequestError("another process is at the same bisect", "wait for it, or end it") from error
        yield


@dataclass
class Session:
    """One run of a bisect. `events` are those of the journal and, for this run only, what the machine spoiled."""

    subject: Subject
    journal: Journal
    tell: Tell
    settings: Settings
    events: list[dict[str, Any]]

    def begin(self) -> None:
        """Tell where the search starts; the journal begins with the same event."""
        subject = self.subject
        event = {
            "event": "start",
            "recipe": str(subject.opened.loaded.path),
            **self._about(),
            "good": subject.good.name,
            "bad": subject.bad.name,
            "commits": len(subject.graph.nodes),
            "known": fold(self.events).runs,
        }
        if not self.events:
            self._keep(event)
        self.tell(event)

    def search(self) -> Answer | Contradiction:
        """Run probes until the search knows; what still runs then cannot change the answer and is ended."""
        workers = Workers(self.subject.ask, self.settings.slots)
        try:
            while True:
                decision = decide(self.subject.graph, fold(self.events), self._settings(), workers.running)
                if not isinstance(decision, Probe):
                    return decision
                for node in decision.nodes:
                    workers.start(Job(node, decision.stage, decision.fresh))
                self._record(*workers.wait())
        finally:
            workers.stop()

    def conclude(self, answer: Answer | Contradiction, request: BisectRequest) -> dict[str, Any]:
        """Return the result's document."""
        probes = [event for event in self.events if event["event"] == "probe"]
        commits = {event["node"]: event["commit"] for event in probes}
        first_bad = answer.first_bad if isinstance(answer, Answer) else None
        culprit = commits.get(first_bad) if first_bad else None
        described = self.subject.source.repository.read_commit(culprit) if culprit else None
        tally = Tally(probes=len(probes), nodes=len(commits), builds=0)
        document = answer_document(answer, commits, described, tally) | self._about()
        return document | {"next": self._advice(document, request)}

    def _record(self, job: Job, verdict: Verdict) -> None:
        event = probe_document(job.node, verdict, stage=job.stage, fresh=job.fresh)
        if verdict.reason is Reason.INFRASTRUCTURE:
            self.events.append(event)  # a skip for now; the next run of this bisect tries it again
        else:
            self._keep(event)
            if not any(known["event"] == "prior" for known in self.events):
                self._note_prior(job.node, verdict)
        left = count_suspects(self.subject.graph, fold(self.events), self._settings())
        self.tell({**event, "left": left, "fidelity": verdict.fidelity})

    def _settings(self) -> Settings:
        """Return how to search, with the prior once the journal has one."""
        noted = next((event for event in self.events if event["event"] == "prior"), None)
        if noted is None:
            return self.settings
        return replace(self.settings, prior=favour(self.subject.graph, noted["nodes"]))

    def _note_prior(self, node: str, verdict: Verdict) -> None:
        """Keep which commits change a file that the repro opened at the bad end: the culprit is likely one of them."""
        subject = self.subject
        if node != subject.graph.bad or subject.axis != "commits" or verdict.evidence is None:
            return
        loaded = read_evidence(Path(verdict.evidence)).loaded
        touching = subject.source.touching(subject.good, subject.bad, loaded)
        if touching:
            self._keep({"event": "prior", "nodes": sorted(touching), "files": len(loaded)})

    def _keep(self, event: dict[str, Any]) -> None:
        self.journal.append(event)
        self.events.append(event)

    def _about(self) -> dict[str, Any]:
        subject = self.subject
        return {
            "issue": subject.issue.slug,
            "repro": subject.repro.name,
            "fidelity": subject.repro.fidelity,
            "upstream": subject.source.upstream,
            "axis": subject.axis,
            "series": subject.series,
        }

    def _advice(self, document: Mapping[str, Any], request: BisectRequest) -> str:
        """Say what to do with the answer: a release narrows down to a commit, a commit is looked at."""
        if document["first_bad"] is None:
            return ""
        if self.subject.axis == "commits":
            return f"git show {document['first_bad']}"
        ends = ["--good", document["last_good"], "--bad", document["first_bad"], "--axis", "commits", "--source", "git"]
        issue = f"{self.subject.issue.slug}/{self.subject.repro.name}"
        command = ["patchkit", "bisect", str(request.recipe), "--issue", issue, *ends]
        return f"the commit inside the release, where git can be reached: {shlex.join(command)}"
