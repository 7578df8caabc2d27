# SPDX-License-Identifier: Apache-2.0
"""The layout of the rows that a prepare step has split or gathered, handed to the capturer of routed experts.

It is set where the rows are moved, in every layer anew: a step that moves rows in a way not told here forgets the
layout first, so no layer goes by that of another one.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from vllm.distributed.parallel_state import get_dp_group, get_tp_group
from vllm.forward_context import get_forward_context

try:
    from vllm.model_executor.layers.fused_moe.routed_rows import RoutedRowLayout
except ImportError:
    logging.getLogger(__name__).warning("this vLLM knows no layout of routed rows: whose they are is guessed")
    RoutedRowLayout = None


def forget_rows() -> None:
    """Say that nothing is known: the capturer has to guess, as it did."""
    get_forward_context().routed_row_layout = None


def lay_out_local_rows(tokens: int) -> None:
    """The rows are this rank's tokens, and padding after them."""
    _hand_over(tokens, 0)


def lay_out_split_rows(tokens: int, parts: Sequence[Any]) -> None:
    """The tokens and the padding after them are split over the TP ranks into these parts."""
    _hand_over(tokens, 0, shard_sizes=tuple(part.shape[0] for part in parts), gather_group=get_tp_group())


def lay_out_gathered_rows(tokens: int, widest: int) -> None:
    """The batches of all DP ranks, each padded to `widest` rows, stand one after the other."""
    _hand_over(tokens, get_dp_group().rank_in_group * widest)


def _hand_over(tokens: int, first: int, **split: Any) -> None:
    """Set the layout, unless the batch of this layer is not the one that DP counts the tokens of."""
    context = get_forward_context()
    metadata = context.dp_metadata
    counted = tokens
    if metadata is not None:
        counted = int(metadata.num_tokens_across_dp_cpu[get_dp_group().rank_in_group])
    if RoutedRowLayout is None or counted != tokens:
        forget_rows()
    else:
        context.routed_row_layout = RoutedRowLayout(tokens, ((first, first + tokens),), **split)
