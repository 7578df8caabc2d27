"""One run of a bisect: decide, probe, keep. The state is a journal and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchkit.report.bisect import Tally, answer_document, probe_document
from patchkit.search import Answer, Contradiction, Probe, Settings, count_suspects, decide, favour, fold
from patchkit.tools.journal import Journal
from patchkit.verdict.evidence import read_evidence
from patchkit.verdict.verdict import Reason, Verdict
from patchkit.verdict.workers import Job, Workers
from patchkit.workflows.bisect.request import Tell
from patchkit.workflows.bisect.subject import Subject

RETRIES = 2  # of a probe that the machine spoiled: a third failure in a row is no accident


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
            **subject.about(),
            "commits": len(subject.graph.nodes),
            "known": fold(self.events).runs,
        }
        if not self.events:
            self._keep(event)
        self.tell(event)

    def search(self) -> Answer | Contradiction:
        """Run probes until the search knows; what still runs then cannot change the answer and is ended."""
        workers = Workers(self._ask, self.settings.slots)
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
        commits = {event["node"]: event["commit"] for event in probes}
        first_bad = answer.first_bad if isinstance(answer, Answer) else None
        culprit = commits.get(first_bad) if first_bad else None
        described = self.subject.describe(culprit) if culprit else None
        tally = Tally(probes=len(probes), nodes=len(commits), builds=0)
        document = answer_document(answer, commits, described, tally) | self.subject.about()
        return document | {"next": self.subject.advice(document)}

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
        if node != subject.graph.bad or verdict.evidence is None:
            return
        loaded = read_evidence(Path(verdict.evidence)).loaded
        touching = subject.touching(loaded)
        if touching:
            self._keep({"event": "prior", "nodes": sorted(touching), "files": len(loaded)})

    def _keep(self, event: dict[str, Any]) -> None:
        self.journal.append(event)
        self.events.append(event)
