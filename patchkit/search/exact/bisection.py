"""Exact bisection on a graph with skips: a commit is bad if and only if the culprit is among its ancestors.

Ends first, then probes that split the suspects best, then fresh runs of the culprit and its parents. Deterministic: the
same graph and state give the same decision, whoever asks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from patchkit.search.decision import Answer, Candidate, Contradiction, Decision, Probe, Settings
from patchkit.search.exact.chooser import choose_nodes, least_bits
from patchkit.search.exact.field import split
from patchkit.search.graph import CommitGraph, positions
from patchkit.search.state import State

DEFAULTS = Settings()


def decide(graph: CommitGraph, state: State, settings: Settings = DEFAULTS, running: Collection[str] = ()) -> Decision:
    """Return what to do next, while the probes of `running` are under way."""
    trouble = _check_ends(graph, state) or _check_history(graph, state)
    if trouble is not None:
        return trouble
    left = suspects(graph, state)
    free = max(settings.slots - len(running), 0)
    ends = [node for node in (graph.bad, graph.good) if node not in state.observations]
    if ends:
        idle = [node for node in ends if node not in running]
        return Probe(tuple(idle[:free]), "ends", "the ends must be what they are said to be", left.bit_count())
    if left & (left - 1):
        return _search(graph, state, settings, running)
    return _confirm(graph, state, settings, running)


def suspects(graph: CommitGraph, state: State) -> int:
    """Return the set of nodes that can still be the first bad one: ancestors of all bad nodes and of no good one."""
    left = graph.whole
    for node in state.nodes("bad"):
        left &= graph.ancestors_of(node)
    for node in state.nodes("good"):
        left &= ~graph.ancestors_of(node)
    return left


def spent(graph: CommitGraph, state: State, settings: Settings, running: Collection[str]) -> tuple[str, ...]:
    """Return the running nodes whose answer follows from others: all suspects are among their ancestors, or none is.

    Not those that the ends or a confirmation need, and none whose setup is being made for a suspect too.
    """
    left = suspects(graph, state)
    if _check_ends(graph, state) or not left or any(end not in state.observations for end in (graph.bad, graph.good)):
        return ()
    needed = {graph.bad, graph.good}
    if not left & (left - 1):
        culprit = graph.nodes[next(positions(left))]
        needed |= {culprit, *graph.parents[culprit]}
    decided = [node for node in running if left & graph.ancestors_of(node) in (0, left)]
    return tuple(node for node in decided if node not in needed and not makes_setup(graph, settings, left, node))


def makes_setup(graph: CommitGraph, settings: Settings, left: int, node: str) -> bool:
    """Return whether a probe makes, before its test, what the probe of a suspect would have to make again."""
    costs = settings.costs
    if costs is None or not costs.setup_seconds(node):
        return False
    return any(costs.setup(name) == costs.setup(node) for name in graph.names(left))


def _check_ends(graph: CommitGraph, state: State) -> Contradiction | None:
    """Tell an end that is not what it was said to be: no search can mend that."""
    for node, word, wanted in ((graph.bad, "bad", "bad"), (graph.good, "good", "good")):
        if node not in state.observations or state.has(node, "bad" if wanted == "bad" else "good"):
            continue
        if node in state.skipped:
            message = f"the {word} end {node} cannot be told: {state.reason(node) or 'skipped'}"
            return Contradiction(message, f"choose another {word} end, close to this one", (node,))
        other = "good" if wanted == "bad" else "bad"
        message = f"the {word} end {node} is {other}: nothing to find"
        hint = "choose a newer bad end" if wanted == "bad" else "choose an older good end"
        return Contradiction(message, hint, (node,))
    return None


def _check_history(graph: CommitGraph, state: State) -> Contradiction | None:
    """Tell verdicts that no single first bad commit explains."""
    again = "run it again with a higher `repeat` in the issue: the repro may be flaky"
    bad, good = state.nodes("bad"), state.nodes("good")
    for node in bad:
        if node in good:
            return Contradiction(f"{node} was bad in one run and good in another", again, (node,))
        if node not in graph.index:
            hint = f"something between {node} and {graph.good} repaired it: choose a good end below the bad one"
            return Contradiction(f"{node} is bad, although the good end {graph.good} has it", hint, (node, graph.good))
    for newer in good:
        older = next((node for node in bad if graph.ancestors_of(newer) >> graph.index[node] & 1), None)
        if older is not None:
            hint = f"a commit between them repaired it; search below {older} and above {newer} apart, or: {again}"
            return Contradiction(f"{older} is bad, but its descendant {newer} is good", hint, (older, newer))
    if not suspects(graph, state):
        return Contradiction("no single commit explains all verdicts: there are two causes", again, bad)
    return None


def _search(graph: CommitGraph, state: State, settings: Settings, running: Collection[str]) -> Decision:
    """Split the suspects as evenly as what can be tested allows; a set of them when nothing splits it."""
    left = suspects(graph, state)
    cells = [left]
    for node in running:
        cells = split(cells, graph.ancestors_of(node))
    free = max(settings.slots - len(running), 0)
    chosen = choose_nodes(graph, state, settings, cells, running) if free else {}
    if chosen or len(cells) > 1 or not free:
        return Probe(tuple(chosen), "search", "splits the suspects best", left.bit_count(), explanations=chosen)
    return _answer(graph, state, settings, detail=_why_no_further(graph, state, settings, left))


def _why_no_further(graph: CommitGraph, state: State, settings: Settings, left: int) -> str:
    """Say why the suspects stay as they are: nothing is left to test, or no test is worth it."""
    untested = sum(name not in state.observations for name in graph.names(left))
    wanted = least_bits(graph, state, settings, left)
    if not untested or not wanted:
        return "only commits that cannot be tested are left"
    return (
        f"{untested} of the {left.bit_count()} suspects are untested, among commits that cannot be tested: no probe is "
        f"expected to tell {wanted:g} bits"
    )


def _confirm(graph: CommitGraph, state: State, settings: Settings, running: Collection[str]) -> Decision:
    """Run the culprit and its parents once more; a parent that cannot be tested is cleared by a good descendant."""
    culprit = graph.nodes[next(positions(suspects(graph, state)))]
    if state.has(culprit, "skip"):
        detail = f"{culprit} itself cannot be told: {state.reason(culprit)}"
        return _answer(graph, state, settings, detail=detail)
    wanted = [(culprit, "bad"), *((parent, "good") for parent in graph.parents[culprit])]
    missing = [
        node
        for node, answer in wanted
        if state.fresh_runs(node, "good" if answer == "good" else "bad") < settings.confirmations
        and not state.has(node, "skip")
    ]
    if not missing:
        return _answer(graph, state, settings, confirmed=settings.confirmations > 0)
    free = max(settings.slots - len(running), 0)
    idle = tuple(node for node in missing if node not in running)[:free]
    return Probe(idle, "confirm", "the culprit and its parents once more", 1, fresh=True)


def _answer(
    graph: CommitGraph, state: State, settings: Settings, *, confirmed: bool = False, detail: str = ""
) -> Answer:
    """Return the suspects as the answer: no verdict tells them apart, so they are as likely as they were before."""
    left = suspects(graph, state)
    names = graph.names(left)
    below = 0
    for name in names:
        below |= graph.ancestors_of(name)
    seen_good = [node for node in state.nodes("good") if below & graph.ancestors_of(node)]
    seen_bad = [node for node in state.nodes("bad") if node in graph.index]
    return Answer(
        candidates=_weigh(graph, settings, names),
        last_good=max(seen_good, key=lambda node: graph.index[node], default=graph.good),
        known_bad=min(seen_bad, key=lambda node: graph.ancestors_of(node).bit_count(), default=graph.bad),
        skipped=tuple(name for name in names if state.has(name, "skip")),
        untested=sum(name not in state.observations for name in names),
        confirmed=confirmed,
        detail=detail,
    )


def _weigh(graph: CommitGraph, settings: Settings, names: Sequence[str]) -> tuple[Candidate, ...]:
    weights = [
        next((share.weight for share in settings.prior if share.members >> graph.index[name] & 1), 1.0)
        for name in names
    ]
    return tuple(Candidate(name, weight / sum(weights)) for name, weight in zip(names, weights, strict=True))
