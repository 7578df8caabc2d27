"""config.json in any spelling; what is missing is told with its spellings, never assumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from patchkit.diagnosis.deployment import Deployment
from patchkit.diagnosis.model_config import read_model_config
from patchkit.diagnosis.preflight import examine_deployment
from patchkit.errors import InvalidFile, RequestError

CONFIGS = sorted((Path(__file__).parent / "configs").glob("*.json"))
PLAIN: dict[str, Any] = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
}


def write(tmp_path: Path, document: Any) -> Path:
    path = tmp_path / "config.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def complaints(tmp_path: Path, document: Any) -> list[str]:
    with pytest.raises(InvalidFile) as caught:
        read_model_config(write(tmp_path, document))
    return [f"{problem.where}: {problem.message}; {problem.hint}" for problem in caught.value.problems]


def test_sixteen_models_are_there() -> None:
    assert len(CONFIGS) >= 16


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_model_can_be_read(path: Path) -> None:
    model = read_model_config(path)
    assert model.experts.value >= 8
    assert model.experts_per_token.value <= model.experts.value
    assert model.layers > 20


@pytest.mark.parametrize("field", ["n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts"])
def test_every_spelling_of_the_number_of_experts_is_read_and_named(tmp_path: Path, field: str) -> None:
    document = {name: value for name, value in PLAIN.items() if name != "num_experts"} | {field: 96}
    assert str(read_model_config(write(tmp_path, document)).experts) == f"{field} 96"


@pytest.mark.parametrize("nest", [["text_config"], ["thinker_config", "text_config"], ["language_config"]])
def test_the_language_model_may_lie_below(tmp_path: Path, nest: list[str]) -> None:
    document: dict[str, Any] = dict(PLAIN)
    for name in reversed(nest):
        document = {"model_type": "outer", "num_attention_heads": 5, name: document}
    assert read_model_config(write(tmp_path, document)).heads == 32


def test_a_folder_stands_for_its_config(tmp_path: Path) -> None:
    write(tmp_path, PLAIN)
    assert read_model_config(tmp_path).layers == 48


def test_a_missing_number_of_experts_names_the_spellings_and_assumes_nothing(tmp_path: Path) -> None:
    document = {name: value for name, value in PLAIN.items() if name != "num_experts"}
    (told,) = complaints(tmp_path, {"text_config": document})
    assert told.startswith("text_config.n_routed_experts: missing")
    assert "n_routed_experts or num_experts or num_local_experts" in told


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    told = complaints(tmp_path, {"num_experts": 0, "hidden_size": "2048", "num_hidden_layers": True})
    places = [line.split(":")[0] for line in told]
    assert len(places) == len(set(places)) == 7
    assert {"num_experts", "hidden_size", "num_hidden_layers", "num_key_value_heads"} <= set(places)


def test_the_dense_size_is_not_taken_for_the_experts(tmp_path: Path) -> None:
    document = {name: value for name, value in PLAIN.items() if name != "moe_intermediate_size"}
    (told,) = complaints(tmp_path, document | {"intermediate_size": 6144})
    assert told.startswith("moe_intermediate_size: missing")
    assert "mixtral" in told


def test_models_whose_intermediate_size_is_the_experts_are_known(tmp_path: Path) -> None:
    document = {name: value for name, value in PLAIN.items() if name != "moe_intermediate_size"}
    model = read_model_config(write(tmp_path, document | {"model_type": "mixtral", "intermediate_size": 14336}))
    assert str(model.expert_size) == "intermediate_size 14336"


def test_latent_attention_has_no_heads_to_split(tmp_path: Path) -> None:
    document = {name: value for name, value in PLAIN.items() if name != "num_key_value_heads"}
    assert read_model_config(write(tmp_path, document | {"kv_lora_rank": 512})).kv_heads is None


def test_the_blocks_of_a_quantised_checkpoint_are_read(tmp_path: Path) -> None:
    told = {"quant_method": "fp8", "weight_block_size": [128, 64], "scale_fmt": "ue8m0"}
    quantization = read_model_config(write(tmp_path, PLAIN | {"quantization_config": told})).quantization
    assert quantization is not None
    assert (quantization.method, quantization.block, quantization.scale_format) == ("fp8", (128, 64), "ue8m0")


def test_the_groups_of_compressed_tensors_are_read(tmp_path: Path) -> None:
    groups = {"group_0": {"weights": {"num_bits": 4, "group_size": 32, "strategy": "group"}}}
    told = {"quant_method": "compressed-tensors", "config_groups": groups}
    quantization = read_model_config(write(tmp_path, PLAIN | {"quantization_config": told})).quantization
    assert quantization is not None
    assert (quantization.method, quantization.group, quantization.block) == ("compressed-tensors", 32, None)


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", '"text"', "\x00", "[" * 5000])
def test_what_is_no_config_is_told_and_not_a_bug(tmp_path: Path, text: str) -> None:
    assert complaints(tmp_path, text)


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="cannot be read"):
        read_model_config(tmp_path / "nothing.json")


JUNK = [
    None,
    True,
    False,
    -1,
    0,
    1.5,
    "",
    "x",
    "128",
    [],
    [1],
    [0],
    ["a", "b"],
    [128, 64],
    {},
    {"x": 1},
    {"weights": 5},
]
FIELDS = [
    *PLAIN,
    *(
        "architectures",
        "n_routed_experts",
        "n_shared_experts",
        "shared_expert_intermediate_size",
        "n_group",
        "topk_group",
    ),
    *("first_k_dense_replace", "mlp_only_layers", "intermediate_size", "intermediate_size_mlp", "kv_lora_rank"),
    *("index_topk", "text_config", "quantization_config", "compression_config"),
]
INNER = ["quant_method", "weight_block_size", "group_size", "scale_fmt", "config_groups"]


def is_answered(tmp_path: Path, document: dict[str, Any]) -> bool:
    """Whether a config is examined, or refused with problems; any other error is a bug."""
    try:
        model = read_model_config(write(tmp_path, document))
    except InvalidFile as error:
        return bool(error.problems)
    return bool(examine_deployment(model, Deployment(tp=3, dp=2, pp=5, arch=(12, 1))).facts)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", JUNK, ids=repr)
def test_nothing_in_a_config_is_a_bug(tmp_path: Path, field: str, value: Any) -> None:
    assert is_answered(tmp_path, PLAIN | {field: value})


@pytest.mark.parametrize("field", INNER)
@pytest.mark.parametrize("value", JUNK, ids=repr)
def test_nothing_in_a_quantization_is_a_bug(tmp_path: Path, field: str, value: Any) -> None:
    told = {"quant_method": "fp8", "weight_block_size": [128, 128]} | {field: value}
    assert is_answered(tmp_path, PLAIN | {"quantization_config": told})


def test_blocks_that_are_no_pair_are_told(tmp_path: Path) -> None:
    told = {"quant_method": "fp8", "weight_block_size": [128, "x"]}
    (complaint,) = complaints(tmp_path, PLAIN | {"quantization_config": told})
    assert complaint.startswith("quantization_config.weight_block_size: [128, 'x'] is no pair of sizes")
