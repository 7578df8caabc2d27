"""The axis `patches`: which patches of the series bring the fault, at a fixed commit.

A patch is held together with those that it requires. A set that does not apply is a skip. What is asked is a set, not a
commit, so this axis has a loop of its own; its journal is like the others'.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patchkit.environment.open import environment_id
from patchkit.errors import RequestError
from patchkit.pipeline import OpenedRecipe, Question, environment_request, judge, resolve_commit, series_of
from patchkit.recipe.library import LoadedIssue
from patchkit.recipe.lock import recipe_digest
from patchkit.recipe.model import Repro
from patchkit.report.bisect import probe_document
from patchkit.search import Contradiction, Culprits, Try, decide_subset
from patchkit.search.state import Seen
from patchkit.source.commit import Commit
from patchkit.stack.series import StackPatch, leave_out
from patchkit.tools.cache import digest_of
from patchkit.tools.journal import Journal
from patchkit.verdict.verdict import Reason, Series, Verdict
from patchkit.workflows.bisect.journal.replay import Replay
from patchkit.workflows.bisect.request import BisectRequest, Tell
from patchkit.workflows.bisect.subject import choose_issue

AXIS = "patches"
RETRIES = 2  # of a run that the machine spoiled
Event = Mapping[str, Any]


@dataclass(frozen=True)
class PatchSearch:
    """The patches of a series that are asked about, in its order, at one commit."""

    opened: OpenedRecipe
    issue: LoadedIssue
    repro: Repro
    commit: Commit
    series: Series
    patches: tuple[StackPatch, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Return the patches, in the order of application."""
        return tuple(patch.name for patch in self.patches)

    @property
    def key(self) -> str:
        """Name the question by everything that the answers depend on."""
        environment = environment_id(self.opened.toolkit, environment_request(self.opened, self.repro))
        asked = [self.issue.slug, self.issue.sha256, self.repro.name, self.commit.id, AXIS, *self.names]
        return digest_of([recipe_digest(self.opened.loaded), environment, asked])[:32]

    def about(self) -> dict[str, Any]:
        """Return what every document of this search says of it."""
        return {
            "recipe": str(self.opened.loaded.path),
            "issue": self.issue.slug,
            "repro": self.repro.name,
            "fidelity": self.repro.fidelity,
            "upstream": self.commit.upstream,
            "axis": AXIS,
            "series": self.series,
            "at": self.commit.name,
            "commit": self.commit.id,
            "patches": list(self.names),
        }

    def with_required(self, held: frozenset[str]) -> frozenset[str]:
        """Return patches together with all that they require, those required by these included."""
        required = {patch.name: patch.requires for patch in self.patches}
        whole, waiting = set(held), list(held)
        while waiting:
            new = set(required.get(waiting.pop(), ())) - whole
            whole |= new
            waiting += new
        return frozenset(whole)

    def ask(self, held: frozenset[str], fresh: bool = False) -> Verdict:
        """Return the verdict with these patches and no other; what the machine spoiled is tried again."""
        only = self.with_required(held)
        question = Question(self.commit, self.issue, self.repro, self.series, fresh, only=only)
        verdict = judge(self.opened, question)
        for _ in range(RETRIES):
            if verdict.reason is not Reason.INFRASTRUCTURE:
                break
            verdict = judge(self.opened, question)
        return verdict


def open_patches(opened: OpenedRecipe, request: BisectRequest) -> PatchSearch:
    """Return what a request searches. Raises `RequestError` when there is nothing to tell apart."""
    issue, repro = choose_issue(opened.loaded, request.issue)
    _refuse_strange(request)
    if request.flaky or repro.flaky:
        hint = "give the repro `repeat:`: runs that disagree are a skip"
        raise RequestError(f"{issue.slug}/{repro.name}: runs may err, and --axis patches takes each as it is", hint)
    commit = resolve_commit(opened, request.at or None, issue.issue.upstream)
    beside = opened.loaded.recipe.upstream[commit.upstream].pairs_with if repro.pair else None
    patches = series_of(opened, commit.upstream) + (series_of(opened, beside) if beside else ())
    if request.series == "others":
        patches = leave_out(patches, issue.slug)
    if request.series == "without" or not patches:
        raise RequestError(f"{opened.loaded.path}: no patch of {commit.upstream} is left to ask about", "--series with")
    return PatchSearch(opened, issue, repro, commit, request.series, patches)


def _refuse_strange(request: BisectRequest) -> None:
    """Raise `RequestError` for what says nothing on this axis."""
    if request.good or request.bad:
        raise RequestError("--axis patches has no ends", "--at names the commit; the good end is without patches")
    given = {
        "--ray": request.ray,
        "--emit-revert": request.emit_revert,
        "--from-git-log": request.from_git_log,
        "--exhaustive": request.exhaustive,
        "--fix-up": request.fix_up,
        "--confirm": request.confirm != BisectRequest.confirm,
        "--confidence": request.confidence != BisectRequest.confidence,
    }
    if strange := [option for option, value in given.items() if value]:
        raise RequestError(f"{', '.join(strange)}: not for --axis patches", "leave it out")
    if request.jobs > 1:
        hint = "leave it out: each set of patches tells which one is next"
        raise RequestError("--jobs: --axis patches runs one set at a time", hint)


def search_patches(search: PatchSearch, journal: Journal, tell: Tell) -> dict[str, Any]:
    """Run sets of patches until the search knows, and return the result's document."""
    events: list[dict[str, Any]] = [dict(event) for event in journal.read()]
    start = {"event": "start", **search.about(), "known": len(_observations(events))}
    if not events:
        _keep(journal, events, start)
    _keep(journal, events, {"event": "session"})
    tell(start)
    while isinstance(decision := decide_subset(search.names, _observations(events)), Try):
        verdict = search.ask(decision.holds)
        event = probe_document(_name(search, decision.holds), verdict, stage="search", fresh=False)
        event |= {"holds": [name for name in search.names if name in decision.holds]}
        spoiled = verdict.reason is Reason.INFRASTRUCTURE  # a skip for now; the next run of this search tries it again
        _keep(journal, events, {**event, "event": "spoiled"} if spoiled else event)
        tell({**event, "left": decision.left, "fidelity": verdict.fidelity, "axis": AXIS})
    document = _conclude(search, decision, events, journal)
    _keep(journal, events, {"event": "end", "document": document})
    return document


def replay_patches(search: PatchSearch, events: Sequence[Event]) -> Replay:
    """Decide again before every set that was run, and at the end; stop at the first difference."""
    decisions = 0
    for at, event in enumerate(events):
        if event["event"] not in ("probe", "spoiled", "end"):
            continue
        decision = decide_subset(search.names, _observations(events[:at]))
        holds = event["document"]["culprits"] if event["event"] == "end" else event["holds"]
        made = decision.holds if isinstance(decision, Try) else getattr(decision, "items", ())
        decisions += 1
        if isinstance(decision, Try) is (event["event"] == "end") or frozenset(made) != frozenset(holds):
            kept, now = (_name(search, frozenset(one)) for one in (holds, made))
            return Replay(decisions, at + 1, f"the journal has {kept}, now it is {now}")
    return Replay(decisions)


def _keep(journal: Journal, events: list[dict[str, Any]], event: dict[str, Any]) -> None:
    journal.append(event)
    events.append(event)


def _conclude(
    search: PatchSearch, answer: Culprits | Contradiction, events: Sequence[Event], journal: Journal
) -> dict[str, Any]:
    """Return the result; culprits are confirmed by a fresh run of them alone, and the rest of the series is told."""
    probes = sum(event["event"] == "probe" for event in events)
    document: dict[str, Any] = {"event": "result", **search.about(), "probes": probes, "builds": 0}
    if isinstance(answer, Contradiction):
        nothing: dict[str, Any] = {
            "culprits": [],
            "first_bad": None,
            "minimal": False,
            "doubtful": [],
            "confirmed": False,
        }
        return document | nothing | {"message": answer.message, "hint": answer.hint, "rest": None, "next": ""}
    culprits = frozenset(answer.items)
    rest = search.ask(frozenset(search.names) - culprits).answer
    confirmed = next((event["answer"] for event in events if event["event"] == "confirm"), None)
    if confirmed is None:
        confirmed = str(search.ask(culprits, fresh=True).answer)
        journal.append({"event": "confirm", "holds": list(answer.items), "answer": confirmed})
    return document | {
        "culprits": list(answer.items),
        "first_bad": answer.items[-1],
        "minimal": answer.minimal,
        "doubtful": list(answer.doubtful),
        "rest": str(rest),
        "confirmed": confirmed == "bad" and answer.minimal,
        "message": answer.detail,
        "hint": "",
        "next": _advice(str(rest)),
    }


def _advice(rest: str) -> str:
    """Say what the series without the culprits shows."""
    return {
        "good": "without these the fault is gone",
        "bad": "the other patches bring the fault too: take these out of the series and search again",
    }.get(rest, "whether the fault is gone without these cannot be told: they may be needed by others")


def _observations(events: Iterable[Event]) -> dict[frozenset[str], Seen]:
    """Return the answers by set; what the machine spoiled is a skip, but only in the run that saw it."""
    found: dict[frozenset[str], Seen] = {}
    spoiled: set[frozenset[str]] = set()
    for event in events:
        if event["event"] == "session":
            for held in spoiled:
                del found[held]
            spoiled.clear()
        elif event["event"] in ("probe", "spoiled"):
            found[frozenset(event["holds"])] = event["answer"]
            spoiled |= {frozenset(event["holds"])} if event["event"] == "spoiled" else set()
    return found


def _name(search: PatchSearch, held: frozenset[str]) -> str:
    """Return a set of patches as a word for people."""
    if len(held) == len(search.names):
        return "all patches"
    return " + ".join(name for name in search.names if name in held) or "no patch"
