"""Rows with native builds of 40 minutes and tests of one: minutes, beside the least possible and procedures."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from functools import partial

from benchmarks.bisect.history import History
from benchmarks.bisect.optimum import Optimum
from benchmarks.bisect.rivals import bayesect, plain
from benchmarks.bisect.rows import Options, Row, leave_out, mean, spread
from benchmarks.bisect.worlds import Outcome, World, line, make_world, search
from patchkit.search import Settings

BUILD = 40.0  # minutes, a test is one
EXACT = Settings(confirmations=0)
Keyed = tuple[World, tuple[str, ...]]


def measure_builds(options: Options, history: History) -> Iterable[Row]:
    """Count minutes beside the least possible; the same culprits, in as many windows of the history as time allows."""
    for size, few in ((100, 40), (1000, 24), (5000, 0)):
        seeds = options.few(few)
        if not seeds:
            why = "its exact dynamic programme takes minutes: not in a quick run"
            yield leave_out(f"builds of 40 minutes, line of {size}", "minutes", why)
            continue
        graph, windows = line(size), {100: len(seeds), 1000: max(len(seeds) // 50, 1)}.get(size, 1)
        keyed = [(make_world(graph, seed), history.window(size, seed % windows)) for seed in seeds]
        ours = spread(partial(_search_part, EXACT), keyed)
        cached = [minutes for minutes, _ in spread(partial(_plain_part, 1), keyed)]
        parts = [[one for number, one in enumerate(keyed) if number % windows == window] for window in range(windows)]
        least = [minutes for part in spread(_optimum_part, parts) for minutes in part]
        minutes, bar = mean(one.minutes for one in ours), round(1.05 * statistics.mean(least), 2)
        right = mean(one.right for one in ours)
        holds = minutes <= bar and right == 1
        note = f"exact dynamic programme {mean(least)}, {windows} {history.kind} windows"
        name, counts = f"builds of 40 minutes, line of {size}", (len(ours), len(cached))
        yield Row(name, "plain + cache", mean(cached), minutes, bar, "minutes", holds, right, None, None, note, *counts)


def measure_flaky_builds(options: Options, history: History) -> Iterable[Row]:
    """Count minutes where runs err as well; rivals run a commit up to five times, or are git_bayesect."""
    graph = line(1000)
    for false_pass, bar in ((0.1, 218.0), (0.2, 226.0), (0.3, 235.0)):
        keyed = [
            (make_world(graph, seed, false_pass=false_pass), history.window(1000, seed)) for seed in options.few(3)
        ]
        ours = spread(partial(_search_part, Settings(flaky=True, confidence=0.99)), keyed)
        any_of = spread(partial(_plain_part, 5), keyed)
        others = spread(_bayesect_part, keyed)
        minutes, right = mean(one.minutes for one in ours), statistics.mean(one.right for one in ours)
        stated = statistics.mean(one.stated for one in ours)
        rates = [statistics.mean(hit for _, hit in found) for found in (any_of, others)]
        bayesian = mean(spent for spent, _ in others)
        note = f"stated {stated:.3f}; git_bayesect {bayesian} (right {rates[1]:.3f}); {history.kind} windows"
        holds = minutes <= bar and right >= 0.98 and right >= stated - 0.02
        rate = (round(right, 4), round(stated, 4), None, note, len(ours), len(any_of))
        rival, theirs = f"any of 5 + cache (right {rates[0]:.3f})", mean(spent for spent, _ in any_of)
        name = f"flaky {false_pass}, builds, line of 1000"
        yield Row(name, rival, theirs, minutes, bar, "minutes", holds, *rate)


def _search_part(settings: Settings, keyed: Sequence[Keyed]) -> list[Outcome]:
    return [search(world, settings, keys, BUILD) for world, keys in keyed]


def _plain_part(runs: int, keyed: Sequence[Keyed]) -> list[tuple[float, bool]]:
    return [plain(world, keys, BUILD, runs) for world, keys in keyed]


def _bayesect_part(keyed: Sequence[Keyed]) -> list[tuple[float, bool]]:
    return [bayesect(world, 0.95, keys, BUILD)[:0:-1] for world, keys in keyed]


def _optimum_part(parts: Sequence[Sequence[Keyed]]) -> list[list[float]]:
    found = []
    for keyed in parts:
        optimum = Optimum(keyed[0][1], BUILD)
        found.append([optimum.minutes(world.culprit) for world, _ in keyed])
    return found
