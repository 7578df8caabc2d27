"""Rows without noise: probes on lines and on a history with merges, with skips, and with several workers."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.bisect.history import DAG_SIZE, History
from benchmarks.bisect.rivals import nearest_neighbour
from benchmarks.bisect.rows import Options, Row, git_all, mean, percentile, search_all, spread
from benchmarks.bisect.worlds import World, line, make_world
from patchkit.search import CommitGraph, Settings

EXACT = Settings(confirmations=0)


def measure_plain(options: Options, history: History) -> Iterable[Row]:
    """Count probes beside git; the bar is git's mean of the design and a tenth."""
    for name, graph, bar in _graphs(history, (6.8, 10.07, 12.47, 12.44)):
        worlds = [make_world(graph, seed) for seed in options.few({100: 200, 1000: 100}.get(len(graph.nodes), 24))]
        ours, theirs = search_all(worlds, EXACT), git_all(worlds[: options.git_seeds])
        runs, right = mean(one.runs for one in ours), mean(one.right for one in ours)
        rival = mean(count for count, _ in theirs)
        holds = right == 1 and runs <= bar
        counts = {"culprits": len(ours), "rival_culprits": len(theirs)}
        yield Row(f"no noise, {name}", "git bisect", rival, runs, bar, "probes", holds, right, **counts)


def measure_skips(options: Options, history: History) -> Iterable[Row]:
    """Count probes where 30 % of the commits cannot be tested, in stretches, beside git and the nearest neighbour."""
    bars = {"line of 100": 18, "line of 1000": 26}
    for name, graph, bar in _graphs(history, (10.0, 15.5, None, 18.0)):
        if bar is None:
            continue
        few = {100: 200, 1000: 40}.get(len(graph.nodes), 24)
        worlds = [make_world(graph, seed, skips=0.3) for seed in options.few(few)]
        ours, theirs = search_all(worlds, EXACT), [count for count, _ in git_all(worlds[: options.git_seeds])]
        neighbour = spread(_neighbours, worlds)
        runs, right = [one.runs for one in ours], mean(one.right for one in ours)
        tail, tail_bar = percentile(runs), bars.get(name, 27)
        note = (
            f"p95 bar {tail_bar}; git p95 {percentile(theirs):g}; nearest neighbour {mean(neighbour)}, "
            f"p95 {percentile(neighbour):g}; suspects {mean(one.suspects for one in ours)}, "
            f"at best {mean(map(fewest_suspects, worlds))}"
        )
        holds = mean(runs) <= bar and tail <= tail_bar and right == 1
        rate = (right, None, tail, note, len(ours), len(theirs))
        yield Row(f"30 % skips, {name}", "git bisect", mean(theirs), mean(runs), bar, "probes", holds, *rate)


def measure_workers(options: Options, _history: History) -> Iterable[Row]:
    """Count rounds of probes that run at once; the rival is the limit log_{k+1} n."""
    worlds = [make_world(line(1000), seed) for seed in options.few(40)]
    for slots, limit, bar in ((2, 6.3, 6.8), (4, 4.3, 4.9), (8, 3.1, 3.8)):
        ours = search_all(worlds, Settings(slots=slots, confirmations=0))
        rounds, right = mean(one.rounds for one in ours), mean(one.right for one in ours)
        holds = rounds <= bar and right == 1
        yield Row(
            f"{slots} workers, line of 1000",
            "the limit",
            limit,
            rounds,
            bar,
            "rounds",
            holds,
            right,
            culprits=len(ours),
        )


def fewest_suspects(world: World) -> int:
    """Return how many suspects are left when every commit that can be tested was."""
    graph, left = world.graph, world.graph.whole
    for at in range(world.size):
        if at not in world.broken:
            left &= graph.ancestors[at] if world.is_bad(at) else ~graph.ancestors[at]
    return left.bit_count()


def _graphs(history: History, bars: tuple[float | None, ...]) -> list[tuple[str, CommitGraph, float | None]]:
    named = [(f"line of {size}", line(size)) for size in (100, 1000, 5000)]
    named.append((f"{history.kind} history of {DAG_SIZE}", history.graph()))
    return [(name, graph, bar) for (name, graph), bar in zip(named, bars, strict=True)]


def _neighbours(worlds: list[World]) -> list[int]:
    return [nearest_neighbour(world) for world in worlds]
