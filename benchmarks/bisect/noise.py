"""Rows with a repro that errs, with ends that are not what they are said to be, and with values instead of answers."""

from __future__ import annotations

import random
import statistics
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.bisect.history import History
from benchmarks.bisect.rivals import GitBisect, bayesect
from benchmarks.bisect.rows import Options, Row, git_all, mean, percentile, search_all, spread
from benchmarks.bisect.worlds import World, line, make_world
from patchkit.search import Answer, Probe, Settings, decide, fold

SIZE = 100


def measure_flaky(options: Options, _history: History) -> Iterable[Row]:
    """Count runs of a repro that errs beside git_bayesect, at the confidence that gives each the success asked for."""
    for (false_pass, false_fail), confidence, bar, wanted in (
        ((0.1, 0.0), 0.96, 13.5, 0.99),
        ((0.2, 0.0), 0.94, 15.5, 0.98),
        ((0.3, 0.0), 0.95, 19.5, 0.97),
        ((0.3, 0.05), 0.99, 35.0, 0.99),
    ):
        worlds = [
            make_world(line(SIZE), seed, false_pass=false_pass, false_fail=false_fail) for seed in options.few(40)
        ]
        ours = search_all(worlds, Settings(flaky=True, confidence=confidence))
        theirs = spread(_bayesects, worlds[: len(options.few(12))])
        runs, right = mean(one.runs for one in ours), statistics.mean(one.right for one in ours)
        stated = statistics.mean(one.stated for one in ours)
        rival = f"git_bayesect (right {statistics.mean(hit for _, hit, _ in theirs):.3f})"
        holds = runs <= bar and right >= wanted and right >= stated - 0.02
        name = f"flaky {false_pass}/{false_fail}, line of {SIZE}"
        note = f"stated {stated:.3f} at confidence {confidence}, wanted {wanted}"
        rate = (round(right, 4), round(stated, 4), percentile(one.runs for one in ours))
        counts = (len(ours), len(theirs))
        yield Row(name, rival, mean(count for count, *_ in theirs), runs, bar, "runs", holds, *rate, note, *counts)


def measure_ends(options: Options, _history: History) -> Iterable[Row]:
    """Count how often an end that is not what it is said to be is told, with 20 % of runs passing on bad commits."""
    for name, culprit, end in (("good end really bad", -1, "good"), ("bad end really good", SIZE, f"c{SIZE - 1}")):
        worlds = [replace(make_world(line(SIZE), seed, false_pass=0.2), culprit=culprit) for seed in options.few(12)]
        ours = search_all(worlds, Settings(flaky=True))
        told = round(statistics.mean(one.blamed == (end,) for one in ours), 4)
        found = git_all(worlds[: options.git_seeds])
        theirs = round(statistics.mean(not named for _, named in found), 4)
        runs = mean(one.runs for one in ours)
        note = f"{runs} runs; the bar is a least share"
        rate = (None, None, None, note, len(ours), len(found))
        yield Row(f"{name}, 20 % flaky", "git bisect", theirs, told, 0.98, "detected", told >= 0.98, *rate)


@dataclass(frozen=True)
class Meter:
    """A measurement of 100 at good commits and of `effect` deviations more at bad ones; the deviation is 5."""

    culprit: int
    effect: float
    seed: int

    def values(self) -> random.Random:
        """Return the source of noise."""
        return random.Random(self.seed)

    def measure(self, position: int, noise: random.Random) -> float:
        """Measure a commit once."""
        return 100 + 5 * (self.effect * (position >= self.culprit) + noise.gauss(0, 1))


def measure_metric(options: Options, _history: History) -> Iterable[Row]:
    """Find a regression of a measured value, beside a threshold half way between the ends (three runs each) and git."""
    for effect in (6.0, 3.0, 2.0):
        meters = [Meter(random.Random(seed).randrange(SIZE), effect, seed) for seed in options.few(12)]
        ours, theirs = spread(_metrics, meters), spread(_thresholds, meters[: options.git_seeds])
        runs, right = mean(count for count, *_ in ours), statistics.mean(hit for _, hit, _ in ours)
        stated = statistics.mean(claimed for *_, claimed in ours)
        rate = statistics.mean(hit for _, hit in theirs)
        holds = right >= stated - 0.02 and right >= rate
        yield Row(
            f"value, {effect:g} deviations, line of {SIZE}",
            f"threshold + git bisect (right {rate:.3f})",
            mean(count for count, _ in theirs),
            runs,
            None,
            "runs",
            holds,
            round(right, 4),
            round(stated, 4),
            note="right as often as claimed, and as the rival",
            culprits=len(ours),
            rival_culprits=len(theirs),
        )


def _bayesects(worlds: Sequence[World]) -> list[tuple[int, bool, float]]:
    return [bayesect(world, 0.95) for world in worlds]


def _metrics(meters: Sequence[Meter]) -> list[tuple[int, bool, float]]:
    return [_metric(meter) for meter in meters]


def _metric(meter: Meter) -> tuple[int, bool, float]:
    graph, noise = line(SIZE), meter.values()
    events: list[dict[str, object]] = []
    while isinstance(decision := decide(graph, fold(events), Settings(metric=True, confidence=0.95)), Probe):
        for node in decision.nodes:
            value = meter.measure(graph.index.get(node, -1), noise)
            events.append({"event": "probe", "node": node, "answer": "good", "value": value, "fresh": True})
    if not isinstance(decision, Answer):
        return len(events), False, 0.0
    return len(events), decision.first_bad == f"c{meter.culprit}", decision.candidates[0].probability


def _thresholds(meters: Sequence[Meter]) -> list[tuple[int, bool]]:
    graph, found = line(SIZE), []
    with tempfile.TemporaryDirectory(prefix="patchkit-bench-") as folder:
        rival = GitBisect(Path(folder) / "repository", graph)
        for meter in meters:
            noise = meter.values()
            threshold = statistics.mean(meter.measure(at, noise) for at in (-1, SIZE - 1) for _ in range(3))
            answers = {
                node: "bad" if meter.measure(at, noise) > threshold else "good" for at, node in enumerate(graph.nodes)
            }
            runs, named = rival.run_on(answers)
            found.append((runs + 6, named == f"c{meter.culprit}"))
    return found
