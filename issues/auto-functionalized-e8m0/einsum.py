"""Compiles the tree's own output projection of DeepSeek-V4, whose custom op writes into an argument and takes a scale.

`DeepseekV4MultiHeadLatentAttentionWrapper.forward` runs as it stands in the tree, under `torch.compile`, with the
tree's own registration of `torch.ops.vllm.deepseek_v4_fp8_einsum`. The weight's E8M0 scales go through the post-load
code of the kernel class that the tree itself chooses on `PATCHKIT_ARCH` (default sm_121) without DeepGEMM. Stubbed are
the three kernels: attention, the activation's quantisation, and DeepGEMM's `fp8_einsum`, which computes in float64.

The error is torch's and real: it is raised while compiling, before any kernel would run. Compiled and eager results
must agree with a reference in float64, twice, with different activations: an op that declares not to mutate what it
mutates compiles, and computes nothing. Exit code: 0 good, 1 bad, 125 cannot tell.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from compiled import (
    BLOCK,
    KERNELS,
    Absent,
    CannotTell,
    answer,
    answer_support_questions,
    capability_at_hand,
    compare,
    config_of,
    defines,
    fake_device,
    keep,
    kernel_of,
    layer_with_e8m0,
    spread,
    tree_at_hand,
)

PLACES = ("vllm/model_executor/layers/deepseek_v4_attention.py", "vllm/models/deepseek_v4/attention.py")
OP, WRAPPER = "deepseek_v4_fp8_einsum", "DeepseekV4MultiHeadLatentAttentionWrapper"
TOKENS, HEADS, PADDED_HEADS, HEAD, GROUPS, RANK = 8, 4, 64, 128, 2, 128
WIDTH = HEADS // GROUPS * HEAD


def place_of(tree: Path) -> str:
    """The module that calls the op."""
    for path in PLACES:
        if defines(tree, path, f"torch.ops.vllm.{OP}("):
            return path.removesuffix(".py").replace("/", ".")
    raise Absent(f"no module calls torch.ops.vllm.{OP}")


def scales_of(out: Any) -> tuple[Any, Any]:
    """The activation in FP8 and one scale for 128 values of a token's group."""
    import torch

    blocks = out.float().reshape(TOKENS, GROUPS, WIDTH // BLOCK, BLOCK)
    scale = blocks.abs().amax(dim=-1) / 256
    return (blocks / scale[..., None]).to(torch.float8_e4m3fn).reshape(TOKENS, GROUPS, WIDTH), scale


def stub_quantisation(module: Any) -> None:
    """In the place of a Triton kernel: an op that returns new tensors."""
    import torch

    library = torch.library.Library("patchkit_probe", "FRAGMENT")
    keep(library)
    library.define("quantise(Tensor o) -> (Tensor, Tensor)")
    library.impl("quantise", scales_of, "CPU")
    library._register_fake(
        "quantise",
        lambda o: (
            o.new_empty((TOKENS, GROUPS, WIDTH), dtype=torch.float8_e4m3fn),
            o.new_empty((TOKENS, GROUPS, WIDTH // BLOCK), dtype=torch.float32),
        ),
    )
    module.fused_inv_rope_fp8_quant = lambda o, *_, **__: torch.ops.patchkit_probe.quantise(o)


def product(a: Any, a_scale: Any, b: Any, b_scale: Any) -> tuple[Any, Any]:
    """What the einsum stands for, in float64, and the sum of the terms' sizes."""
    import torch

    left = a.float().double() * a_scale.double().repeat_interleave(BLOCK, dim=-1)
    right = (b.float().double() * spread(b_scale, *b.shape)).reshape(GROUPS, RANK, WIDTH)
    return tuple(torch.einsum("bhr,hdr->bhd", *pair) for pair in ((left, right), (left.abs(), right.abs())))


def stub_einsum(module: Any) -> None:
    def fp8_einsum(equation: str, a: Any, b: Any, out: Any, recipe: Any = None) -> None:  # noqa: ARG001 — DeepGEMM's
        if equation != "bhr,hdr->bhd":
            raise CannotTell(f"the einsum is another: {equation}")
        out.copy_(product(*a, *b)[0])

    module.fp8_einsum = fp8_einsum


class Attention:
    """The layer that the attention op finds in the forward context; it writes what a test wants to see."""

    def __init__(self) -> None:
        self.value: Any = None

    def attention_impl(self, *given: Any) -> None:
        given[-1].copy_(self.value)


def projection(attention: Attention, module: Any) -> Any:
    """What the tree's forward asks of its object, and the layer loaded by the tree's own kernel class."""
    import torch

    linear = importlib.import_module(KERNELS)
    config = config_of(GROUPS * RANK, WIDTH)
    chosen = linear.choose_scaled_mm_linear_kernel(config, linear._POSSIBLE_FP8_BLOCK_KERNELS)
    layer = layer_with_e8m0(GROUPS * RANK, WIDTH)
    kernel_of(chosen, config).process_weights_after_loading(layer)
    print(f"{chosen.__name__} hands on scales of {layer.weight_scale_inv.dtype}")
    module.get_forward_context = lambda: SimpleNamespace(no_compile_layers={"probe": attention})
    return SimpleNamespace(
        fused_wqa_wkv=lambda hidden: (hidden.new_zeros(hidden.shape[0], 2 * HEAD), None),
        q_lora_rank=HEAD,
        head_dim=HEAD,
        nope_head_dim=HEAD // 2,
        rope_head_dim=HEAD // 2,
        padded_heads=PADDED_HEADS,
        n_local_heads=HEADS,
        n_local_groups=GROUPS,
        o_lora_rank=RANK,
        layer_name="probe",
        rotary_emb=SimpleNamespace(cos_sin_cache=torch.zeros(1)),
        wo_a=layer,
        wo_b=lambda z: z * 2,
        _tma_aligned_scales=False,
        _einsum_recipe=(1, 128, 128),
    )


def check_values(what: str, forward: Any, attention: Attention, layer: Any) -> None:
    import torch

    hidden, positions = torch.zeros(TOKENS, 16, dtype=torch.bfloat16), torch.arange(TOKENS)
    for seed in (2, 3):
        generator = torch.Generator(torch.get_default_device()).manual_seed(seed)
        attention.value = torch.randn(TOKENS, PADDED_HEADS, HEAD, generator=generator).to(torch.bfloat16)
        activation = scales_of(attention.value[:, :HEADS, :])
        wanted, terms = product(*activation, layer.weight, layer_with_e8m0(GROUPS * RANK, WIDTH).weight_scale_inv)
        found = forward(positions, hidden)
        compare(f"{what}, activation {seed}", found, 2 * wanted.flatten(1), 2 * terms.flatten(1))


def check(name: str) -> str:
    import torch

    fake_device(capability_at_hand())
    answer_support_questions()
    module = importlib.import_module(name)
    stub_quantisation(module)
    stub_einsum(module)
    attention = Attention()
    made = projection(attention, module)
    method = getattr(module, WRAPPER).forward

    def forward(positions: Any, hidden: Any) -> Any:
        return method(made, positions, hidden)

    check_values("eager", forward, attention, made.wo_a)
    check_values("compiled", torch.compile(forward, fullgraph=True), attention, made.wo_a)
    return "the output projection compiles, and computes the same as eagerly"


def main() -> int:
    tree = tree_at_hand()
    return 125 if tree is None else answer(lambda: check(place_of(tree)))


if __name__ == "__main__":
    sys.exit(main())
