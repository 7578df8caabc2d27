"""One run of a bisect: decide, probe, keep. The state is a journal and nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchkit.errors import BuildFailed, PatchkitError, RequestError
from patchkit.report.bisect import Tally, answer_document, probe_document, untold_end
from patchkit.search import Answer, Contradiction, Probe, Settings, believe, count_suspects, fold, missing_bits
from patchkit.tools.journal import Journal
from patchkit.tools.process import end_children
from patchkit.verdict.evidence import read_evidence
from patchkit.verdict.grade import has_crashed
from patchkit.verdict.verdict import Reason, Verdict
from patchkit.verdict.workers import Job, Workers
from patchkit.workflows.bisect.culprit.control import (
    Control,
    count_controls,
    find_controls,
    find_false_fix_up,
    find_unproven,
    judge_control,
)
from patchkit.workflows.bisect.culprit.doubts import find_doubts
from patchkit.workflows.bisect.culprit.revert import judge_reverted
from patchkit.workflows.bisect.culprit.trial import count_reverts, trial_document
from patchkit.workflows.bisect.journal.builds import builds_event
from patchkit.workflows.bisect.journal.events import (
    View,
    ask_event,
    prior_event,
    result_event,
    session_event,
    standing,
    view,
)
from patchkit.workflows.bisect.remote import Remote
from patchkit.workflows.bisect.request import Tell
from patchkit.workflows.bisect.subject import CommitSubject, Subject

GO_ON = "the same command with --exhaustive tries the suspects that were left"
RETRIES = 2  # of a probe that the machine spoiled: a third failure in a row is no accident


@dataclass
class Session:
    """One run of a bisect. `events` are those of the journal."""

    subject: Subject
    journal: Journal
    tell: Tell
    settings: Settings
    events: list[dict[str, Any]]
    remote: Remote | None = None  # where probes run; None: on this machine

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
        if not any(event["event"] == "conflicts" for event in self.events) and (found := subject.conflicts()):
            self._keep({"event": "conflicts", "nodes": dict(found)})
        keys, built = subject.builds()
        if keys:
            self._keep(builds_event(keys, built))
        self._note_prior()
        self.tell(event)

    def search(self) -> Answer | Contradiction:
        """Run probes until the search knows; what still runs then cannot change the answer and is ended."""
        workers = Workers(self._ask, self.settings.slots, self._end)
        try:
            while True:
                self._keep_prepared(workers)
                self._cancel_spent(workers)
                decision = self._view().decide(self.subject.graph)
                if not isinstance(decision, Probe):
                    self._keep(result_event(decision))
                    return decision
                if decision.nodes:
                    self._keep(ask_event(decision))
                    self.tell(self.events[-1])
                for node in decision.nodes:
                    workers.start(Job(node, decision.stage, decision.fresh))
                self._prepare(workers)
                self._record(*workers.wait())
        finally:
            workers.stop()

    def _end(self) -> None:
        """End what runs, here and on a cluster."""
        if self.remote:
            self.remote.cluster.end_tasks()
        end_children()

    def _prepare(self, workers: Workers) -> None:
        """Let idle slots make builds that are likely to be needed next; where probes share this machine's store."""
        now, graph = self._view(), self.subject.graph
        for node in workers.preparing:
            if not now.needs(graph, node):
                workers.drop(node)
        idle = self.settings.slots - len(workers.running) - len(workers.preparing)
        if idle <= 0 or (self.remote is not None and not self.remote.cluster.is_local):
            return
        likely = [node for node in now.foresee(graph) if node not in workers.preparing]
        for node in likely[:idle]:
            workers.prepare(node, self._make)

    def _make(self, node: str) -> dict[str, Any]:
        """Return the event of a build that was made, or failed; what else goes wrong its probe will tell."""
        event = {"event": "prepared", "node": node, "build": None, "build_seconds": 0.0, "failed": False, "detail": ""}
        try:
            native = self.subject.prepare(node)
        except PatchkitError as error:
            return {**event, "failed": isinstance(error, BuildFailed), "detail": error.message}
        if native is None:
            return event
        return {**event, "build": native.key, "build_seconds": round(native.seconds, 1) if native.made else 0.0}

    def _keep_prepared(self, workers: Workers) -> None:
        for _, event in workers.prepared():
            self._keep(event)
            self.tell(event)

    def _cancel_spent(self, workers: Workers) -> None:
        """End the probes that can tell nothing any more; one that ended by itself just then has told the truth."""
        if spent := self._view().spent(self.subject.graph):
            for job, verdict in workers.cancel(spent):
                if verdict is not None:
                    self._record(job, verdict)
                else:
                    self._keep({"event": "cancelled", "node": job.node, "stage": job.stage})
                    self.tell(self.events[-1])

    def _ask(self, node: str, fresh: bool) -> Verdict:
        """Return the verdict at a node; a failure of the machine is tried again."""
        for _ in range(RETRIES):
            verdict = self._ask_once(node, fresh)
            if verdict.reason is not Reason.INFRASTRUCTURE:
                return verdict
        return self._ask_once(node, fresh)

    def _ask_once(self, node: str, fresh: bool) -> Verdict:
        return self.remote.ask(self.subject, node, fresh) if self.remote else self.subject.ask(node, fresh)

    def conclude(self, answer: Answer | Contradiction) -> dict[str, Any]:
        """Return the result's document: the answer, the bad end without the culprit, and what is doubtful."""
        first_bad = answer.first_bad if isinstance(answer, Answer) else None
        commits = {event["node"]: event["commit"] for event in self.events if event["event"] in ("probe", "spoiled")}
        if first_bad and isinstance(answer, Answer) and answer.confirmed:
            self._take_back(first_bad)
            self._compare(first_bad)
        culprit = commits.get(first_bad) if first_bad else None
        document = answer_document(answer, commits, self.subject.describe(culprit) if culprit else None, self._tally())
        document |= self.subject.about()
        document |= self._trial(document)
        document |= self.subject.findings(document)
        document["warnings"] = find_doubts(self.subject, self.events, first_bad)
        document["warnings"] += find_unproven(self.events, self._controls(first_bad))
        document["untested"] = answer.untested if isinstance(answer, Answer) else 0
        if isinstance(answer, Contradiction):
            document |= untold_end(answer, self.events)
        document["next"] = self.subject.advice(document)
        if document["untested"] and not first_bad:
            document["next"] = "; or ".join(filter(None, (GO_ON, document["next"])))
        self._keep({"event": "end", "document": document})
        return document

    def _tally(self) -> Tally:
        probes = [event for event in self.events if event["event"] == "probe"]
        builds = sum(event.get("build_seconds", 0) > 0 for event in self.events)
        return Tally(probes=len(probes), nodes=len({event["node"] for event in probes}), builds=builds)

    def _trial(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return how the culprit was confirmed; one without which the bad end stays bad is not the whole cause."""
        node = document["first_bad"]
        if node is None:
            return {"confirmation": None, "reverted": None, "revert": None}
        trial = trial_document(self.subject.graph, self.events, node)
        against = find_false_fix_up(self.events, self._controls(node))
        if trial["reverted"] == "bad":
            against = f"without {node} the bad end is still bad: another commit brings the fault as well"
        return {**trial, "confirmed": False, "message": against} if against and document["confirmed"] else trial

    def _controls(self, culprit: str | None) -> tuple[Control, ...]:
        return find_controls(self.subject, self.events, culprit) if culprit else ()

    def _compare(self, culprit: str) -> None:
        """Judge culprit and parents with the fix-ups that the others were told with; what is known is not run again."""
        subject = self.subject
        if not isinstance(subject, CommitSubject):
            return
        for control in self._controls(culprit):
            while count_controls(subject.graph, self.events, control, self._view().settings):
                event, kept = judge_control(subject, control)
                if kept:
                    self._keep(event)
                else:
                    self.events.append(event)  # told now, tried again by the next run
                self.tell(event)

    def _take_back(self, culprit: str) -> None:
        """Judge the bad end without the culprit, as often as it takes to believe it; what is known is not run again."""
        wanted = count_reverts(self.subject.graph, self.events, culprit, self._view().settings)
        known = [event for event in self.events if event["event"] == "revert" and event["node"] == culprit]
        while len(known) < wanted and all(event["answer"] == "good" for event in known):
            revert = judge_reverted(self.subject, culprit)
            if revert is None:
                return
            event = revert.event(culprit)
            if revert.kept:
                self._keep(event)
            else:
                self.events.append(event)  # told now, tried again by the next run
            known.append(event)
            self.tell(event)

    def _record(self, job: Job, verdict: Verdict) -> None:
        """Keep an answer; what the machine spoiled is a skip for now, the next run of this bisect tries it again."""
        event = probe_document(job.node, verdict, stage=job.stage, fresh=job.fresh or not verdict.reused)
        spoiled = verdict.reason is Reason.INFRASTRUCTURE
        self._keep({**event, "event": "spoiled"} if spoiled else event)
        self._note_prior()
        now = self._view()
        left = count_suspects(self.subject.graph, now.state, now.settings)
        bits = round(missing_bits(believe(self.subject.graph, now.state, now.settings)), 2)
        self.tell({**event, "left": left, "bits": bits, "fidelity": verdict.fidelity})

    def _view(self) -> View:
        return view(self.subject.graph, self.events)

    def _note_prior(self) -> None:
        """Keep, once, which commits are suspect by what the repro opened at the bad end, and how it failed there."""
        subject = self.subject
        seen = (event for event in self.events if event["event"] == "probe" and event["node"] == subject.graph.bad)
        evidence = next((event["evidence"] for event in seen if event["evidence"]), None)
        if evidence is None or any(event["event"] == "prior" for event in self.events):
            return
        loaded: tuple[str, ...] = ()
        crashed = False
        with contextlib.suppress(RequestError):  # pruned since: the search goes on by titles alone
            found = read_evidence(Path(evidence))
            loaded, crashed = found.loaded, has_crashed(found)
        self._keep(prior_event(subject.clues(loaded, crashed), len(loaded)))

    def _keep(self, event: dict[str, Any]) -> None:
        self.journal.append(event)
        self.events.append(event)
