"""Captures routed experts of all ranks in one process: the tree's own capturer, a forward context and a group of ours.

Each rank is run twice. The first time its group notes what the rank would hand in to a collective, and ends it there:
so it is seen, without waiting, when one rank enters and another does not, or when shards differ in size. The second
time the group answers with the shards of all.

Exit code: 0 good, 1 bad, 125 cannot tell. `patchkit: absent` means that there is no capturer.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from typing import Any

from rows import (
    CONTROLS,
    EXPLICIT,
    LAYERS,
    STEPS,
    TOP_K,
    Place,
    Tree,
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

SMALL_STEPS = range(len(STEPS) - 1)
Found = str | None  # what is wrong; "" nothing


class Entered(Exception):
    """A rank has come to a collective, with this shard."""

    def __init__(self, shard: Any) -> None:
        super().__init__()
        self.shard = shard


class Group:
    """What stands for the TP group of one rank. Without `shards` a collective ends the rank."""

    def __init__(self, place: Place, shards: list[Any] | None = None) -> None:
        self.world_size, self.rank_in_group, self.shards = place.tp, place.tp_rank, shards

    def all_gather(self, shard: Any, dim: int = -1) -> Any:
        import torch

        if self.world_size == 1:
            return shard
        if self.shards is None:
            raise Entered(shard)
        if dim != 0:
            raise AssertionError(f"rows are gathered along dimension {dim}")
        return torch.cat(self.shards)


def rows_of(kind: str, step: int, place: Place) -> Any:
    """What a rank's router sees, gathered by hand where the layout gathers."""
    import torch

    over = gathered_over(kind)
    if not over:
        return local_rows(kind, step, place)
    tps = range(place.tp) if over == "ep" else [place.tp_rank]
    return torch.cat([local_rows(kind, step, Place(place.tp, place.dp, t, d)) for d in range(place.dp) for t in tps])


def run_rank(tree: Tree, kind: str, step: int, group: Group, place: Place) -> Iterator[Any]:
    """Capture layer by layer; yields the buffer's rows after each layer."""
    capturer = tree.new_capturer(place)
    router = tree.new_router(capturer.capture)
    tree.state._TP = group
    tokens = STEPS[step][place.dp_rank]
    layout = layout_of(tree, said_of(kind, step, place), tokens, group)
    rows = rows_of(kind, step, place)
    with tree.forward(kind, counts_of(step, place.dp), place), hand_over(tree, layout):
        for router.layer in range(LAYERS):
            group.shards = yield capturer.device_buffer[:tokens]
            route(tree, kind, router, rows, place)
    yield capturer.device_buffer[:tokens]


def first_collective(tree: Tree, kind: str, step: int, place: Place) -> Any:
    """The shard that a rank hands in for its first layer, None where it enters no collective."""
    run = run_rank(tree, kind, step, Group(place), place)
    next(run)
    try:
        next(run)
    except Entered as entered:
        return entered.shard
    return None


def check_group(tree: Tree, kind: str, step: int, places: list[Place]) -> Found:
    """One TP group in one step."""
    shards, raised = {}, {}
    for place in places:
        try:
            shards[place.tp_rank] = first_collective(tree, kind, step, place)
        except AssertionError as error:
            raised[place.tp_rank] = str(error)[:160]
    inside = [rank for rank, shard in shards.items() if shard is not None]
    if inside and len(inside) < len(places):
        others = f"rank {min(raised)} raises {raised[min(raised)]}" if raised else "the others do not"
        return f"ranks {inside} enter a collective alone: {others}"
    if raised:
        return f"ranks {sorted(raised)} raise {raised[min(raised)]}"
    sizes = [len(shards[rank]) for rank in inside]
    if len(set(sizes)) > 1:
        return f"shards of {sizes} rows go into one collective"
    return next(filter(None, (check_rank(tree, kind, step, place, shards) for place in places)), "")


def check_rank(tree: Tree, kind: str, step: int, place: Place, first: dict[int, Any]) -> Found:
    """All layers of one rank. Ids are those of the first layer and what a layer adds, so the shards follow from it."""
    if not publishes(kind, place):
        return ""
    run, captured = run_rank(tree, kind, step, Group(place), place), None
    next(run)
    for layer in range(LAYERS):
        shards = None if first[place.tp_rank] is None else [shift(first[rank], layer) for rank in range(place.tp)]
        captured = run.send(shards)
    problem = differences(captured, step, place)
    return f"rank {place.tp_rank} of DP rank {place.dp_rank}, step {step}: {problem}" if problem else ""


def shift(shard: Any, layer: int) -> Any:
    """A shard of the first layer as that of another one. What fills it up is not an id, and no matter."""
    return shard + layer * TOP_K


def check(tree: Tree) -> int:
    problems, count = [], 0
    if found := leftovers(tree):
        problems.append(found)
    for kind in (*EXPLICIT, *CONTROLS):
        for tp, dp in [(tp, dp) for tp in (1, 2, 4) for dp in (1, 2)]:
            places = [[Place(tp, dp, rank, dp_rank) for rank in range(tp)] for dp_rank in range(dp)]
            asked = [(step, group) for step in SMALL_STEPS for group in places]
            found = next(filter(None, (check_group(tree, kind, step, group) for step, group in asked)), "")
            print(f"{kind} tp={tp} dp={dp}: {found or 'right'}", flush=True)
            problems += [f"{kind} tp={tp} dp={dp}: {found}"] if found else []
            count += 1
    for problem in problems:
        print(f"bad: routed experts: {problem}")
    if not problems:
        print(f"good: every expert id is right in {count} configurations, and no rank enters a collective alone")
    return 1 if problems else 0


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
