"""Runs the tree's own `determine_expert_map` for 1 to 512 experts over 1 to 64 ranks, in both placements.

Each expert must be owned by exactly one rank, under a local id that no other expert has there, and the map must be the
one that plain arithmetic gives. The arithmetic stands below, written without a look at the tree's: ranks that get one
expert more come first, `linear` deals consecutive experts, `round_robin` one expert a rank and turn.

The popular "fix" maps an id with `% local experts`. It is measured beside: every rank then takes every expert for its
own. Where a tree does that, this repro is bad.

Exit code: 0 good, 1 bad, 125 cannot tell. `patchkit: absent` means that the tree has no such function.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

EXPERTS = range(1, 513)
RANKS = range(1, 65)
PLACEMENTS = ("linear", "round_robin")
HOMES = ("expert_map_manager", "layer")  # modules of fused_moe: from 0.22 on, and before
NOT_HERE = -1


class Bad(Exception):
    """The tree ran and did the wrong thing."""


@functools.lru_cache(maxsize=8)
def split(experts: int, ranks: int) -> tuple[int, ...]:
    """How many experts each rank holds: as even as can be, the first ranks hold the remainder."""
    base, more = divmod(experts, ranks)
    return tuple(base + (rank < more) for rank in range(ranks))


def row(experts: int, ranks: int, rank: int, placement: str) -> list[int]:
    """The local id of each expert on one rank, -1 for those of other ranks."""
    counts = split(experts, ranks)
    if placement == "linear":
        first = sum(counts[:rank])
        return [NOT_HERE] * first + list(range(counts[rank])) + [NOT_HERE] * (experts - first - counts[rank])
    table = [NOT_HERE] * experts
    table[rank::ranks] = range(counts[rank])
    return table


def modulo_row(experts: int, ranks: int, rank: int) -> list[int]:
    """What `global id % local experts` makes of it."""
    held = split(experts, ranks)[rank]
    return [expert % held if held else NOT_HERE for expert in range(experts)]


def owners(rows: list[list[int]]) -> list[int]:
    """By how many ranks each expert is owned."""
    total = [0] * len(rows[0])
    for one in rows:
        for expert, local in enumerate(one):
            total[expert] += local >= 0
    return total


def expected(experts: int, ranks: int) -> Iterator[tuple[str, list[list[int]]]]:
    for placement in PLACEMENTS:
        yield placement, [row(experts, ranks, rank, placement) for rank in range(ranks)]


def find_function(tree: Path) -> Callable[..., Any] | None:
    folder = tree / "vllm/model_executor/layers/fused_moe"
    for home in HOMES:
        file = folder / f"{home}.py"
        if file.is_file() and "def determine_expert_map(" in file.read_text(encoding="utf-8"):
            module = __import__(f"vllm.model_executor.layers.fused_moe.{home}", fromlist=["determine_expert_map"])
            function: Callable[..., Any] = module.determine_expert_map
            return function
    return None


def ask(function: Callable[..., Any], experts: int, ranks: int, rank: int, placement: str) -> list[int] | None:
    """The tree's map of one rank as a list; None where it refuses more ranks than experts, which 0.20 to 0.33 do."""
    try:
        held, table, _ = function(ranks, rank, experts, placement)
    except RuntimeError:
        if placement == "round_robin" and rank > experts:
            return None
        raise
    local: list[int] = list(range(experts)) if table is None else table.tolist()
    if held != split(experts, ranks)[rank]:
        raise Bad(f"rank {rank} of {ranks} says it holds {held} of {experts} experts; its map says {local}")
    return local


def compare(function: Callable[..., Any], experts: int, ranks: int) -> int:
    """Check both placements of one (experts, ranks); the number of ranks that were refused."""
    refused = 0
    for placement, wanted in expected(experts, ranks):
        got = [ask(function, experts, ranks, rank, placement) for rank in range(ranks)]
        refused += got.count(None)
        if got != wanted and any(one not in (None, want) for one, want in zip(got, wanted, strict=True)):
            told = owners([one or [NOT_HERE] * experts for one in got])
            wrong = [expert for expert, count in enumerate(told) if count != 1]
            kind = f"expert {wrong[0]} is owned by {told[wrong[0]]} ranks" if wrong else "each is owned once, elsewhere"
            raise Bad(f"{experts} experts over {ranks} ranks, {placement}: {kind}")
    return refused


def modulo_errors(experts: int, ranks: int) -> bool:
    """Whether modulo gives an expert to other than one rank; counted, not tabled: each rank with experts takes all."""
    return sum(held > 0 for held in split(experts, ranks)) > 1


def answer(function: Callable[..., Any]) -> None:
    pairs = maps = refused = modulo = 0
    for experts in EXPERTS:
        for ranks in RANKS:
            refused += compare(function, experts, ranks)
            modulo += modulo_errors(experts, ranks)
            pairs, maps = pairs + 1, maps + ranks * len(PLACEMENTS)
    print(f"{pairs} pairs of experts and ranks, {len(PLACEMENTS)} placements, {maps} maps: each expert is owned once")
    print(f"{refused} maps refused: round_robin with more ranks than experts")
    print(f"modulo: wrong for {modulo} of {pairs} pairs, right for one rank or one expert only")
    held = [rank for rank in range(8) if row(256, 8, rank, "linear")[200] >= 0]
    told = [modulo_row(256, 8, rank)[200] for rank in range(8)]
    print(f"expert 200 of 256 over 8: rank {held[0]} as local {row(256, 8, held[0], 'linear')[200]}; modulo: {told}")


def check_oracle() -> None:
    """The arithmetic must be a partition by itself, or comparing with it proves nothing."""
    for experts, ranks in ((1, 1), (1, 8), (7, 3), (160, 6), (256, 7), (256, 8), (512, 64)):
        for placement, rows in expected(experts, ranks):
            if owners(rows) != [1] * experts:
                raise AssertionError(f"own arithmetic: {experts} over {ranks}, {placement}")
        modulo = owners([modulo_row(experts, ranks, rank) for rank in range(ranks)])
        if modulo_errors(experts, ranks) != (modulo != [1] * experts):
            raise AssertionError(f"modulo counted wrongly: {experts} over {ranks}")


def main() -> int:
    tree = Path(os.environ.get("PATCHKIT_TREE") or Path.cwd()).resolve()
    if not (tree / "vllm" / "__init__.py").is_file():
        print(f"cannot tell: {tree} holds no vllm package")
        return 125
    sys.path.insert(0, str(tree))
    check_oracle()
    try:
        with contextlib.redirect_stdout(sys.stderr):  # vLLM logs on stdout
            function = find_function(tree)
        if function is None:
            print("patchkit: absent")
            return 0
        answer(function)
    except Bad as bad:
        print(f"bad: the expert map is no partition: {bad}")
        return 1
    except Exception as error:
        traceback.print_exc()
        print(f"cannot tell: {type(error).__name__}: {error}")
        return 125
    print("good: the map is a partition, and the one that the arithmetic gives")
    return 0


if __name__ == "__main__":
    sys.exit(main())
