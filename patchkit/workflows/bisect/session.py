"""One run of a bisect: decide, probe, keep. The state is a journal and nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchkit.errors import RequestError
from patchkit.report.bisect import Tally, answer_document, probe_document
from patchkit.search import Answer, Contradiction, Probe, Settings, count_suspects, fold
from patchkit.tools.journal import Journal
from patchkit.verdict.evidence import read_evidence
from patchkit.verdict.verdict import Reason, Verdict
from patchkit.verdict.workers import Job, Workers
from patchkit.workflows.bisect.journal.events import (
    View,
    ask_event,
    result_event,
    session_event,
    standing,
    view,
)
from patchkit.workflows.bisect.request import Tell
from patchkit.workflows.bisect.subject import Subject

RETRIES = 2  # of a probe that the machine spoiled: a third failure in a row is no accident


@dataclass
class Session:
    """One run of a bisect. `events` are those of the journal."""

    subject: Subject
    journal: Journal
    tell: Tell
    settings: Settings
    events: list[dict[str, Any]]

    def begin(self, told: Iterable[tuple[str, str]] = ()) -> None:
        """Tell where the search starts; the journal begins with the same event. `told` are nodes with known answers."""
        subject = self.subject
        known = fold(standing(self.events)).runs
        event = {"event": "start", **subject.about(), "commits": len(subject.graph.nodes), "known": known}
        if not self.events:
            self._keep(event)
        self._keep(session_event(self.settings))
        seen = fold(standing(self.events)).observations
        for node, answer in told:
            if node not in seen:
                self._keep({"event": "told", "node": node, "answer": answer, "reason": "told by a git log"})
        self._note_prior()
        self.tell(event)

    def search(self) -> Answer | Contradiction:
        """Run probes until the search knows; what still runs then cannot change the answer and is ended."""
        workers = Workers(self._ask, self.settings.slots)
        try:
            while True:
                decision = self._view().decide(self.subject.graph)
                if not isinstance(decision, Probe):
                    self._keep(result_event(decision))
                    return decision
                if decision.nodes:
                    self._keep(ask_event(decision))
                    self.tell(self.events[-1])
                for node in decision.nodes:
                    workers.start(Job(node, decision.stage, decision.fresh))
                self._record(*workers.wait())
        finally:
            workers.stop()

    def _ask(self, node: str, fresh: bool) -> Verdict:
        """Return the verdict at a node; a failure of the machine is tried again."""
        for _ in range(RETRIES):
            verdict = self.subject.ask(node, fresh)
            if verdict.reason is not Reason.INFRASTRUCTURE:
                return verdict
        return self.subject.ask(node, fresh)

    def conclude(self, answer: Answer | Contradiction) -> dict[str, Any]:
        """Return the result's document."""
        probes = [event for event in self.events if event["event"] == "probe"]
        commits = {event["node"]: event["commit"] for event in self.events if event["event"] in ("probe", "spoiled")}
        first_bad = answer.first_bad if isinstance(answer, Answer) else None
        culprit = commits.get(first_bad) if first_bad else None
        described = self.subject.describe(culprit) if culprit else None
        tally = Tally(probes=len(probes), nodes=len({event["node"] for event in probes}), builds=0)
        document = answer_document(answer, commits, described, tally) | self.subject.about()
        document |= {"next": self.subject.advice(document)}
        self._keep({"event": "end", "document": document})
        return document

    def _record(self, job: Job, verdict: Verdict) -> None:
        """Keep an answer; what the machine spoiled is a skip for now, the next run of this bisect tries it again."""
        event = probe_document(job.node, verdict, stage=job.stage, fresh=job.fresh or not verdict.reused)
        spoiled = verdict.reason is Reason.INFRASTRUCTURE
        self._keep({**event, "event": "spoiled"} if spoiled else event)
        self._note_prior()
        now = self._view()
        left = count_suspects(self.subject.graph, now.state, now.settings)
        self.tell({**event, "left": left, "fidelity": verdict.fidelity})

    def _view(self) -> View:
        return view(self.subject.graph, self.events)

    def _note_prior(self) -> None:
        """Keep, once, which commits change a file that the repro opened at the bad end: the culprit is likely one."""
        subject = self.subject
        seen = (event for event in self.events if event["event"] == "probe" and event["node"] == subject.graph.bad)
        evidence = next((event["evidence"] for event in seen if event["evidence"]), None)
        if evidence is None or any(event["event"] == "prior" for event in self.events):
            return
        loaded: tuple[str, ...] = ()
        with contextlib.suppress(RequestError):  # pruned since: the search goes on without a prior
            loaded = read_evidence(Path(evidence)).loaded
        self._keep({"event": "prior", "nodes": sorted(subject.touching(loaded)), "files": len(loaded)})

    def _keep(self, event: dict[str, Any]) -> None:
        self.journal.append(event)
        self.events.append(event)
