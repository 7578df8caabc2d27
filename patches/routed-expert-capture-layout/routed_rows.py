# SPDX-License-Identifier: Apache-2.0
"""Which rows that a router saw are this rank's tokens: said by whoever moved the rows, never guessed from their number.

Between a batch and its router rows are split over TP ranks, padded, and gathered over DP or EP ranks. The number of
rows that comes out does not tell who owns them, in which order, or which are padding. The code that moves the rows
knows, and hands a `RoutedRowLayout` to the capturer through the forward context.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from vllm.forward_context import get_forward_context

if TYPE_CHECKING:
    from vllm.distributed.parallel_state import GroupCoordinator

NO_EXPERT = -1  # what a shard is padded with for the gather; no source range may reach it


@dataclass(frozen=True)
class RoutedRowLayout:
    """Where this DP rank's tokens are among the routed rows. The same on every rank of `gather_group`.

    num_tokens: the tokens of this DP rank, as the producer counts them.
    source_ranges: their rows as (start, stop), in token order; with a gather, counted over the shards put one after
        the other in rank order, each `shard_sizes` long.
    shard_sizes: rows that each rank of `gather_group` has, padding that the router saw included; may be 0.
    gather_group: the ranks among which the rows are split; None when all rows are here already.
    """

    num_tokens: int
    source_ranges: tuple[tuple[int, int], ...]
    shard_sizes: tuple[int, ...] | None = None
    gather_group: GroupCoordinator | None = None

    def __post_init__(self) -> None:
        if (self.shard_sizes is None) != (self.gather_group is None):
            raise ValueError(f"shard_sizes and gather_group go together: {self}")
        if self.gather_group is not None and len(self.shard_sizes) != (self.gather_group.world_size):
            raise ValueError(
                f"{len(self.shard_sizes)} shard sizes for a group of {self.gather_group.world_size} ranks: {self}"
            )
        if any(not 0 <= start <= stop for start, stop in self.source_ranges):
            raise ValueError(f"a source range is no (start, stop): {self}")
        if self.shard_sizes is not None and any(stop > sum(self.shard_sizes) for _, stop in self.source_ranges):
            raise ValueError(f"a source range ends beyond the shards: {self}")
        found = sum(stop - start for start, stop in self.source_ranges)
        if found != self.num_tokens:
            raise ValueError(f"source ranges hold {found} rows for {self.num_tokens} tokens: {self}")


@contextmanager
def hand_over_rows(layout: RoutedRowLayout | None) -> Iterator[None]:
    """Hand a layout to the capturer for the routing done inside; None hands over nothing and takes nothing away."""
    context = get_forward_context()
    before = context.routed_row_layout
    context.routed_row_layout = before if layout is None else layout
    try:
        yield
    finally:
        context.routed_row_layout = before


def runner_layout(runner: Any) -> RoutedRowLayout | None:
    """The rows as a `MoERunner` has them when it routes, None where nobody captures or it cannot say.

    The runner splits the tokens of a DP rank into `sp_size` shards of one size, the last ones padded; its own dispatch
    gathers them DP-major and TP-minor. Other ways are for those to tell who go them.
    """
    dp_metadata, config = get_forward_context().dp_metadata, runner.moe_config
    if getattr(runner.router, "capture_fn", None) is None or dp_metadata is None:
        return None
    if dp_metadata.local_sizes is None or config.pcp_size > 1:
        return None
    sizes, shards = tuple(dp_metadata.local_sizes), config.sp_size
    first = config.dp_rank * shards
    num_tokens = int(dp_metadata.num_tokens_across_dp_cpu[config.dp_rank])
    if runner.do_naive_dispatch_combine:
        start = sum(sizes[:first])
        return RoutedRowLayout(num_tokens, ((start, start + num_tokens),))
    if shards == 1:
        return RoutedRowLayout(num_tokens, ((0, num_tokens),))
    from vllm.distributed.parallel_state import get_tp_group

    return RoutedRowLayout(num_tokens, ((0, num_tokens),), sizes[first : first + shards], get_tp_group())


def restore_rows(topk_ids: torch.Tensor, layout: RoutedRowLayout, dp_metadata: Any, dp_rank: int) -> torch.Tensor:
    """Return the expert ids of this DP rank's tokens, in token order: (num_tokens, top_k).

    Whether a collective is entered depends on the layout alone, so all ranks of the group do or none does. A rank
    that holds other rows than its layout says enters as well, and raises afterwards.
    """
    if dp_metadata is not None:
        counted = int(dp_metadata.num_tokens_across_dp_cpu[dp_rank])
        if counted != layout.num_tokens:
            raise AssertionError(
                f"DP rank {dp_rank} has {counted} tokens, its routed rows are laid out for other ones: {layout}"
            )
    rows = _gather(topk_ids, layout) if layout.gather_group is not None else topk_ids
    local = torch.cat([rows[:0], *(rows[start:stop] for start, stop in layout.source_ranges)])
    if local.shape[0] != layout.num_tokens:
        raise AssertionError(f"{rows.shape[0]} routed rows, of which {local.shape[0]} are laid out as tokens: {layout}")
    return local


def _gather(topk_ids: torch.Tensor, layout: RoutedRowLayout) -> torch.Tensor:
    """Gather the shards of all ranks, padded to the largest, and put them one after the other without the padding."""
    group, sizes = layout.gather_group, layout.shard_sizes
    widest, own = max(sizes), sizes[group.rank_in_group]
    have = topk_ids.shape[0]
    shard = topk_ids.new_full((widest, topk_ids.shape[1]), NO_EXPERT, dtype=torch.int32)
    if have == own:
        shard[:own] = topk_ids
    gathered = group.all_gather(shard, dim=0) if widest else shard
    if have != own:
        raise AssertionError(
            f"rank {group.rank_in_group} of the gather group has {have} routed rows, its layout says {own}: {layout}"
        )
    return torch.cat([gathered[at * widest : at * widest + size] for at, size in enumerate(sizes)])
