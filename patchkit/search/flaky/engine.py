"""Bisection with a flaky repro: run where a run is worth most, stop when the answer is as sure as was asked for."""

from __future__ import annotations

import math
from collections.abc import Collection

from patchkit.search.decision import Answer, Candidate, Contradiction, Decision, Explanation, Probe, Settings
from patchkit.search.flaky.chooser import Options, choose_run
from patchkit.search.flaky.model import Model, Rates, fit_scatter
from patchkit.search.flaky.posterior import INVALID, Posterior, compute_posterior
from patchkit.search.graph import CommitGraph, positions
from patchkit.search.skips import telling, testable
from patchkit.search.state import State

PATIENCE = 12  # passes at the bad end and no failure anywhere: a repro that fails one time in three has failed by then
STARTS = 3  # measurements of each end before the search: they show how far values scatter, and how far the ends differ
FEW = 8  # measurements of each end after which a difference that cannot be seen is none
LEAST_SHARE = 1e-3  # of what is unknown: where every run tells less, what is left cannot be told apart
MOST_NAMED = 50  # suspects in the answer; the probability of the others is in nobody's name
LEAST_NAMED = 1e-3


def decide(graph: CommitGraph, state: State, settings: Settings, running: Collection[str] = ()) -> Decision:
    """Return what to do next, while the runs of `running` are under way. Every run is a fresh one."""
    posterior = _posterior(graph, state, settings)
    trouble = _check_ends(graph, state, posterior, settings)
    if trouble is not None:
        return trouble
    starts = _starts(graph, state, posterior, settings, running)
    _, probability = posterior.best()
    if probability >= settings.confidence and not starts:
        return _answer(graph, state, posterior, confirmed=True)
    left = _fewest(posterior, settings.confidence)
    free = max(settings.slots - len(running), 0)
    if starts:
        return Probe(starts[:free], "ends", "the ends must be what they are said to be", left, fresh=True)
    chosen, explanations = _choose(graph, state, posterior, settings, running)
    if not chosen and not running:
        return _answer(graph, state, posterior, confirmed=False)
    return Probe(chosen, "search", "tells most about the suspects", left, True, explanations)


def count_suspects(graph: CommitGraph, state: State, settings: Settings) -> int:
    """Return the fewest commits that hold the confidence together."""
    return _fewest(_posterior(graph, state, settings), settings.confidence)


def _posterior(graph: CommitGraph, state: State, settings: Settings) -> Posterior:
    model: Model = fit_scatter(state, graph.good, graph.bad) if settings.metric else Rates()
    return compute_posterior(graph, state, settings.prior, model)


def _starts(
    graph: CommitGraph, state: State, posterior: Posterior, settings: Settings, running: Collection[str]
) -> tuple[str, ...]:
    """Return the runs at the ends that the search begins with and that are neither done nor under way.

    The bad end fails first of all: that shows which files the repro opens, too. Ends that measure alike need more runs.
    """
    if not settings.metric:
        return () if graph.bad in state.observations or graph.bad in running else (graph.bad,)
    counts, wanted = posterior.model.count(state), []
    for number in range(FEW if _alike(posterior) > 2 * INVALID else STARTS):
        for node in (graph.bad, graph.good):
            done = int(counts.get(node, (0,))[0]) + list(running).count(node)
            if done <= number:
                wanted.append(node)
    return tuple(dict.fromkeys(wanted))


def _choose(
    graph: CommitGraph, state: State, posterior: Posterior, settings: Settings, running: Collection[str]
) -> tuple[tuple[str, ...], dict[str, Explanation]]:
    """Return the runs to start, several at one node where that tells most."""
    costs = None if settings.costs is None or settings.costs.is_level else settings.costs
    options = Options(_chances(graph, state, settings), costs)
    least = LEAST_SHARE * posterior.entropy()
    chosen: list[str] = []
    explanations: dict[str, Explanation] = {}
    while len(running) + len(chosen) < settings.slots:
        choice = choose_run(graph, posterior, options, [*running, *chosen])
        if choice is None or choice.bits <= least:
            break
        chosen.append(choice.node)
        seconds = settings.costs.seconds(choice.node) if settings.costs else 0.0
        odds = 1 - options.chances[choice.node]
        explanations.setdefault(choice.node, Explanation(choice.bits, seconds, odds, choice.bad_mass))
    return tuple(chosen), explanations


def _check_ends(graph: CommitGraph, state: State, posterior: Posterior, settings: Settings) -> Contradiction | None:
    for node, word, hint in (
        (graph.good, "good", "choose an older good end"),
        (graph.bad, "bad", "choose a newer bad end"),
    ):
        if node in (state.lost if settings.metric else state.skipped):
            message = f"the {word} end {node} cannot be told: {state.reason(node) or 'skipped'}"
            return Contradiction(message, f"choose another {word} end, close to this one", (node,))
        if not settings.metric and word == "bad" and _never_fails(graph, state, posterior.model):
            runs = int(posterior.model.count(state)[node][0])
            return Contradiction(f"the bad end {node} passed {runs} times and never failed", hint, (node,))
        if not settings.metric and posterior.end(word) >= settings.confidence:
            other = "bad already" if word == "good" else "not bad"
            message = f"the {word} end {node} is {other} (probability {posterior.end(word):.3f}): nothing to find"
            return Contradiction(message, hint, (node,))
    return _check_values(graph, state, posterior) if settings.metric else None


def _never_fails(graph: CommitGraph, state: State, model: Model) -> bool:
    counts = model.count(state)
    return counts.get(graph.bad, (0, 0))[0] >= PATIENCE and not any(fails for _, fails in counts.values())


def _check_values(graph: CommitGraph, state: State, posterior: Posterior) -> Contradiction | None:
    """Tell ends whose values do not differ: there is no mean on either side to tell apart."""
    counts = posterior.model.count(state)
    runs = [counts.get(node, (0,))[0] for node in (graph.good, graph.bad)]
    same = _alike(posterior)
    if min(runs) < FEW or same <= 2 * INVALID:  # what was measured speaks for a change
        return None
    message = f"the values of {graph.good} and {graph.bad} do not differ by more than they scatter ({same:.2f})"
    return Contradiction(message, "choose other ends, or make the measurement steadier", (graph.good, graph.bad))


def _alike(posterior: Posterior) -> float:
    """Return the probability that no commit changes anything."""
    return posterior.end("good") + posterior.end("bad")


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


def _chances(graph: CommitGraph, state: State, settings: Settings) -> dict[str, float]:
    """Return the nodes that can be run, with the chance that they can be tested: 1 where a run was no skip."""
    lost = set(state.lost)
    likely = testable(len(graph.nodes), telling(graph, state, settings.known_skips))
    chances = {graph.good: 1.0, **{node: likely[at] for at, node in enumerate(graph.nodes)}}
    chances |= dict.fromkeys(state.observations, 1.0)
    return {node: chance for node, chance in chances.items() if node not in lost}


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
