"""The rivals, really run: `git bisect run` on a repository of empty commits, git_bayesect's Bisector, and procedures.

The procedures are plain bisection (midpoint, ends built) with a cache of builds, the same with every probe run up to
five times, the untested neighbour of a midpoint that cannot be tested, and ddmin (Zeller and Hildebrandt, 2002).
"""

from __future__ import annotations

import itertools
import resource
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.bisect.worlds import World
from patchkit.search import CommitGraph

GIT = ("git", "-c", "gc.auto=0", "-c", "user.name=b", "-c", "user.email=b@example.org")
CODES = {"good": 0, "bad": 1, "skip": 125}


class GitBisect:
    """The commits of a graph, empty; the probe is a shell that looks a commit's answer up."""

    def __init__(self, folder: Path, graph: CommitGraph) -> None:
        self.folder, self.graph = folder, graph
        subprocess.run([*GIT, "init", "-q", str(folder)], check=True)
        marks = {node: mark for mark, node in enumerate((graph.good, *graph.nodes), start=1)}
        stream = "".join(self._commit(node, marks) for node in marks)
        self._git("fast-import", "--quiet", f"--export-marks={folder / 'marks'}", text=stream)
        self._git("symbolic-ref", "HEAD", "refs/heads/line")  # git bisect wants a HEAD that is a commit
        lines = (line.split() for line in (folder / "marks").read_text().splitlines())
        ids = {int(mark[1:]): commit for mark, commit in lines}
        self.ids = {node: ids[mark] for node, mark in marks.items()}

    def _commit(self, node: str, marks: Mapping[str, int]) -> str:
        parents = [marks[parent] for parent in self.graph.parents.get(node, ()) if parent in marks] or [1]
        parents = list(dict.fromkeys(parents)) if node != self.graph.good else []
        links = "".join(f"{'merge' if place else 'from'} :{mark}\n" for place, mark in enumerate(parents))
        return (
            f"commit refs/heads/line\nmark :{marks[node]}\n"
            f"committer b <b@example.org> {1_700_000_000 + marks[node]} +0000\ndata 1\nx\n{links}"
        )

    def run(self, world: World) -> tuple[int, str]:
        """Return how many probes `git bisect run` makes on one run of each commit, and the commit that it names."""
        run = world.runner()
        return self.run_on({node: run(position) for position, node in enumerate(self.graph.nodes)})

    def run_on(self, answers: Mapping[str, str]) -> tuple[int, str]:
        """Return the same for given answers; no name when only skips are left."""
        log, table = self.folder / ".git" / "probes", self.folder / ".git" / "answers"
        log.write_text("")
        table.write_text("".join(f"{self.ids[node]} {CODES[answer]}\n" for node, answer in answers.items()))
        self._git("bisect", "start", "--no-checkout", self.ids[self.graph.bad], self.ids[self.graph.good])
        probe = (
            'read -r head < .git/BISECT_HEAD; echo $head >> "$1"; code=$(sed -n "s/^$head //p" "$2"); exit ${code:-128}'
        )
        command = [*GIT, "bisect", "run", "sh", "-c", probe, "probe", str(log), str(table)]
        done = subprocess.run(command, cwd=self.folder, check=False, capture_output=True, text=True)
        named = next((line.split()[0] for line in done.stdout.splitlines() if "is the first bad commit" in line), "")
        self._git("bisect", "reset")
        names = {commit: node for node, commit in self.ids.items()}
        return len(log.read_text().split()), names.get(named, "")

    def time_choice(self) -> float:
        """Return the seconds of processor that git takes to choose the first commit."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self._git("rev-list", "--bisect", self.ids[self.graph.bad], f"^{self.ids[self.graph.good]}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def _git(self, *arguments: str, text: str | None = None) -> str:
        command = [*GIT, *arguments]
        return subprocess.run(command, cwd=self.folder, input=text, text=True, check=True, capture_output=True).stdout


def bayesect(
    world: World, confidence: float, keys: Sequence[str] = (), build_minutes: float = 0.0, most: int = 400
) -> tuple[int, bool, float]:
    """Return the runs that git_bayesect takes to its confidence, whether it names the culprit, and the minutes.

    It indexes commits newest first, and is told the ends as `start` does: nothing is recorded at them.
    """
    import numpy
    from git_bayesect import Bisector

    bisector = Bisector(numpy.ones(world.size + 1))
    run, runs, bill = world.runner(), 0, Bill(keys, build_minutes)
    while bisector.distribution.max() < confidence and runs < most:
        index = int(bisector.select())
        position = world.size - 1 - index
        bisector.record(index, run(position) == "bad")
        bill.pay(position)
        runs += 1
    return runs, world.size - 1 - int(bisector.distribution.argmax()) == world.culprit, bill.minutes


class Bill:
    """Minutes of probes on a line with build keys (of the good end, then of each commit); the ends are built."""

    def __init__(self, keys: Sequence[str], build_minutes: float) -> None:
        self.keys, self.build_minutes, self.minutes = keys, build_minutes, 0.0
        self.built = {keys[0], keys[-1]} if keys else set()

    def pay(self, position: int) -> None:
        """Add a test, and the build where it is missing."""
        self.minutes += 1
        if self.keys and self.keys[position + 1] not in self.built:
            self.built.add(self.keys[position + 1])
            self.minutes += self.build_minutes


def plain(world: World, keys: Sequence[str], build_minutes: float, runs: int = 1) -> tuple[float, bool]:
    """Bisect by midpoints with a cache of builds; a commit is bad when any of `runs` fails. Minutes, and right?"""
    run, bill, good, bad = world.runner(), Bill(keys, build_minutes), -1, world.size - 1
    while bad - good > 1:
        middle, failed = (good + bad) // 2, False
        for _ in range(runs):
            bill.pay(middle)
            failed = run(middle) == "bad"
            if failed:
                break
        good, bad = (good, middle) if failed else (middle, bad)
    return bill.minutes, bad == world.culprit


def nearest_neighbour(world: World) -> int:
    """Bisect by midpoints, then by the untested commit closest to one that was skipped; return the probes."""
    graph, run, left, tried = world.graph, world.runner(), world.graph.whole, set()
    probes = 0
    while True:
        inside = [at for at in range(world.size) if left >> at & 1]
        reach = {at: (graph.ancestors[at] & left).bit_count() for at in inside if at not in tried}
        useful = [at for at in reach if 0 < reach[at] < len(inside)]
        if not useful:
            return probes
        middle = max(inside, key=lambda at: min(n := (graph.ancestors[at] & left).bit_count(), len(inside) - n))
        at = min(useful, key=lambda one: abs(one - middle))
        tried.add(at)
        probes += 1
        answer = run(at)
        if answer != "skip":
            left &= graph.ancestors[at] if answer == "bad" else ~graph.ancestors[at]


def ddmin(items: Sequence[str], is_bad: Callable[[frozenset[str]], bool]) -> int:
    """Return the runs of ddmin, with its answers kept."""
    seen: dict[frozenset[str], bool] = {frozenset(items): True, frozenset(): False}
    runs = 0

    def test(held: Sequence[str]) -> bool:
        nonlocal runs
        if frozenset(held) not in seen:
            seen[frozenset(held)] = is_bad(frozenset(held))
            runs += 1
        return seen[frozenset(held)]

    rest, parts = list(items), 2
    while len(rest) > 1:
        edges = [len(rest) * number // parts for number in range(parts + 1)]
        subsets = [rest[start:stop] for start, stop in itertools.pairwise(edges)]
        smaller = next((subset for subset in subsets if test(subset)), None)
        if smaller is not None:
            rest, parts = smaller, 2
            continue
        others = ([item for item in rest if item not in subset] for subset in subsets)
        complement = next((other for other in others if test(other)), None) if parts > 2 else None
        if complement is not None:
            rest, parts = complement, max(parts - 1, 2)
        elif parts == len(rest):
            break
        else:
            parts = min(len(rest), 2 * parts)
    return runs
