"""Captures routed experts over real processes: each layout on tp × dp ranks, torch's gloo backend, every id compared.

vLLM is imported once; each configuration forks its ranks from there and makes vLLM's own `GroupCoordinator`s, so the
collectives of the capturer go through the tree's communicator. A rank that fails stays until the others are done or
stand still: one that then is still inside the capture waits in a collective that nobody else enters, a deadlock.

Exit code: 0 good, 1 bad, 125 cannot tell. `patchkit: absent` means that there is no capturer.
"""

from __future__ import annotations

import datetime
import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from rows import (
    CONTROLS,
    EXPLICIT,
    LAYERS,
    RUNNER,
    STEPS,
    TOP_K,
    Place,
    Tree,
    capture_into,
    counts_of,
    differences,
    gathered_over,
    hand_over,
    layout_of,
    leftovers,
    local_rows,
    open_tree,
    publishes,
    route,
    said_of,
)

SIZES = [(tp, dp) for tp in (1, 2, 4) for dp in (1, 2)]
CASE_SECONDS = 180  # all of a configuration, on a busy machine
GRACE_SECONDS = 10  # for the other ranks once one has failed
FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Case:
    """One configuration. With `liar` the last rank of each TP group holds other rows than its layout says."""

    kind: str
    tp: int
    dp: int
    liar: bool = False

    @property
    def ranks(self) -> int:
        return self.tp * self.dp

    def place(self, rank: int) -> Place:
        return Place(self.tp, self.dp, rank % self.tp, rank // self.tp)

    def __str__(self) -> str:
        return f"{self.kind} tp={self.tp} dp={self.dp}" + (" with a false layout" if self.liar else "")


@dataclass
class Outcome:
    """What the ranks of a configuration said. `compared` by rank: expert ids held against the oracle."""

    compared: dict[int, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    raised: dict[int, str] = field(default_factory=dict)
    alone: list[int] = field(default_factory=list)
    late: list[int] = field(default_factory=list)


def cases(tree: Tree) -> list[Case]:
    """All layouts at all sizes, and beside them what must stay as it is."""
    made = [Case(kind, tp, dp) for kind in (*EXPLICIT, *CONTROLS, *RUNNER) for tp, dp in SIZES]
    made = [case for case in made if not ("metadata" in case.kind and case.dp > 1)]
    made = [case for case in made if not ("naive" in case.kind and "SP" not in case.kind and case.dp == 1)]
    made = [case for case in made if not ("SP" in case.kind and case.tp == 1)]
    return made + [Case("L1", tp, 1, liar=True) for tp in (2, 4) if tree.layout is not None]


# -- in a rank --------------------------------------------------------------------------------------------------------


class Rank:
    """One process of a configuration."""

    def __init__(self, tree: Tree, case: Case, rank: int, meeting: str) -> None:
        import torch.distributed as dist

        limit = datetime.timedelta(seconds=CASE_SECONDS)
        dist.init_process_group("gloo", f"file://{meeting}", world_size=case.ranks, rank=rank, timeout=limit)
        self.tree, self.case, self.rank, self.place = tree, case, rank, case.place(rank)
        by_dp = [[dp * case.tp + tp for tp in range(case.tp)] for dp in range(case.dp)]
        by_tp = [list(ranks) for ranks in zip(*by_dp, strict=True)]
        self.groups = {
            name: self.new_group(ranks, name)
            for name, ranks in {"tp": by_dp, "dp": by_tp, "ep": [list(range(case.ranks))]}.items()
        }
        tree.state._TP, tree.state._DP, tree.state._EP = (self.groups[name] for name in ("tp", "dp", "ep"))

    def new_group(self, ranks: list[list[int]], name: str) -> Any:
        return self.tree.state.GroupCoordinator(
            group_ranks=ranks,
            local_rank=self.rank,
            torch_distributed_backend="gloo",
            use_device_communicator=True,
            group_name=name,
        )

    def gather(self, rows: Any, name: str) -> Any:
        """Gather rows over a group, in rank order, by torch alone: the code under test has no part in it."""
        import torch
        import torch.distributed as dist

        group = self.groups[name]
        size = torch.tensor([len(rows)])
        sizes = [torch.zeros_like(size) for _ in group.ranks]
        dist.all_gather(sizes, size, group=group.cpu_group)
        widest = max(int(one) for one in sizes)
        parts = [torch.empty(widest, dtype=rows.dtype) for _ in group.ranks]
        dist.all_gather(parts, torch.cat([rows, rows.new_zeros(widest - len(rows))]), group=group.cpu_group)
        return torch.cat([part[: int(one)] for part, one in zip(parts, sizes, strict=True)])

    def run(self, phase: Callable[[bool], None]) -> tuple[int, list[str]]:
        """All steps. Returns how many expert ids were compared, and what was wrong with them."""
        compared, wrong = 0, []
        capturer = self.tree.new_capturer(self.place)
        router = self.tree.new_router(capture_into(capturer, phase))
        if self.case.liar:
            self.forward(0, router, layers=1)  # who raises ends here; in the next collective all others would wait
            return 0, []
        for step in range(len(STEPS)):
            self.forward(step, router)
            tokens = STEPS[step][self.place.dp_rank]
            if not publishes(self.case.kind, self.place):
                continue
            problem = differences(capturer.device_buffer[:tokens], step, self.place)
            compared += tokens * LAYERS * TOP_K
            wrong += [f"rank {self.rank}, step {step}: {problem}"] if problem else []
        return compared, wrong

    def forward(self, step: int, router: Any, layers: int = LAYERS) -> None:
        case, place = self.case, self.place
        rows = local_rows(case.kind, step, place)
        if over := gathered_over(case.kind):
            rows = self.gather(rows, over)
        if case.liar and place.tp_rank == case.tp - 1:
            rows = rows[:-1]
        said, tokens = said_of(case.kind, step, place), STEPS[step][place.dp_rank]
        layout = layout_of(self.tree, said, tokens, self.groups["tp"])
        with self.tree.forward(case.kind, counts_of(step, place.dp), place), hand_over(self.tree, layout):
            for router.layer in range(layers):
                route(self.tree, case.kind, router, rows, place)


def run_rank(tree: Tree, case: Case, rank: int, line: Connection, shared: tuple[Any, str]) -> None:
    """The life of a forked rank: it answers, and stays until the parent has heard all."""
    import torch

    torch.set_num_threads(1)
    inside, meeting = shared

    def phase(entered: bool) -> None:
        inside[rank] = entered

    try:
        line.send(("done", *Rank(tree, case, rank, meeting).run(phase)))
    except Exception as error:
        if not inside[rank]:
            traceback.print_exc(file=sys.stdout)  # of the repro's own, or of torch: it says nothing about the capturer
        kind = "raised" if inside[rank] else "broken"
        line.send((kind, f"{type(error).__name__}: {str(error)[:160]}"))
    sys.stdout.flush()
    line.poll(CASE_SECONDS)
    os._exit(0)


# -- in the parent ----------------------------------------------------------------------------------------------------


def run_case(tree: Tree, case: Case) -> Outcome:
    """Fork the ranks of a configuration and hear them all, but wait only so long for those that another one left."""
    outcome, inside = Outcome(), FORK.Array("b", case.ranks, lock=False)
    with tempfile.TemporaryDirectory() as folder:
        meeting = str(Path(folder) / "meeting")
        lines, processes = {}, []
        for rank in range(case.ranks):
            ours, theirs = FORK.Pipe()
            lines[ours] = rank
            processes.append(FORK.Process(target=run_rank, args=(tree, case, rank, theirs, (inside, meeting))))
            processes[-1].start()
            theirs.close()
        try:
            hear(outcome, lines, inside)
        finally:
            for process in processes:
                process.kill()
                process.join()
    return outcome


def hear(outcome: Outcome, lines: dict[Connection, int], inside: Any) -> None:
    waiting, until = dict(lines), time.monotonic() + CASE_SECONDS
    while waiting and (left := until - time.monotonic()) > 0:
        for line in wait(list(waiting), timeout=left):
            take(outcome, waiting.pop(line), line)
        if outcome.raised:
            until = min(until, time.monotonic() + GRACE_SECONDS)
    for rank in waiting.values():
        (outcome.alone if inside[rank] else outcome.late).append(rank)


def take(outcome: Outcome, rank: int, line: Connection) -> None:
    try:
        kind, *rest = line.recv()
    except EOFError:
        raise RuntimeError(f"rank {rank} ended without an answer") from None
    if kind == "broken":
        raise RuntimeError(f"rank {rank}: {rest[0]}")
    if kind == "raised":
        outcome.raised[rank] = rest[0]
    else:
        outcome.compared[rank] = rest[0]
        outcome.wrong += rest[1]


def raisers(outcome: Outcome) -> str:
    """Who raises, and what the first of them says."""
    ranks = sorted(outcome.raised)
    return f"ranks {ranks} raise {outcome.raised[ranks[0]]}" if ranks else ""


def judge(case: Case, outcome: Outcome) -> str:
    """What is wrong with a configuration, "" for nothing."""
    if outcome.alone:
        return f"ranks {outcome.alone} wait alone in a collective; {raisers(outcome) or 'nobody raises'}"
    if case.liar:
        liars = {rank for rank in range(case.ranks) if rank % case.tp == case.tp - 1}
        return "" if set(outcome.raised) == liars else f"only ranks {sorted(outcome.raised)} of {sorted(liars)} raise"
    if outcome.raised:
        return raisers(outcome)
    if outcome.late:
        raise RuntimeError(f"{case}: ranks {outcome.late} did not answer in {CASE_SECONDS} s")
    return min(outcome.wrong, default="")


@dataclass
class Totals:
    """The count over all configurations. `distinct` counts each DP rank's tokens once, `compared` on every rank."""

    layouts: int = 0
    compared: int = 0
    distinct: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, case: Case, outcome: Outcome, problem: str) -> None:
        compared = sum(outcome.compared.values())
        print(f"{case}: {problem or f'right, {compared} expert ids'}", flush=True)
        if problem:
            self.problems.append(f"{case}: {problem}")
        if case.kind in ("L1", "L2", "L3") and not case.liar:
            self.layouts += 1
            self.compared += compared
            self.distinct += sum(n for rank, n in outcome.compared.items() if rank % case.tp == 0)


def check(tree: Tree) -> int:
    totals, started = Totals(), time.monotonic()
    if found := leftovers(tree):
        totals.problems.append(found)
        print(found)
    for case in cases(tree):
        outcome = run_case(tree, case)
        totals.add(case, outcome, judge(case, outcome))
    print(
        f"{totals.layouts} configurations of L1, L2, L3; {totals.compared} expert ids compared, "
        f"{totals.distinct} of them counting each token once; {time.monotonic() - started:.0f} s"
    )
    for problem in totals.problems:
        print(f"bad: routed experts: {problem}")
    if not totals.problems:
        print("good: every expert id of every token, layer and place is right in every layout")
    return 1 if totals.problems else 0


def main() -> int:
    try:
        tree = open_tree()
        if isinstance(tree, str):
            print(tree)
            return 125 if tree.startswith("cannot tell") else 0
        return check(tree)
    except Exception as error:
        traceback.print_exc(file=sys.stdout)
        print(f"cannot tell: {type(error).__name__}: {error}")
        return 125


if __name__ == "__main__":
    sys.exit(main())
