"""Rows about patches of a series, and about the time that a decision takes."""

from __future__ import annotations

import itertools
import random
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.bisect.history import History
from benchmarks.bisect.rivals import GitBisect, ddmin
from benchmarks.bisect.rows import Options, Row, mean, percentile
from patchkit.search import Costs, Culprits, Settings, Try, build_chain, build_graph, decide, decide_subset, fold
from patchkit.search.state import Seen

PATCHES = tuple(f"p{number:02}" for number in range(16))


def measure_patches(_options: Options, _history: History) -> Iterable[Row]:
    """Count runs until the two patches of sixteen that harm together are named: all 120 pairs."""
    ours, theirs, right = [], [], []
    for guilty in itertools.combinations(PATCHES, 2):
        runs, named = _find(frozenset(guilty))
        ours.append(runs)
        right.append(named == guilty)
        theirs.append(ddmin(PATCHES, frozenset(guilty).issubset))
    holds = mean(ours) <= 10.5 and all(right)
    note = "all pairs; without the runs with all and with none"
    rate = (mean(right), None, percentile(ours))
    yield Row("2 guilty of 16 patches", "ddmin", mean(theirs), mean(ours), 10.5, "runs", holds, *rate, note)


def measure_decisions(_options: Options, history: History) -> Iterable[Row]:
    """Time the start and one decision on whole histories, in seconds of processor; the median of five."""
    newest = next(reversed(history.parents))
    root = next(node for node, parents in history.parents.items() if not parents)
    parents = {node: older for node, older in history.parents.items() if node != root}
    graph = build_graph(parents, root, newest)
    with tempfile.TemporaryDirectory(prefix="patchkit-bench-") as folder:
        theirs = round(GitBisect(Path(folder) / "repository", graph).time_choice(), 3)
    rng = random.Random(3)
    events = [{"event": "probe", "node": newest, "answer": "bad"}, {"event": "probe", "node": root, "answer": "good"}]
    skips = [{"event": "probe", "node": rng.choice(graph.nodes), "answer": "skip"} for _ in range(8)]
    for slots, known in ((1, []), (8, []), (1, skips), (8, skips)):
        state = fold(events + known)
        spent = _median(lambda state=state, slots=slots: decide(graph, state, Settings(slots=slots)))
        name = f"{slots} at once, {len(known)} skips, {history.kind} history of {len(graph.nodes)}"
        yield Row(f"decision: {name}", "git rev-list --bisect", theirs, spent, 0.1, "s", spent <= 0.1)
    keys = history.keys[-14_208:]
    spent = _median(lambda: _start(keys))
    yield Row(f"start: line of {len(keys) - 1} and its keys", "-", None, spent, 2.0, "s", spent <= 2.0)


def _start(keys: tuple[str, ...]) -> None:
    names = [f"c{number}" for number in range(len(keys))]
    graph = build_chain(names)
    costs = Costs(60, 2400, build_keys=dict(zip(names, keys, strict=True)), built=frozenset({keys[0], keys[-1]}))
    ends = [{"event": "probe", "node": graph.bad, "answer": "bad"}, {"event": "probe", "node": "c0", "answer": "good"}]
    decide(graph, fold(ends), Settings(costs=costs))


def _median(work: Callable[[], object]) -> float:
    spent = []
    for _ in range(5):
        started = time.process_time()
        work()
        spent.append(time.process_time() - started)
    return round(sorted(spent)[2], 3)


def _find(guilty: frozenset[str]) -> tuple[int, tuple[str, ...]]:
    seen: dict[frozenset[str], Seen] = {}
    while isinstance(decision := decide_subset(PATCHES, seen), Try):
        seen[decision.holds] = "bad" if guilty <= decision.holds else "good"
    return len(seen) - 2, decision.items if isinstance(decision, Culprits) else ()
