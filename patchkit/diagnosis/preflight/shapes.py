"""Sizes that are cut: heads, experts, dense and shared layers by tensor parallelism, layers by pipeline stages."""

from __future__ import annotations

import math
from collections.abc import Iterator

from patchkit.diagnosis.deployment import split_layers
from patchkit.diagnosis.preflight.finding import Case, Finding, name_fitting, show_division

SMALLEST_REFINED_BLOCK = 32  # what vLLM refines FP8 block scales to at the least, from 0.29 on
FIRST_WITH_REFINED_BLOCKS = "0.29"


def check_heads(case: Case) -> Iterator[Finding]:
    """Find attention heads, and key/value heads, that tensor parallelism cannot split."""
    heads, kv_heads, tp = case.model.heads, case.model.kv_heads, case.deployment.tp
    if heads % tp:
        yield Finding(
            "heads",
            True,
            f"num_attention_heads {heads} cannot be split over tp {tp}",
            show_division(heads, tp),
            f"--tp one of {name_fitting(lambda ranks: heads % ranks == 0)}",
            "ModelConfig.verify_with_parallel_config raises ValueError",
        )
    if kv_heads and kv_heads % tp and tp % kv_heads:
        yield Finding(
            "kv-heads",
            True,
            f"num_key_value_heads {kv_heads} can be neither split over nor repeated on tp {tp}",
            f"{show_division(kv_heads, tp)}; {show_division(tp, kv_heads)}",
            f"--tp one of {name_fitting(lambda ranks: kv_heads % ranks == 0 or ranks % kv_heads == 0)}",
            "the attention layer asserts in every worker",
        )


def check_expert_size(case: Case) -> Iterator[Finding]:
    """Find an experts' intermediate size that cannot be cut, or not into whole quantization blocks."""
    size, ranks = case.model.expert_size, case.deployment.moe_tp
    if size.value % ranks == 0:
        yield from _check_blocks(case)
        yield from _check_groups(case)
        return
    yield Finding(
        "expert-size",
        True,
        f"{size} cannot be cut by dp × pcp × tp = {ranks}",
        f"{_product(case)}; {show_division(size.value, ranks)}",
        f"dp × pcp × tp one of {name_fitting(lambda fit: size.value % fit == 0)}; or --ep, which deals whole experts",
        "FusedMoE asserts in every worker, without a message",
    )


def _product(case: Case) -> str:
    deployment = case.deployment
    return f"{deployment.dp} × {deployment.pcp} × {deployment.tp} = {deployment.moe_ranks}"


def _check_blocks(case: Case) -> Iterator[Finding]:
    quantization = case.model.quantization
    if quantization is None or quantization.block is None or quantization.method != "fp8":
        return
    rows, columns = quantization.block
    ranks, size = case.deployment.moe_tp, case.model.expert_size
    part = size.value // ranks
    if part % rows == 0 and (case.deployment.tp == 1 or part % columns == 0):
        return
    refined = math.gcd(rows, columns, part, case.model.hidden_size)
    can_refine = refined >= SMALLEST_REFINED_BLOCK
    since = case.deployment.is_at_least(FIRST_WITH_REFINED_BLOCKS)
    fits = name_fitting(lambda fit: size.value % fit == 0 and (size.value // fit) % math.lcm(rows, columns) == 0)
    no_fit = f"no cut gives whole blocks, 1 rank included: {show_division(size.value, rows)}"
    change = f"dp × pcp × tp one of {fits}; or --ep, which deals whole experts" if fits else no_fit
    told = f"refines the scales to blocks of {refined}" if can_refine else f"finds no common block, {refined} < 32"
    yield Finding(
        "expert-blocks",
        not (can_refine and since),
        f"{size} cut by {ranks} gives {part}, no whole number of {rows} × {columns} quantization blocks",
        f"{size.value} / {ranks} = {part}; {show_division(part, rows)}",
        change,
        f"up to 0.28 Fp8MoEMethod.create_weights raises ValueError in every worker; from 0.29 on vLLM {told}"
        + (", which Triton's kernels alone can read" if can_refine else ""),
    )


def _check_groups(case: Case) -> Iterator[Finding]:
    quantization, ranks = case.model.quantization, case.deployment.moe_tp
    if quantization is None or quantization.group is None or quantization.method != "compressed-tensors":
        return
    size, group = case.model.expert_size, quantization.group
    part = size.value // ranks
    if part % group:
        yield Finding(
            "expert-groups",
            True,
            f"{size} cut by {ranks} gives {part}, no whole number of quantization groups of {group}",
            f"{size.value} / {ranks} = {part}; {show_division(part, group)}",
            f"dp × pcp × tp one of {name_fitting(lambda fit: size.value % (fit * group) == 0)}; or --ep",
            "from 0.24 on create_weights raises ValueError in every worker; before, the scales have the wrong shape",
        )


def check_whole_layers(case: Case) -> Iterator[Finding]:
    """Find dense layers and shared experts that tp cannot cut, or not into whole quantization blocks."""
    model = case.model
    if model.dense_size:
        yield from _check_layer(case, f"dense layers' intermediate_size {model.dense_size}", model.dense_size)
    if model.shared_size and not case.deployment.sequence_parallel_moe:
        yield from _check_layer(case, f"shared experts' size {model.shared_size}", model.shared_size.value)


def _check_layer(case: Case, what: str, size: int) -> Iterator[Finding]:
    quantization, tp = case.model.quantization, case.deployment.tp
    block = quantization.block if quantization and quantization.method == "fp8" else None
    unit = math.lcm(*block) if block else 1
    if tp == 1 or size % (tp * unit) == 0:
        return
    needed = f"{tp} × {unit} = {tp * unit}" if block else str(tp)
    yield Finding(
        "layer-size",
        True,
        f"{what} cannot be cut by tp {tp}" + (f" into whole blocks of {unit}" if block else ""),
        f"{show_division(size, tp * unit)}; {needed} must divide it",
        f"--tp one of {name_fitting(lambda fit: fit == 1 or size % (fit * unit) == 0)}",
        "the linear layer refuses it in every worker",
    )


def check_stages(case: Case) -> Iterator[Finding]:
    """Find pipeline stages without layers; say how uneven ones come out."""
    layers, pp = case.model.layers, case.deployment.pp
    if pp == 1 or layers % pp == 0:
        return
    parts = split_layers(layers, pp)
    yield Finding(
        "stages",
        layers < pp,
        f"num_hidden_layers {layers} over pp {pp}"
        + (" leaves stages without a layer" if layers < pp else " is uneven"),
        f"{show_division(layers, pp)}; stages of {', '.join(map(str, parts))}",
        f"--pp {layers} or less" if layers < pp else "VLLM_PP_LAYER_PARTITION sets another split",
        "no release up to 0.33 refuses it" if layers < pp else "works",
    )
