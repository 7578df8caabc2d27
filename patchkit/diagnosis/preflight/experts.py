"""Experts: how they are dealt to ranks, what redundant ones must be, and what routing needs."""

from __future__ import annotations

from collections.abc import Iterator

from patchkit.diagnosis.deployment import split_experts
from patchkit.diagnosis.preflight.finding import Case, Finding, name_fitting, show_division

MOST_REDUNDANT = 1023  # MAX_EXPERT_REDUNDANCY of vLLM's EPLB state, 0.20 to 0.33
# Upstream's own model file splits them by tp for its bookkeeping, also where they are not split: 0.20 to 0.30, CUDA.
FIRST_WITHOUT_EXPERTS_BY_TP = "0.31"


def check_routing(case: Case) -> Iterator[Finding]:
    """Find more experts a token than there are, and groups that do not divide them."""
    model = case.model
    experts, chosen = model.experts, model.experts_per_token
    if chosen.value > experts.value:
        yield Finding(
            "routing", True, f"{chosen} is more than {experts}", f"{chosen.value} > {experts.value}", _mend(case)
        )
    if not model.groups or model.groups == 1:
        return
    if experts.value % model.groups:
        arithmetic = show_division(experts.value, model.groups)
        yield Finding("routing", True, f"n_group {model.groups} does not divide {experts}", arithmetic, _mend(case))
        return
    top, reach = model.top_groups or model.groups, experts.value // model.groups
    if top > model.groups or top * reach < chosen.value:
        yield Finding(
            "routing",
            True,
            f"topk_group {top} of n_group {model.groups} cannot offer {chosen} experts",
            f"{top} groups × {reach} experts = {top * reach}; {chosen.value} are chosen",
            _mend(case),
        )


def _mend(case: Case) -> str:
    return f"mend config.json: no deployment runs this {case.model.model_type or 'model'}"


def check_split(case: Case) -> Iterator[Finding]:
    """Say how experts are dealt to ranks where that is uneven; find ranks without one."""
    experts, ranks = case.model.experts.value, case.deployment.ep_size
    held = split_experts(experts, ranks)
    if ranks == 1 or experts % ranks == 0 or case.deployment.eplb:
        return
    starved = held.count(0)
    yield Finding(
        "expert-split",
        starved > 0,
        f"{case.model.experts} over ep_size {ranks}"
        + (f" leaves {starved} ranks without an expert" if starved else " is uneven, which works"),
        f"{show_division(experts, ranks)}; {_show_counts(held)}",
        f"dp × pcp × tp {experts} or less" if starved else "",
        "no release up to 0.33 refuses it; such ranks only pass messages"
        if starved
        else "determine_expert_map needs no divisor; EPLB does",
    )


def _show_counts(held: tuple[int, ...]) -> str:
    most = held[0]
    return f"{held.count(most)} ranks hold {most}, {len(held) - held.count(most)} hold {most - 1}"


def check_eplb(case: Case) -> Iterator[Finding]:
    """Find settings that expert-parallel load balancing refuses."""
    deployment, experts = case.deployment, case.model.experts.value
    redundant, ranks = deployment.redundant_experts, deployment.ep_size
    if not deployment.eplb:
        if redundant:
            message = f"{redundant} redundant experts without EPLB"
            yield Finding("eplb", True, message, f"{redundant} > 0", "--eplb, or none", "ParallelConfig refuses it")
        return
    if ranks == 1:
        product = f"ep {'on' if deployment.expert_parallel else 'off'}, dp × pcp × tp = {deployment.moe_ranks}"
        message = "EPLB needs expert parallelism over more than one rank"
        yield Finding("eplb", True, message, product, "--ep with dp × pcp × tp > 1", "ParallelConfig refuses it")
        return
    total = experts + redundant
    if total % ranks:
        fitting = -experts % ranks
        yield Finding(
            "eplb",
            True,
            f"EPLB needs every rank to hold as many: {experts} + {redundant} experts over ep_size {ranks}",
            f"{experts} + {redundant} = {show_division(total, ranks)}",
            f"--redundant-experts {fitting}, {fitting + ranks} or {fitting + 2 * ranks}",
            "FusedMoE refuses it in every worker: an assertion up to 0.23, a ValueError later",
        )
    if redundant > MOST_REDUNDANT:
        yield Finding(
            "eplb", True, f"{redundant} redundant experts", f"{redundant} > {MOST_REDUNDANT}", f"≤ {MOST_REDUNDANT}"
        )


def check_experts_by_tp(case: Case) -> Iterator[Finding]:
    """Find the one model of which "experts % tp" is true: DeepSeek-V4's own file asserts it up to 0.30."""
    deployment = case.deployment
    total = case.model.experts.value + deployment.redundant_experts
    if case.model.model_type != "deepseek_v4" or total % deployment.tp == 0:
        return
    if deployment.is_at_least(FIRST_WITHOUT_EXPERTS_BY_TP):
        return
    yield Finding(
        "experts-by-tp",
        True,
        f"DeepSeek-V4's model file up to 0.30 asserts that tp {deployment.tp} divides its {total} experts",
        show_division(total, deployment.tp),
        f"--tp one of {name_fitting(lambda fit: total % fit == 0)}; or vLLM 0.31 or later on CUDA",
        "an assertion in every worker, unless the Mega-MoE path is chosen; not true of other models",
    )
