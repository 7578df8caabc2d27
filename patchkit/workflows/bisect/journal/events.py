"""The events of a journal, and what the search sees of them: pure, so that a replay sees what the run saw.

`session` begins every run of the command, with the settings of the search; `ask` is written before probes start;
`cancelled` says that one of them was ended, since others told its answer; `probe` is a verdict, `spoiled` one that the
machine made useless, `told` one that was read from a git log; `prior` names the likely culprits, `revert` is the
verdict without the culprit, `result` the decision that ended the search and `end` the document that was told then.
`conflicts` names the nodes at which the series is known not to apply, `builds` says which nodes share a native build,
`prepared` that one was made before a probe needed it, or failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from patchkit.search import (
    Answer,
    Clues,
    CommitGraph,
    Contradiction,
    Probe,
    Settings,
    State,
    decide,
    favour,
    fold,
    foresee,
    is_needed,
    spent,
)
from patchkit.search.decision import Decision
from patchkit.workflows.bisect.journal.builds import costs_in

Event = Mapping[str, Any]
DERIVED = ("prior", "costs", "known_skips")  # settings that follow from other events, or from nothing yet


@dataclass(frozen=True)
class View:
    """What the search sees at one moment: a state, how to search, and the nodes whose probes are under way."""

    state: State
    settings: Settings
    running: tuple[str, ...]

    def decide(self, graph: CommitGraph) -> Decision:
        """Return what to do next."""
        return decide(graph, self.state, self.settings, self.running)

    def foresee(self, graph: CommitGraph) -> tuple[str, ...]:
        """Return the nodes whose builds are likely to be needed next."""
        return foresee(graph, self.state, self.settings, self.running)

    def needs(self, graph: CommitGraph, node: str) -> bool:
        """Return whether a build that is being made for a node still serves a suspect."""
        return is_needed(graph, self.state, self.settings, node)

    def spent(self, graph: CommitGraph) -> tuple[str, ...]:
        """Return the running nodes whose answer is known already."""
        return spent(graph, self.state, self.settings, self.running)


def view(graph: CommitGraph, events: Sequence[Event]) -> View:
    """Return what the search sees after these events."""
    return View(fold(standing(events)), settings_in(graph, events), running_in(events))


def standing(events: Sequence[Event]) -> tuple[Event, ...]:
    """Return what says something of commits: what the machine spoiled is a skip, but only in the run that saw it."""
    begun = max((at for at, event in enumerate(events) if event["event"] == "session"), default=0)
    found: list[Event] = []
    for at, event in enumerate(events):
        if event["event"] in ("probe", "told") or (event["event"] == "spoiled" and at > begun):
            found.append({**event, "event": "probe"})
    return tuple(found)


def running_in(events: Sequence[Event]) -> tuple[str, ...]:
    """Return the nodes that were asked for in the latest run and have not answered, in the order of asking."""
    running: list[str] = []
    for event in events:
        if event["event"] == "session":
            running.clear()
        elif event["event"] == "ask":
            running += event["nodes"]
        elif event["event"] in ("probe", "spoiled", "cancelled") and event["node"] in running:
            running.remove(event["node"])
    return tuple(running)


def settings_in(graph: CommitGraph, events: Sequence[Event]) -> Settings:
    """Return how the latest run searches, with the prior once there is one, and with what probes and builds took."""
    settings, prior = Settings(), Settings().prior
    for event in events:
        if event["event"] == "session":
            settings = read_settings(event["settings"])
        elif event["event"] == "prior":
            prior = favour(graph, read_clues(event))
    costs, unbuildable = costs_in(events)
    conflicts = {node: "conflict" for event in events if event["event"] == "conflicts" for node in event["nodes"]}
    return replace(settings, prior=prior, costs=costs, known_skips={**conflicts, **unbuildable})


def prior_event(clues: Clues, files: int) -> dict[str, Any]:
    """Return the event that names the likely culprits; `files` of the tree were opened at the bad end."""
    return {
        "event": "prior",
        "nodes": sorted(clues.opened),
        "files": files,
        "native": sorted(clues.native),
        "turns": sorted(clues.turns),
        "taken_back": sorted(clues.taken_back),
    }


def read_clues(event: Event) -> Clues:
    """Return what an event says of likely culprits; an older patchkit wrote only what was opened."""
    names = ("native", "turns", "taken_back")
    return Clues(event["nodes"], *(event.get(name, ()) for name in names))


def session_event(settings: Settings) -> dict[str, Any]:
    """Return the event that begins a run of the command."""
    kept = {field.name: getattr(settings, field.name) for field in fields(settings) if field.name not in DERIVED}
    return {"event": "session", "settings": kept}


def read_settings(document: Mapping[str, Any]) -> Settings:
    """Return the settings of a session event; what an older patchkit did not know has its default."""
    known = {field.name for field in fields(Settings)} - set(DERIVED)
    return Settings(**{name: value for name, value in document.items() if name in known})


def ask_event(probe: Probe) -> dict[str, Any]:
    """Return the event of a decision to run nodes, with the numbers that explain each."""
    why = {node: asdict(explanation) for node, explanation in probe.explanations.items()}
    return {
        "event": "ask",
        "nodes": list(probe.nodes),
        "stage": probe.stage,
        "fresh": probe.fresh,
        "left": probe.left,
        "reason": probe.reason,
        "why": why,
    }


def result_event(decision: Answer | Contradiction) -> dict[str, Any]:
    """Return the event of the decision that ends a search."""
    if isinstance(decision, Contradiction):
        return {"event": "result", "message": decision.message, "nodes": list(decision.nodes)}
    return {
        "event": "result",
        "candidates": [[one.node, round(one.probability, 9)] for one in decision.candidates],
        "last_good": decision.last_good,
        "known_bad": decision.known_bad,
        "confirmed": decision.confirmed,
    }
