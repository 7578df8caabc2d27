"""Bisection with a flaky repro: run where a run tells most, stop when the answer is as sure as it was asked to be."""

from __future__ import annotations

import math
from collections.abc import Collection

from patchkit.search.decision import Answer, Candidate, Contradiction, Decision, Explanation, Probe, Settings
from patchkit.search.flaky.chooser import choose_run
from patchkit.search.flaky.posterior import Posterior, Rates, compute_posterior, count_runs
from patchkit.search.graph import CommitGraph, positions
from patchkit.search.skips import testable
from patchkit.search.state import State

PATIENCE = 12  # passes at the bad end and no failure anywhere: a repro that fails one time in three has failed by then
LEAST_BITS = 2e-3  # a run that tells less is not worth it: what is left cannot be told apart
MOST_NAMED = 50  # suspects in the answer; the probability of the others is in nobody's name
LEAST_NAMED = 1e-3


def decide(graph: CommitGraph, state: State, settings: Settings, running: Collection[str] = ()) -> Decision:
    """Return what to do next, while the runs of `running` are under way. Every run is a fresh one."""
    posterior = compute_posterior(graph, state, settings.prior, Rates())
    trouble = _check_ends(graph, state, posterior, settings)
    if trouble is not None:
        return trouble
    _, probability = posterior.best()
    if probability >= settings.confidence:
        return _answer(graph, state, posterior, confirmed=True)
    left = _fewest(posterior, settings.confidence)
    free = max(settings.slots - len(running), 0)
    if graph.bad not in state.observations and graph.bad not in running:  # shows which files the repro opens, too
        return Probe((graph.bad,)[:free], "ends", "the bad end must be able to fail", left, fresh=True)
    chances = _chances(graph, state)
    chosen: list[str] = []
    explanations: dict[str, Explanation] = {}
    while len(chosen) < free:
        choice = choose_run(graph, posterior, chances, [*running, *chosen])
        if choice is None or choice.bits < LEAST_BITS:
            break
        chosen.append(choice.node)
        odds = 1 - chances[choice.node]
        explanations.setdefault(choice.node, Explanation(choice.bits, 0.0, odds, choice.bad_mass))
    if not chosen and not running:
        return _answer(graph, state, posterior, confirmed=False)
    return Probe(tuple(chosen), "search", "tells most about the suspects", left, True, explanations)


def _check_ends(graph: CommitGraph, state: State, posterior: Posterior, settings: Settings) -> Contradiction | None:
    for node, word, hint in (
        (graph.good, "good", "choose an older good end"),
        (graph.bad, "bad", "choose a newer bad end"),
    ):
        if node in state.skipped:
            message = f"the {word} end {node} cannot be told: {state.reason(node) or 'skipped'}"
            return Contradiction(message, f"choose another {word} end, close to this one", (node,))
        runs = count_runs(state)
        if word == "bad" and runs.get(node, (0, 0))[1] >= PATIENCE and not any(fails for fails, _ in runs.values()):
            return Contradiction(f"the bad end {node} passed {runs[node][1]} times and never failed", hint, (node,))
        if posterior.end(word) >= settings.confidence:
            other = "bad already" if word == "good" else "not bad"
            message = f"the {word} end {node} is {other} (probability {posterior.end(word):.3f}): nothing to find"
            return Contradiction(message, hint, (node,))
    return None


def count_suspects(graph: CommitGraph, state: State, settings: Settings) -> int:
    """Return the fewest commits that hold the confidence together."""
    return _fewest(compute_posterior(graph, state, settings.prior, Rates()), settings.confidence)


def _fewest(posterior: Posterior, confidence: float) -> int:
    pairs = [
        (mass / cell.size, cell.size)
        for cell, mass in zip(posterior.cells, posterior.masses, strict=True)
        if not cell.end
    ]
    wanted, count = confidence * sum(each * size for each, size in pairs), 0
    for each, size in sorted(pairs, reverse=True):
        if wanted <= each * size:
            return count + max(math.ceil(wanted / each), 1) if each > 0 else count
        wanted -= each * size
        count += size
    return count


def _chances(graph: CommitGraph, state: State) -> dict[str, float]:
    """Return the nodes that can be run, with the chance that they can be tested: 1 where a run was no skip."""
    skipped = set(state.skipped)
    known = {graph.index[node]: node in skipped for node in state.observations if node in graph.index}
    likely = testable(len(graph.nodes), known)
    chances = {node: likely[at] for at, node in enumerate(graph.nodes) if node not in skipped}
    return {graph.good: 1.0, **chances} | {node: 1.0 for node in state.observations if node not in skipped}


def _answer(graph: CommitGraph, state: State, posterior: Posterior, *, confirmed: bool) -> Answer:
    """Return the suspects, likeliest first."""
    named = []
    for cell, mass in zip(posterior.cells, posterior.masses, strict=True):
        if not cell.end and mass / cell.size >= LEAST_NAMED:
            named += [Candidate(graph.nodes[at], mass / cell.size) for at in positions(cell.members)]
    named = sorted(named, key=lambda one: -one.probability)[:MOST_NAMED]
    top = graph.index[named[0].node] if named else 0
    below = graph.ancestors[top]
    seen_good = [node for node in state.nodes("good") if node in graph.index and below >> graph.index[node] & 1]
    seen_bad = [node for node in state.nodes("bad") if graph.ancestors_of(node) >> top & 1]
    return Answer(
        candidates=tuple(named),
        last_good=max(
            (one for one in seen_good if graph.index[one] != top), key=lambda one: graph.index[one], default=graph.good
        ),
        known_bad=min(seen_bad, key=lambda one: graph.ancestors_of(one).bit_count(), default=graph.bad),
        skipped=tuple(one.node for one in named if one.node in state.skipped),
        confirmed=confirmed,
        detail="" if confirmed else "no further run would tell the suspects apart",
    )
