"""All checks on one page, and the facts they stand on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from patchkit.diagnosis.deployment import Deployment, split_experts, split_layers
from patchkit.diagnosis.model_config import ModelConfig
from patchkit.diagnosis.preflight.experts import check_eplb, check_experts_by_tp, check_routing, check_split
from patchkit.diagnosis.preflight.finding import Case, Check, Finding
from patchkit.diagnosis.preflight.kernels import (
    check_block_scales,
    check_deep_gemm,
    check_low_precision,
    check_settings,
    check_sparse_attention,
    show_arch,
)
from patchkit.diagnosis.preflight.memory import estimate_memory
from patchkit.diagnosis.preflight.shapes import check_expert_size, check_heads, check_stages, check_whole_layers

CHECKS: tuple[Check, ...] = (
    check_routing,
    check_heads,
    check_expert_size,
    check_whole_layers,
    check_split,
    check_eplb,
    check_experts_by_tp,
    check_stages,
    check_block_scales,
    check_deep_gemm,
    check_sparse_attention,
    check_low_precision,
    check_settings,
)


@dataclass(frozen=True)
class Preflight:
    """What was found. `notes` fail nothing: they say what works although many believe that it does not, and on what."""

    facts: dict[str, Any]
    problems: tuple[Finding, ...]
    notes: tuple[Finding, ...]


def examine_deployment(model: ModelConfig, deployment: Deployment) -> Preflight:
    """Run every check on a model and its deployment."""
    case = Case(model, deployment)
    findings = [finding for check in CHECKS for finding in check(case)]
    problems = tuple(finding for finding in findings if finding.fails)
    return Preflight(_facts(case), problems, tuple(finding for finding in findings if not finding.fails))


def _facts(case: Case) -> dict[str, Any]:
    model, deployment = case
    facts: dict[str, Any] = {
        "model_type": model.model_type,
        "architecture": model.architecture,
        "experts": {"field": model.experts.field, "value": model.experts.value},
        "experts_per_token": {"field": model.experts_per_token.field, "value": model.experts_per_token.value},
        "expert_size": {"field": model.expert_size.field, "value": model.expert_size.value},
        "devices": deployment.moe_ranks * deployment.pp,
        "ep_size": deployment.ep_size,
        "experts_per_rank": _per_rank(case),
        "expert_size_per_rank": model.expert_size.value / deployment.moe_tp,
        "heads_per_rank": model.heads / deployment.tp,
        "layers_per_stage": list(split_layers(model.layers, deployment.pp)),
        "sparse_attention": model.sparse_attention,
        "memory": estimate_memory(case),
    }
    if model.quantization:
        told = model.quantization
        facts["quantization"] = {"method": told.method, "block": told.block, "group": told.group}
        facts["scale_fmt"] = told.scale_format or None
    if deployment.arch:
        facts["arch"] = show_arch(deployment.arch)
    if deployment.vllm:
        facts["vllm"] = str(deployment.vllm)
    return facts


def _per_rank(case: Case) -> list[int]:
    """Return how many experts each expert-parallel rank holds, redundant ones included."""
    model, deployment = case
    redundant = deployment.redundant_experts if deployment.eplb else 0
    return list(split_experts(model.experts.value + redundant, deployment.ep_size))
