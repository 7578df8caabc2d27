"""moe-config-check: refuses what the layers refuse, with field and arithmetic, and nothing else."""

from __future__ import annotations

import itertools
import runpy
from types import SimpleNamespace
from typing import Any

import pytest

from patchkit.diagnosis.deployment import Deployment, parse_release
from patchkit.diagnosis.model_config import ModelConfig, Number, Quantization
from patchkit.diagnosis.preflight import examine_deployment
from patchkit.stack.rewrite import RewriteError
from tests.patches.shapes import PATCHES, choose, patched

SLUG = "moe-config-check"
MODEL = "vllm/config/model.py"
CHECK = "vllm/config/moe_config_check.py"
ORACLE = "vllm/model_executor/layers/fused_moe/oracle/fp8.py"
TREE = """\
class ModelConfig:
    def verify_with_parallel_config(self, parallel_config):
        if self.heads % parallel_config.tensor_parallel_size != 0:
            raise ValueError("heads")

        if parallel_config.enable_expert_parallel:
            self._verify_with_expert_parallelism()

        return None
"""
REFINES = "def refine_fp8_moe_block_shape(config, weight_block_size):\n    return None\n"
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}


def check(model: dict[str, Any], refines: bool = False, **parallel: Any) -> str:
    """What the check says; empty when it passes."""
    run = runpy.run_path(str(PATCHES / SLUG / "moe_config_check.py"))["check_moe_config"]
    config = SimpleNamespace(
        **({"model_type": "qwen3_moe", "hidden_size": 2048, "num_experts": 8, "num_hidden_layers": 4} | model)
    )
    given = {"tp": 1, "dp": 1, "pcp": 1, "ep": False, "eplb": False, "redundant": 0} | parallel
    deployment = SimpleNamespace(
        tensor_parallel_size=given["tp"],
        data_parallel_size=given["dp"],
        prefill_context_parallel_size=given["pcp"],
        enable_expert_parallel=given["ep"],
        enable_eplb=given["eplb"],
        eplb_config=SimpleNamespace(num_redundant_experts=given["redundant"]),
    )
    try:
        run(SimpleNamespace(hf_text_config=config, hf_config=config), deployment, refines)
    except ValueError as error:
        return str(error)
    return ""


def test_the_field_and_the_arithmetic_are_told() -> None:
    told = check({"moe_intermediate_size": 100}, tp=4, dp=2)
    assert "moe_intermediate_size 100" in told
    assert "data 2 x prefill context 1 x tensor 4 parallel ranks = 8: 100 = 8 x 12 + 4" in told


def test_all_problems_are_told_at_once() -> None:
    told = check({"moe_intermediate_size": 100}, tp=8, eplb=True, redundant=1)
    assert told.count("\n  - ") == 2


def preflight_finds(size: int, quantization: Quantization | None, deployment: Deployment) -> bool:
    model = ModelConfig(
        "qwen3_moe",
        "",
        experts=Number(8, "num_experts"),
        experts_per_token=Number(2, "num_experts_per_tok"),
        expert_size=Number(size, "moe_intermediate_size"),
        hidden_size=2048,
        layers=4,
        heads=240,
        kv_heads=8,
        quantization=quantization,
    )
    found = {finding.check for finding in examine_deployment(model, deployment).problems}
    return bool(found & {"expert-size", "expert-blocks"})


@pytest.mark.parametrize("size", [96, 100, 768, 1088, 1536])
@pytest.mark.parametrize("block", [None, (128, 128)])
@pytest.mark.parametrize("refines", [False, True])
def test_it_refuses_what_preflight_finds(size: int, block: tuple[int, int] | None, refines: bool) -> None:
    release = parse_release("0.33.0" if refines else "0.26.0")
    quantization = Quantization("fp8", block) if block else None
    numbers = {"moe_intermediate_size": size} | ({"quantization_config": FP8} if block else {})
    for tp, dp, ep in itertools.product((1, 2, 3, 8), (1, 2, 5), (False, True)):
        deployment = Deployment(tp, dp=dp, expert_parallel=ep, vllm=release)
        told = check(numbers, refines, tp=tp, dp=dp, ep=ep)
        # Blocks that are not refined may still be padded by a backend that is named: there the engine decides.
        padded = refines and size % 128 == 0 and not told
        assert bool(told) == preflight_finds(size, quantization, deployment) or padded, (deployment, told)


@pytest.mark.parametrize(
    ("model", "parallel"),
    [
        ({"model_type": "unknown_moe", "moe_intermediate_size": 100}, {"tp": 8}),
        ({"model_type": "llama", "intermediate_size": 100}, {"tp": 8}),
        ({"moe_intermediate_size": [100, 96]}, {"tp": 8}),
        ({}, {"tp": 8}),
        ({"moe_intermediate_size": 100, "first_k_dense_replace": 4}, {"tp": 8}),
        ({"moe_intermediate_size": 96, "num_experts": 7}, {"tp": 4, "ep": True}),
        ({"moe_intermediate_size": 96}, {"tp": 4, "ep": True, "eplb": True, "redundant": 4}),
        (
            {"moe_intermediate_size": 192, "quantization_config": FP8 | {"modules_to_not_convert": ["mlp.experts"]}},
            {"tp": 1},
        ),
    ],
)
def test_what_it_does_not_know_to_fail_passes(model: dict[str, Any], parallel: dict[str, Any]) -> None:
    assert check(model, **parallel) == ""


def test_models_whose_intermediate_size_is_the_experts() -> None:
    assert "intermediate_size 2880" in check({"model_type": "gpt_oss", "intermediate_size": 2880}, tp=7)


@pytest.mark.parametrize(("files", "flag"), [({}, "False"), ({ORACLE: REFINES}, "True")])
def test_one_call_is_inserted_and_one_file_created(files: dict[str, str], flag: str) -> None:
    after = patched(SLUG, {MODEL: TREE, **files}, "0.30.0").contents
    assert set(after) == {MODEL, CHECK}
    assert after[CHECK] == (PATCHES / SLUG / "moe_config_check.py").read_bytes()
    text = after[MODEL].decode()
    call = f"check_moe_config(self, parallel_config, refines_blocks={flag})"
    assert text.index('raise ValueError("heads")') < text.index(call) < text.index("enable_expert_parallel")
    kept = [line for line in text.splitlines() if "moe_config" not in line and line.strip()]
    assert kept == [line for line in TREE.splitlines() if line.strip()]


def test_a_tree_with_the_call_has_it_already() -> None:
    after = {path: text.decode() for path, text in patched(SLUG, {MODEL: TREE}, "0.26.0").contents.items()}
    assert patched(SLUG, after, "0.26.0").done


def test_a_method_that_has_moved_is_a_conflict_and_not_silence() -> None:
    with pytest.raises(RewriteError):
        patched(SLUG, {MODEL: "class ModelConfig:\n    pass\n"}, "0.34.0")


def test_a_tree_before_it_is_not_applicable() -> None:
    assert choose(SLUG, {MODEL: "x = 1\n"}, "0.19.0") is None
