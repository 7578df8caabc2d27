"""What a rank must at least hold: an estimate from the config alone, with its formula. No promise that the rest fits.

Sources: fused_moe's two weights, w13 of 2 × size × hidden and w2 of hidden × size for each expert; a float32 scale for
each block of FP8 (one byte in E8M0), one byte for each 32 elements of MXFP4; key and value of each head for each token
(`FullAttentionSpec.page_size_bytes`), or the one latent vector of MLA (`MLAAttentionSpec`).
"""

from __future__ import annotations

from typing import Any

from patchkit.diagnosis.deployment import split_experts
from patchkit.diagnosis.model_config import Quantization
from patchkit.diagnosis.preflight.finding import Case

BYTES = {"bfloat16": 2.0, "float16": 2.0, "float32": 4.0}
MXFP4_GROUP = 32
LEAVES_OUT = (
    "attention, dense layers, shared experts, embeddings, biases and padding of kernels, the draft model, activations,"
    " CUDA graphs, communication buffers"
)


def estimate_memory(case: Case) -> dict[str, Any]:
    """Return bytes for each layer, None where the config does not tell them exactly, with the formula or the reason."""
    experts, how = _expert_bytes(case)
    cache, why = _cache_bytes(case)
    return {
        "expert_bytes_per_layer": experts,
        "expert_formula": how,
        "kv_bytes_per_token_and_layer": cache,
        "kv_formula": why,
        "layers": case.model.layers,
        "leaves_out": LEAVES_OUT,
    }


def _expert_bytes(case: Case) -> tuple[int | None, str]:
    """Return the routed experts' weights of one MoE layer on the rank that holds most."""
    model, deployment = case
    size = model.expert_size.value
    if size % deployment.moe_tp:
        return None, "the expert size is not cut evenly"
    redundant = deployment.redundant_experts if deployment.eplb else 0
    held = max(split_experts(model.experts.value + redundant, deployment.ep_size))
    width, scales, of = _weight_bytes(case)
    if width is None:
        return None, of
    weights = 3 * model.hidden_size * (size // deployment.moe_tp)
    total = round(held * weights * (width + scales))
    return total, f"{held} experts × 3 × {model.hidden_size} × {size // deployment.moe_tp} × {of} = {total}"


def _weight_bytes(case: Case) -> tuple[float | None, float, str]:
    """Return the bytes of a weight and of its share of a scale, and how they are told."""
    model, deployment = case
    told = model.quantization
    method = told.method if told else ""
    if deployment.quantization and deployment.quantization != method:
        return None, 0.0, f"--quantization {deployment.quantization} is made at load; its layout is not in the config"
    if model.model_type.startswith("deepseek_v4"):
        return None, 0.0, "the experts of deepseek_v4 are stored in FP8 or FP4, and config.json need not say which"
    if told is None:
        width = BYTES.get(model.dtype)
        return width, 0.0, f"{width:g} bytes ({model.dtype})" if width else _no_dtype(model.dtype)
    if method == "mxfp4":
        return 0.5, 1 / MXFP4_GROUP, f"(0.5 + 1/{MXFP4_GROUP}) bytes (mxfp4)"
    if method == "fp8":
        return _block_bytes(case, told)
    return None, 0.0, f"how much a weight takes with {method or 'this quantization'} is not in the config"


def _block_bytes(case: Case, told: Quantization) -> tuple[float | None, float, str]:
    if told.block is None:
        return None, 0.0, "weight_block_size is missing"
    rows, columns = told.block
    if case.model.hidden_size % columns or case.model.expert_size.value // case.deployment.moe_tp % rows:
        return None, 0.0, "the blocks of the scales are cut"
    scale = 1 if told.scale_format == "ue8m0" else 4
    return 1.0, scale / (rows * columns), f"(1 + {scale}/({rows} × {columns})) bytes (fp8)"


def _cache_bytes(case: Case) -> tuple[int | None, str]:
    """Return the KV cache of one token in one layer on one rank."""
    model, deployment = case
    kind = deployment.kv_dtype if deployment.kv_dtype != "auto" else model.dtype
    width = 1.0 if kind in ("fp8", "fp8_e4m3", "fp8_e5m2") else BYTES.get(kind)
    if width is None:
        return None, _no_dtype(kind)
    if model.sparse_attention:
        return None, "sparse attention keeps an indexer's cache and a layout of its own besides"
    if model.kv_heads is None:
        if model.latent is None:
            return None, "qk_rope_head_dim is missing"
        return round(model.latent * width), f"(kv_lora_rank + qk_rope_head_dim = {model.latent}) × {width:g} bytes"
    if model.head_dim is None:
        return None, "head_dim is missing, and hidden_size is no multiple of the heads"
    heads = max(1, model.kv_heads // deployment.tp)
    total = round(2 * heads * model.head_dim * width)
    return total, f"2 × {heads} heads × {model.head_dim} × {width:g} bytes = {total}, where no window bounds it"


def _no_dtype(name: str) -> str:
    return f"how much an element takes as {name} is not known" if name else "dtype (or torch_dtype) is missing"
