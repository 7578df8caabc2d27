"""Refuses a MoE config that this deployment cannot run, before any worker starts.

Without it the same numbers end in an assertion without a message in every worker, after minutes of start-up. Only what
the layers themselves refuse is refused here, and only for model types whose use of the fields has been read; anything
else passes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

# The field that holds the size that tensor parallelism cuts.
EXPERT_SIZE_FIELD = {
    "deepseek_v2": "moe_intermediate_size",
    "deepseek_v3": "moe_intermediate_size",
    "deepseek_v32": "moe_intermediate_size",
    "deepseek_v4": "moe_intermediate_size",
    "glm4_moe": "moe_intermediate_size",
    "gpt_oss": "intermediate_size",
    "kimi_k2": "moe_intermediate_size",
    "llama4_text": "intermediate_size",
    "minimax_m2": "intermediate_size",
    "mixtral": "intermediate_size",
    "qwen2_moe": "moe_intermediate_size",
    "qwen3_moe": "moe_intermediate_size",
}
EXPERTS_FIELDS = ("n_routed_experts", "num_experts", "num_local_experts")
SMALLEST_REFINED_BLOCK = 32


def check_moe_config(model_config: Any, parallel_config: Any, refines_blocks: bool) -> None:
    """Raise ValueError with every problem, its field and its arithmetic.

    `refines_blocks`: whether this release refines FP8 block scales that tensor parallelism would cut.
    """
    config = model_config.hf_text_config
    field = EXPERT_SIZE_FIELD.get(getattr(config, "model_type", ""))
    if field is None or not _has_moe_layers(config):
        return
    problems = [
        *_check_expert_size(model_config, parallel_config, field, refines_blocks),
        *_check_eplb(config, parallel_config),
    ]
    if problems:
        listed = "\n".join(f"  - {problem}" for problem in problems)
        raise ValueError(f"This MoE model cannot run on this deployment:\n{listed}")


def _has_moe_layers(config: Any) -> bool:
    dense = getattr(config, "first_k_dense_replace", None) or 0
    return dense < getattr(config, "num_hidden_layers", 1)


def _check_expert_size(model_config: Any, parallel_config: Any, field: str, refines_blocks: bool) -> Iterator[str]:
    size = getattr(model_config.hf_text_config, field, None)
    tp = parallel_config.tensor_parallel_size
    dp = parallel_config.data_parallel_size
    pcp = getattr(parallel_config, "prefill_context_parallel_size", 1)
    ranks, by = dp * pcp * tp, f"data {dp} x prefill context {pcp} x tensor {tp} parallel ranks = {dp * pcp * tp}"
    if not isinstance(size, int):
        return
    if parallel_config.enable_expert_parallel:
        ranks, by = 1, "1: expert parallel ranks hold whole experts"
    if size % ranks:
        yield (
            f"{field} {size} cannot be cut by {by}: {size} = {ranks} x {size // ranks} + {size % ranks}. "
            f"Use ranks that divide it, or --enable-expert-parallel, which deals whole experts."
        )
        return
    part, block = size // ranks, _block_of_experts(model_config)
    if block is None or (part % block[0] == 0 and (tp == 1 or part % block[1] == 0)):
        return
    if refines_blocks:
        hidden = getattr(model_config.hf_text_config, "hidden_size", 0)
        if math.gcd(*block, part, hidden) >= SMALLEST_REFINED_BLOCK or size % block[0] == 0:
            return
    yield (
        f"{field} {size} cut by {by} gives {part}, no whole number of weight_block_size "
        f"{block[0]} x {block[1]}: {part} = {block[0]} x {part // block[0]} + {part % block[0]}. "
        f"Use fewer ranks, or --enable-expert-parallel, which deals whole experts."
    )


def _block_of_experts(model_config: Any) -> tuple[int, int] | None:
    """Return (rows, columns) of one scale of the experts' weights, None where they are not quantized in FP8 blocks."""
    for config in (model_config.hf_text_config, model_config.hf_config):
        told = getattr(config, "quantization_config", None)
        if not isinstance(told, dict):
            continue
        left_out = [*(told.get("modules_to_not_convert") or ()), *(told.get("ignored_layers") or ())]
        block = told.get("weight_block_size")
        if told.get("quant_method") != "fp8" or not block or any("experts" in str(name) for name in left_out):
            return None
        return int(block[0]), int(block[1])
    return None


def _check_eplb(config: Any, parallel_config: Any) -> Iterator[str]:
    eplb = getattr(parallel_config, "eplb_config", None)
    field = next((name for name in EXPERTS_FIELDS if isinstance(getattr(config, name, None), int)), None)
    if not parallel_config.enable_eplb or eplb is None or field is None:
        return
    pcp = getattr(parallel_config, "prefill_context_parallel_size", 1)
    ranks = parallel_config.data_parallel_size * pcp * parallel_config.tensor_parallel_size
    experts, redundant = getattr(config, field), eplb.num_redundant_experts
    total = experts + redundant
    if total % ranks:
        yield (
            f"{field} {experts} + num_redundant_experts {redundant} = {total} cannot be split evenly over {ranks} "
            f"expert parallel ranks: {total} = {ranks} x {total // ranks} + {total % ranks}. "
            f"EPLB needs it; use num_redundant_experts {-experts % ranks}."
        )
