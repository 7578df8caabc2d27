"""A model's config.json as the numbers that decide whether a MoE model fits a deployment.

The same number is spelled differently by each model family, and the language model may lie below `text_config`. A
number that is not there is an error that names the spellings: a default of 0 or 8 experts makes wrong arithmetic look
right.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchkit.errors import InvalidFile, Problem, RequestError

# Where the language model's part lies in a config of several parts.
NESTED = ("text_config", "thinker_config", "language_config", "llm_config")
EXPERTS = ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts")
EXPERTS_PER_TOKEN = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k")
# Models whose `intermediate_size` is the experts' own; elsewhere it is that of the dense layers.
EXPERT_SIZE_IS_INTERMEDIATE = frozenset({"mixtral", "gpt_oss", "minimax_m2", "llama4", "llama4_text"})


@dataclass(frozen=True)
class Quantization:
    """How the checkpoint is quantised. `block` is (rows, columns) of one scale; `group` is elements of one scale."""

    method: str
    block: tuple[int, int] | None = None
    group: int | None = None
    scale_format: str = ""


@dataclass(frozen=True)
class Number:
    """A number of the config with the field that it was read from."""

    value: int
    field: str

    def __str__(self) -> str:
        return f"{self.field} {self.value}"


@dataclass(frozen=True)
class ModelConfig:
    """What preflight knows of a model. None: the model has no such thing."""

    model_type: str
    architecture: str
    experts: Number
    experts_per_token: Number
    expert_size: Number
    hidden_size: int
    layers: int
    heads: int
    kv_heads: int | None  # None: latent attention, whose cache has no heads to split
    dense_size: int | None = None  # intermediate_size of the dense layers, where some layers are dense
    shared_size: Number | None = None  # intermediate size of the shared experts together
    groups: int | None = None
    top_groups: int | None = None
    sparse_attention: bool = False  # an indexer picks the keys: index_topk
    quantization: Quantization | None = None
    head_dim: int | None = None
    latent: int | None = None  # elements of MLA's cache for each token: kv_lora_rank + qk_rope_head_dim
    dtype: str = ""  # of weights that are not quantised, as the config spells it


def read_model_config(path: Path) -> ModelConfig:
    """Read a config.json (or a model folder that holds one).

    Raises `InvalidFile` with all problems of the file, `RequestError` where it cannot be read.
    """
    file = path / "config.json" if path.is_dir() else path
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise RequestError(f"{file}: cannot be read: {error.strerror}", "name a config.json or a folder") from error
    except (ValueError, RecursionError) as error:
        line, column = (error.lineno, error.colno) if isinstance(error, json.JSONDecodeError) else (0, 0)
        raise InvalidFile((Problem(str(file), line, column, "", f"no JSON: {error}"),)) from error
    if not isinstance(document, dict):
        raise InvalidFile((Problem(str(file), 0, 0, "", "no JSON object", "a model's config.json is one"),))
    return _Reader(str(file), document).read()


class _Reader:
    """Reads one document and collects what is wrong with it."""

    def __init__(self, file: str, document: Mapping[str, Any]) -> None:
        self.file = file
        self.top = document
        self.text, self.where = _language_part(document)
        self.model_type = str(self.text.get("model_type") or document.get("model_type") or "")
        self.problems: list[Problem] = []

    def read(self) -> ModelConfig:
        """Return the config, or raise everything that is wrong with it."""
        experts = self.number(*EXPERTS, hint="preflight is for mixture-of-experts models")
        config = ModelConfig(
            model_type=self.model_type,
            architecture=_first(self.top.get("architectures") or self.text.get("architectures")),
            experts=experts,
            experts_per_token=self.number(*EXPERTS_PER_TOKEN),
            expert_size=self.expert_size(),
            hidden_size=self.number("hidden_size").value,
            layers=self.number("num_hidden_layers").value,
            heads=self.number("num_attention_heads").value,
            kv_heads=None if self.text.get("kv_lora_rank") else self.number("num_key_value_heads").value,
            dense_size=self.dense_size(),
            shared_size=self.shared_size(),
            groups=self.optional("n_group"),
            top_groups=self.optional("topk_group"),
            sparse_attention=bool(self.text.get("index_topk")),
            quantization=self.quantization(),
            head_dim=self.head_dim(),
            latent=self.latent(),
            dtype=str(self.text.get("dtype") or self.text.get("torch_dtype") or self.top.get("torch_dtype") or ""),
        )
        if self.problems:
            raise InvalidFile(tuple(self.problems))
        return config

    def number(self, *names: str, hint: str = "") -> Number:
        """Return the first of these fields; note a problem when none is there or it is no positive whole number."""
        for name in names:
            if self.text.get(name) is not None:
                value = self.text[name]
                if isinstance(value, list) and value and len(set(map(str, value))) == 1:
                    value = value[0]  # one number a layer, all the same
                if _is_size(value):
                    return Number(value, name)
                self.complain(name, f"{value!r} is no positive whole number", hint)
                return Number(1, name)
        spellings = " or ".join(names)
        self.complain(names[0], f"missing; accepted spellings: {spellings}", hint or "no number is assumed for it")
        return Number(1, names[0])

    def optional(self, name: str) -> int | None:
        """Return a field that a model may lack."""
        return None if self.text.get(name) is None else self.number(name).value

    def expert_size(self) -> Number:
        """Return the experts' intermediate size: of `intermediate_size` only where that is known to be theirs."""
        if self.text.get("moe_intermediate_size") is None and self.model_type in EXPERT_SIZE_IS_INTERMEDIATE:
            return self.number("intermediate_size")
        known = ", ".join(sorted(EXPERT_SIZE_IS_INTERMEDIATE))
        return self.number("moe_intermediate_size", hint=f"intermediate_size is the experts' own only for {known}")

    def dense_size(self) -> int | None:
        """Return the dense layers' intermediate size where the config says that there are such layers."""
        if self.text.get("intermediate_size_mlp"):
            return self.number("intermediate_size_mlp").value
        dense = self.text.get("first_k_dense_replace") or self.text.get("mlp_only_layers")
        return self.number("intermediate_size").value if dense else None

    def head_dim(self) -> int | None:
        """Return the elements of a head: the field, else hidden_size over the heads where that is whole."""
        told, hidden, heads = (self.size(name) for name in ("head_dim", "hidden_size", "num_attention_heads"))
        return told or (hidden // heads if heads and hidden % heads == 0 else 0) or None

    def latent(self) -> int | None:
        """Return what MLA keeps of a token in a layer, None where the config lacks a part of it."""
        parts = [self.size(name) for name in ("kv_lora_rank", "qk_rope_head_dim")]
        return sum(parts) if all(parts) else None

    def size(self, name: str) -> int:
        """Return a field if it is a positive whole number, else 0."""
        value = self.text.get(name)
        return value if isinstance(value, int) and _is_size(value) else 0

    def shared_size(self) -> Number | None:
        """Return the intermediate size of all shared experts together."""
        if self.text.get("shared_expert_intermediate_size"):
            return self.number("shared_expert_intermediate_size")
        count = self.text.get("n_shared_experts")
        if not count or self.text.get("moe_intermediate_size") is None:
            return None
        count = self.number("n_shared_experts").value
        size = self.number("moe_intermediate_size").value
        return Number(count * size, f"n_shared_experts {count} × moe_intermediate_size {size} =")

    def quantization(self) -> Quantization | None:
        """Return how the checkpoint says it is quantised."""
        for name in ("quantization_config", "compression_config"):
            told = self.text.get(name) or self.top.get(name)
            if isinstance(told, dict):
                quantization = _read_quantization(told)
                if told.get("weight_block_size") and quantization.block is None:
                    self.complain(f"{name}.weight_block_size", f"{told['weight_block_size']!r} is no pair of sizes")
                return quantization
        return None

    def complain(self, name: str, message: str, hint: str = "") -> None:
        """Note a problem; its place is the field's name, JSON gives no line."""
        problem = Problem(self.file, 0, 0, self.where + name, message, hint)
        if problem not in self.problems:
            self.problems.append(problem)


def _language_part(document: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Return the part that describes the language model, and the path to it (`text_config.`)."""
    part, where = document, ""
    while True:
        name = next((name for name in NESTED if isinstance(part.get(name), dict)), None)
        if name is None:
            return part, where
        part, where = part[name], f"{where}{name}."


def _first(names: Any) -> str:
    return str(names[0]) if isinstance(names, list) and names else ""


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _read_quantization(told: Mapping[str, Any]) -> Quantization:
    weights = _first_weights(told)
    block = told.get("weight_block_size") or weights.get("block_structure")
    group = told.get("group_size") or weights.get("group_size")
    return Quantization(
        method=str(told.get("quant_method") or told.get("quant_algo") or "").lower(),
        block=(block[0], block[1])
        if isinstance(block, list) and len(block) == 2 and all(map(_is_size, block))
        else None,
        group=group if _is_size(group) else None,
        scale_format=str(told.get("scale_fmt") or ""),
    )


def _first_weights(told: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the weights' scheme of compressed-tensors, whose groups all quantised layers share in practice."""
    groups = told.get("config_groups")
    for group in groups.values() if isinstance(groups, dict) else ():
        if isinstance(group, dict) and isinstance(group.get("weights"), dict):
            weights: Mapping[str, Any] = group["weights"]
            return weights
    return {}
