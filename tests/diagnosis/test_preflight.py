"""What fails is told with its arithmetic; what only the web says fails is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from patchkit.diagnosis.deployment import Deployment, parse_release
from patchkit.diagnosis.model_config import ModelConfig, Number, Quantization, read_model_config
from patchkit.diagnosis.preflight import Finding, examine_deployment
from patchkit.diagnosis.preflight.switches import find_switches

CONFIGS = Path(__file__).parent / "configs"
NAMES = sorted(path.stem for path in CONFIGS.glob("*.json"))
OLD, NEW = parse_release("0.26.0"), parse_release("0.33.0")


def model(name: str) -> ModelConfig:
    return read_model_config(CONFIGS / f"{name}.json")


def problems(config: ModelConfig, deployment: Deployment) -> dict[str, Finding]:
    return {finding.check: finding for finding in examine_deployment(config, deployment).problems}


@pytest.mark.parametrize("name", NAMES)
def test_every_model_runs_on_one_device_of_the_architecture_it_was_made_for(name: str) -> None:
    assert problems(model(name), Deployment(arch=(10, 0), vllm=NEW)) == {}


@pytest.mark.parametrize(
    ("name", "deployment"),
    [
        ("deepseek-v3.2", Deployment(tp=8, arch=(9, 0))),
        ("deepseek-v3.2", Deployment(tp=8, expert_parallel=True)),
        ("deepseek-v3.2", Deployment(dp=7, expert_parallel=True)),  # 256 over 7 need not divide
        ("deepseek-v3", Deployment(tp=16)),
        ("kimi-k2", Deployment(tp=16)),
        ("qwen3-235b-a22b", Deployment(tp=8)),  # 4 key/value heads are repeated
        ("minimax-m2", Deployment(tp=4)),
        ("minimax-m2", Deployment(tp=8, expert_parallel=True)),
        ("gpt-oss-120b", Deployment(tp=8, arch=(9, 0))),  # 360 a rank is padded, not refused
        ("mixtral-8x7b", Deployment(tp=8)),
        ("llama-4-maverick", Deployment(tp=8)),
        ("deepseek-v2", Deployment(tp=8)),
    ],
)
def test_what_people_run_has_no_problem(name: str, deployment: Deployment) -> None:
    assert problems(model(name), deployment) == {}


def test_an_uneven_split_is_a_note_that_it_works() -> None:
    (note,) = examine_deployment(model("deepseek-v3.2"), Deployment(dp=7, expert_parallel=True)).notes
    assert note.check == "expert-split"
    assert note.arithmetic == "256 = 7 × 36 + 4; 4 ranks hold 37, 3 hold 36"


def test_an_expert_size_that_cannot_be_cut_shows_the_product_and_the_remainder() -> None:
    found = problems(model("qwen3-30b-a3b"), Deployment(tp=4, dp=5))["expert-size"]
    assert found.message == "moe_intermediate_size 768 cannot be cut by dp × pcp × tp = 20"
    assert found.arithmetic == "5 × 1 × 4 = 20; 768 = 20 × 38 + 8"
    assert "--ep" in found.change
    assert problems(model("qwen3-30b-a3b"), Deployment(tp=4, dp=5, expert_parallel=True)) == {}


def test_blocks_that_are_cut_fail_before_029_and_are_refined_later() -> None:
    deployment = Deployment(tp=8, vllm=OLD)
    found = problems(model("minimax-m2"), deployment)["expert-blocks"]
    assert found.arithmetic == "1536 / 8 = 192; 192 = 128 × 1 + 64"
    assert found.change.startswith("dp × pcp × tp one of 1, 2, 3, 4, 6, 12;")
    later = examine_deployment(model("minimax-m2"), replace(deployment, vllm=NEW))
    assert later.problems == ()
    assert "blocks of 64" in later.notes[0].upstream


def test_blocks_that_nothing_refines_fail_in_every_release() -> None:
    odd = replace(model("minimax-m2"), expert_size=Number(1536 + 16, "intermediate_size"))
    found = problems(odd, Deployment(tp=8, vllm=NEW))["expert-blocks"]
    assert "finds no common block" in found.upstream
    assert "no cut gives whole blocks" in found.change


def test_an_unknown_release_is_told_the_older_rule() -> None:
    assert "expert-blocks" in problems(model("minimax-m2"), Deployment(tp=8))


def test_groups_of_compressed_tensors_must_be_whole() -> None:
    packed = replace(model("deepseek-v2-lite"), quantization=Quantization("compressed-tensors", group=128))
    assert problems(packed, Deployment(tp=2))["expert-groups"].arithmetic == "1408 / 2 = 704; 704 = 128 × 5 + 64"
    assert problems(packed, Deployment(tp=1)) == {}


def test_heads_and_key_value_heads() -> None:
    found = problems(model("gpt-oss-20b"), Deployment(tp=12))
    assert found["heads"].arithmetic == "64 = 12 × 5 + 4"
    assert found["kv-heads"].arithmetic == "8 = 12 × 0 + 8; 12 = 8 × 1 + 4"
    assert "kv-heads" not in problems(model("gpt-oss-20b"), Deployment(tp=16))


def test_dense_layers_of_a_block_quantised_model_are_checked_by_tp() -> None:
    dense, shared = examine_deployment(model("deepseek-v3"), Deployment(tp=32, expert_parallel=True)).problems
    assert dense.arithmetic == "18432 = 4096 × 4 + 2048; 32 × 128 = 4096 must divide it"
    assert shared.arithmetic == "2048 = 4096 × 0 + 2048; 32 × 128 = 4096 must divide it"


def test_shared_experts_are_whole_where_sequences_are_split() -> None:
    odd = replace(model("qwen3-30b-a3b"), shared_size=Number(100, "shared_expert_intermediate_size"))
    assert "layer-size" in problems(odd, Deployment(tp=8, expert_parallel=True))
    assert problems(odd, Deployment(tp=8, dp=2, expert_parallel=True)) == {}


class TestEplb:
    """Expert-parallel load balancing does need a divisor."""

    def test_the_experts_with_the_redundant_ones_must_divide(self) -> None:
        deployment = Deployment(tp=8, dp=3, expert_parallel=True, eplb=True)
        found = problems(model("deepseek-v3.2"), deployment)["eplb"]
        assert found.arithmetic == "256 + 0 = 256 = 24 × 10 + 16"
        assert found.change == "--redundant-experts 8, 32 or 56"
        assert problems(model("deepseek-v3.2"), replace(deployment, redundant_experts=8)) == {}

    def test_it_needs_more_than_one_rank_and_expert_parallelism(self) -> None:
        assert "eplb" in problems(model("mixtral-8x7b"), Deployment(tp=8, eplb=True))
        assert "eplb" in problems(model("mixtral-8x7b"), Deployment(eplb=True, expert_parallel=True))

    def test_redundant_experts_without_it_are_refused(self) -> None:
        assert "eplb" in problems(model("mixtral-8x7b"), Deployment(tp=8, redundant_experts=8))

    def test_there_is_a_most(self) -> None:
        deployment = Deployment(tp=8, expert_parallel=True, eplb=True, redundant_experts=1024)
        assert problems(model("mixtral-8x7b"), deployment)["eplb"].arithmetic == "1024 > 1023"


def test_ranks_without_an_expert_are_told() -> None:
    found = problems(model("mixtral-8x7b"), Deployment(dp=16, expert_parallel=True))["expert-split"]
    assert "8 ranks without an expert" in found.message


def test_experts_by_tp_is_true_of_one_model_up_to_030() -> None:
    odd = replace(model("deepseek-v4-flash"), experts=Number(250, "n_routed_experts"))
    deployment = Deployment(tp=4, expert_parallel=True)
    assert "experts-by-tp" in problems(odd, replace(deployment, vllm=parse_release("0.30.0")))
    assert "experts-by-tp" not in problems(odd, replace(deployment, vllm=parse_release("0.31.0")))
    assert "experts-by-tp" not in problems(replace(odd, model_type="deepseek_v3"), deployment)


def test_routing_that_no_deployment_can_do() -> None:
    v3 = model("deepseek-v3")
    assert (
        "is more than"
        in problems(replace(v3, groups=None, experts_per_token=Number(300, "k")), Deployment())["routing"].message
    )
    assert problems(replace(v3, groups=7), Deployment())["routing"].arithmetic == "256 = 7 × 36 + 4"
    narrow = replace(v3, groups=128, top_groups=2)
    assert problems(narrow, Deployment())["routing"].arithmetic == "2 groups × 2 experts = 4; 8 are chosen"


def test_stages() -> None:
    (note,) = examine_deployment(model("deepseek-v3"), Deployment(pp=4)).notes
    assert note.arithmetic == "61 = 4 × 15 + 1; stages of 15, 15, 16, 15"
    assert "stages" in problems(model("gpt-oss-20b"), Deployment(pp=25))


def test_e8m0_scales_need_a_reader() -> None:
    v4, v32 = model("deepseek-v4-flash"), model("deepseek-v3.2")
    assert "e8m0-scales" in problems(v4, Deployment(arch=(8, 9)))
    assert "e8m0-scales" not in problems(v4, Deployment(arch=(9, 0)))
    gb10 = Deployment(arch=(12, 1), vllm=NEW)
    assert "e8m0-scales" in problems(v4, replace(gb10, deep_gemm=frozenset({9, 10})))
    assert "e8m0-scales" not in problems(v4, replace(gb10, deep_gemm=frozenset({9, 10, 12})))
    notes = examine_deployment(v32, Deployment(arch=(12, 1), vllm=NEW)).notes
    assert "if the checkpoint stores them as float8_e8m0fnu" in notes[0].message


def test_deep_gemm_on_gb10_is_a_matter_of_what_is_installed() -> None:
    v4, v3 = model("deepseek-v4-flash"), model("deepseek-v3")
    gb10 = Deployment(arch=(12, 1), vllm=NEW)
    assert "deep-gemm-calls" in problems(v4, gb10)
    assert "deep-gemm-calls" in problems(v4, replace(gb10, deep_gemm=frozenset({9, 10})))
    assert "deep-gemm-calls" not in problems(v4, replace(gb10, deep_gemm=frozenset({9, 10, 12})))
    assert problems(v3, gb10) == {}
    assert "deep-gemm-build" in problems(v3, replace(gb10, deep_gemm=frozenset({9, 10})))
    assert problems(v3, replace(gb10, deep_gemm=frozenset({9, 10, 12}))) == {}
    assert problems(v3, replace(gb10, deep_gemm=frozenset({9, 10}), vllm=parse_release("0.23.0"))) == {}


def test_sparse_attention_needs_a_backend() -> None:
    v32 = model("deepseek-v3.2")
    assert "sparse-attention" in problems(v32, Deployment(arch=(8, 9), vllm=NEW))
    assert "sparse-attention" in problems(v32, Deployment(arch=(12, 1), vllm=parse_release("0.23.0")))
    assert "sparse-attention" not in problems(v32, Deployment(arch=(12, 1), vllm=parse_release("0.24.0")))


def test_low_precision_is_storage_only_on_older_devices() -> None:
    assert problems(model("gpt-oss-20b"), Deployment(arch=(9, 0))) == {}
    assert "low-precision" in problems(model("gpt-oss-20b"), Deployment(arch=(7, 5)))


def test_settings_that_contradict_the_checkpoint() -> None:
    assert "quantization" in problems(model("deepseek-v3"), Deployment(quantization="awq"))
    assert problems(model("deepseek-v3"), Deployment(quantization="fp8")) == {}
    assert "kv-dtype" in problems(model("deepseek-v3"), Deployment(kv_dtype="fp8_e5m2"))
    assert problems(model("deepseek-v3"), Deployment(kv_dtype="fp8")) == {}


@pytest.mark.parametrize("name", NAMES)
def test_every_problem_shows_numbers_and_what_to_change(name: str) -> None:
    deployment = Deployment(tp=7, dp=3, pp=100, eplb=True, redundant_experts=5, expert_parallel=True, arch=(7, 0))
    found = [*examine_deployment(model(name), deployment).problems]
    found += examine_deployment(model(name), replace(deployment, expert_parallel=False)).problems
    assert len(found) >= 4
    assert all(finding.arithmetic and finding.change for finding in found)


@pytest.mark.parametrize("advice", ["expert_group_size", "moe_group_size", "router.cu", "% num_local", "%local"])
def test_what_does_not_exist_is_never_advised(advice: str) -> None:
    deployment = Deployment(tp=7, dp=3, pp=100, eplb=True, redundant_experts=5, expert_parallel=True, arch=(12, 1))
    for name in NAMES:
        preflight = examine_deployment(model(name), deployment)
        assert advice not in repr((preflight.problems, preflight.notes))


def test_switches_that_do_not_reach_a_call_are_known_by_release() -> None:
    old = {(one.site, one.reaches) for one in find_switches(parse_release("0.25.1"))}
    new = {(one.site, one.reaches) for one in find_switches(NEW)}
    assert ("mhc_pre_broadcast_tilelang of DeepSeek-V4", False) in new - old
    assert ("CutlassFp8BlockScaledMMKernel", False) in old - new
    assert ("CutlassFp8BlockScaledMMKernel", True) in new - old
    assert find_switches(parse_release("0.34.0")) == find_switches(None) == ()


@pytest.mark.parametrize(
    ("name", "deployment", "experts", "cache"),
    [
        # by hand: 16 experts of 3 × 2048 × 768 in bfloat16; 1 of 4 heads, key and value of 128
        ("qwen3-30b-a3b", Deployment(tp=4, dp=2, expert_parallel=True), 16 * 3 * 2048 * 768 * 2, 2 * 1 * 128 * 2),
        # all 8 experts, each cut in 8; a cache in FP8
        ("mixtral-8x7b", Deployment(tp=8, kv_dtype="fp8"), 8 * 3 * 4096 * (14336 // 8) * 2, 2 * 128),
        # FP8 with a float32 scale for 128 × 128; MLA without its rope dimension in this config
        ("deepseek-v3", Deployment(tp=8, expert_parallel=True), 32 * 3 * 7168 * 2048 * (1 + 4 / 16384), None),
        # MXFP4 with a byte for 32
        ("gpt-oss-120b", Deployment(tp=1), 128 * 3 * 2880 * 2880 * (0.5 + 1 / 32), 2 * 8 * 64 * 2),
        # FP8 or FP4: not in the config
        ("deepseek-v4-flash", Deployment(tp=4, expert_parallel=True), None, None),
    ],
)
def test_memory_is_counted_exactly_or_not_at_all(
    name: str, deployment: Deployment, experts: float | None, cache: int | None
) -> None:
    memory = examine_deployment(replace(model(name), dtype="bfloat16"), deployment).facts["memory"]
    assert memory["expert_bytes_per_layer"] == experts
    assert memory["kv_bytes_per_token_and_layer"] == cache
    assert memory["expert_formula"]
    assert memory["kv_formula"]
    assert "activations" in memory["leaves_out"]


def test_the_latent_of_mla_is_one_vector_for_all_heads() -> None:
    config = replace(model("deepseek-v3"), latent=512 + 64, dtype="bfloat16")
    memory = examine_deployment(config, Deployment(tp=8)).facts["memory"]
    assert memory["kv_bytes_per_token_and_layer"] == 576 * 2


def test_a_quantization_that_is_made_at_load_is_not_counted() -> None:
    memory = examine_deployment(model("mixtral-8x7b"), Deployment(quantization="fp8")).facts["memory"]
    assert memory["expert_bytes_per_layer"] is None


def test_no_size_of_an_element_is_assumed() -> None:
    memory = examine_deployment(model("mixtral-8x7b"), Deployment()).facts["memory"]
    assert (memory["expert_bytes_per_layer"], memory["kv_bytes_per_token_and_layer"]) == (None, None)
    assert "torch_dtype" in memory["expert_formula"]
    assert "torch_dtype" in memory["kv_formula"]
