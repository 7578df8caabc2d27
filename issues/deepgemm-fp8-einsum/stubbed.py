"""Runs the tree's own output projection of DeepSeek-V4 on faked GPUs, with only the GPU kernels stubbed.

A guard is half of it: without DeepGEMM nothing brings wo_a into DeepGEMM's layout, while the tree's quantiser still
packs the scales of the activations on every device from sm_100 on. So the tree's quantiser makes the scales here, in
its own buffers and strides, wo_a is as the checkpoint has it, and the result is compared with a float64 reference:

- the arch at hand (`PATCHKIT_ARCH`, else sm_121) with VLLM_USE_DEEP_GEMM=0: scales packed, four to an int32;
- sm_89 with the default settings, an arch on which every tree says that DeepGEMM is not supported: float32 scales;
- sm_90 with the default settings and wo_a in DeepGEMM's layout: there DeepGEMM must still be taken.

Stubbed are the quantiser's Triton kernel and DeepGEMM's fp8_einsum. Each device is a process of its own: vLLM caches
such answers. Exit code: 0 good, 1 bad, 125 cannot tell.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

from faked_gpu import Bad, capability_at_hand, fake_device, module

# Where the call stands: (file, function), newest first. Before 0.23 it is the body of a custom operator.
PROJECTION = ("vllm/models/deepseek_v4/nvidia/ops/o_proj.py", "deep_gemm_fp8_o_proj")
OPERATORS = (
    ("vllm/models/deepseek_v4/attention.py", "deepseek_v4_fp8_einsum"),
    ("vllm/model_executor/layers/deepseek_v4_attention.py", "deepseek_v4_fp8_einsum"),
)
QUANTISERS = (
    "vllm/models/deepseek_v4/common/ops/fused_inv_rope_fp8_quant.py",
    "vllm/v1/attention/ops/deepseek_v4_ops/fused_inv_rope_fp8_quant.py",
)
KERNELS = ("_fused_inv_rope_fp8_quant_per_head", "_FUSED_INV_ROPE_FP8_QUANT_KERNEL")
GROUPS, HEADS, NOPE, ROPE, RANK, BLOCK = 2, 8, 448, 64, 1024, 128  # of DeepSeek-V4-Flash, with two groups instead of 8
INNER = HEADS * (NOPE + ROPE)
TOKENS = (1, 17, 130)
# The result is rounded to bfloat16, by 2**-8 of itself. Beyond that, relative to sum |x||w|: with E8M0 scales all
# products are exact and only the float32 sum rounds; float32 scales round each weight by 2**-8, of either sign.
ROUNDING = 1.01 * 2.0**-8
TOLERANCE = {"e8m0": 1e-5, "float32": 1e-3}
DEEP_GEMM_MAJORS = (9, 10)
UNSUPPORTED = "Assertion error (/deepgemm-src/csrc/apis/../jit_kernels/impls/../../utils/layout.hpp:39): t.dim() == N"
CANNOT_TELL = (ImportError, AttributeError, TypeError)  # an interface that drifted says nothing about the guard


class Record:
    """What the stubbed kernels saw: calls of DeepGEMM, and the activations as the quantiser meant them."""

    def __init__(self) -> None:
        self.deep_gemm_calls = 0
        self.meant: Any = None


def stub_deep_gemm(capability: tuple[int, int], record: Record) -> None:
    def fp8_einsum(equation: str, a: Any, b: Any, out: Any, recipe: Any = None, **_: Any) -> None:
        import torch

        record.deep_gemm_calls += 1
        (x, x_scale), (weight, scale) = a, b
        if capability[0] not in DEEP_GEMM_MAJORS or weight.dim() != 3 or scale.dim() != 3:
            raise RuntimeError(UNSUPPORTED)
        if recipe != (1, 128, 128) or x_scale.dtype != torch.float32 or scale.dtype != torch.float32:
            raise RuntimeError("Assertion error (/deepgemm-src/csrc/apis/einsum.hpp:1): Unknown SF transformation")
        left = x.float() * x_scale.repeat_interleave(BLOCK, dim=2)
        right = weight.float() * scale.repeat_interleave(BLOCK, dim=1).repeat_interleave(BLOCK, dim=2)
        out.copy_(torch.einsum(equation, left, right))

    module("deep_gemm", fp8_einsum=fp8_einsum, __version__="0")


class Quantiser:
    """Stands for the compiled Triton kernel: inverse RoPE, one power-of-two scale a block, into the tree's buffers."""

    def __init__(self, record: Record) -> None:
        self.record = record

    def __getitem__(self, _grid: Any) -> Quantiser:
        return self

    def __call__(self, *tensors: Any, **given: Any) -> None:
        import torch

        o, positions, cache, out, scale, num_tokens = tensors

        named = {key.lower(): value for key, value in given.items()}
        block, packed = named["quant_group_size"], named["tma_aligned_scales"]
        values = o.float().clone()
        cos, sin = cache[positions].float().chunk(2, dim=-1)
        even, odd = values[..., NOPE::2].clone(), values[..., NOPE + 1 :: 2].clone()
        values[..., NOPE::2] = even * cos[:, None] + odd * sin[:, None]
        values[..., NOPE + 1 :: 2] = odd * cos[:, None] - even * sin[:, None]
        blocks = values.view(num_tokens, GROUPS, -1, block)
        scales = torch.exp2(torch.ceil(torch.log2(blocks.abs().amax(-1).clamp(min=1e-10) / 448)))
        quantised = (blocks / scales[..., None]).clamp(-448, 448).to(torch.float8_e4m3fn)
        self.record.meant = (quantised.double() * scales.double()[..., None]).flatten(2)
        out.copy_(quantised.flatten(2).transpose(0, 1))
        if packed:
            exponents = ((scales.view(torch.int32) >> 23) & 255).view(num_tokens, GROUPS, -1, 4)
            scales = (exponents << torch.tensor([0, 8, 16, 24], dtype=torch.int32)).sum(-1).to(torch.int32)
        scale.copy_(scales.transpose(0, 1))


def answer_at_import() -> Any:
    """Compiled questions that modules ask while they are imported."""
    import torch

    library = torch.library.Library("_C", "FRAGMENT")
    for question in ("cutlass_scaled_mm_supports_fp8", "cutlass_scaled_mm_supports_block_fp8"):
        library.define(f"{question}(int cuda_device_capability) -> bool")
        library.impl(question, lambda _: True, "CompositeExplicitAutograd")
    return library  # unloaded with its last reference


def imported(tree: Path, path: str) -> Any:
    """A module of the tree. The packages of the models import every layer; here they are folders and nothing else."""
    name = path.removesuffix(".py").replace("/", ".")
    parents = path.split("/")[:-1]
    for depth in range(2, len(parents) + 1) if lean(tree) else ():
        package = ".".join(parents[:depth])
        if package.startswith("vllm.models") and package not in sys.modules:
            module(package, __path__=[str(tree.joinpath(*parents[:depth]))])
    return importlib.import_module(name)


def lean(tree: Path) -> bool:
    """From 0.23 on the projection has a module of its own that needs no other layer."""
    return (tree / PROJECTION[0]).is_file()


def load_quantiser(tree: Path, record: Record) -> Any:
    source = imported(tree, next(path for path in QUANTISERS if (tree / path).is_file()))
    if not any(hasattr(source, name) for name in KERNELS):
        raise AttributeError("the quantiser's kernel has another name")
    for name in KERNELS:
        if hasattr(source, name):
            setattr(source, name, Quantiser(record))
    if lean(tree):  # what the package itself would offer, under the name of its module
        sys.modules[source.__package__].fused_inv_rope_fp8_quant = source.fused_inv_rope_fp8_quant
    return source.fused_inv_rope_fp8_quant


def activations(tokens: int) -> tuple[Any, Any, Any]:
    """Attention output whose blocks differ in size, so that a scale in the wrong place shows."""
    import torch

    maker = torch.Generator().manual_seed(tokens)
    o = torch.randn(tokens, GROUPS * HEADS, NOPE + ROPE, generator=maker)
    sizes = torch.randint(-3, 3, (tokens, GROUPS * HEADS, (NOPE + ROPE) // 32), generator=maker)
    o = (o * torch.exp2(sizes.float()).repeat_interleave(32, dim=2)).bfloat16()
    angles = torch.rand(4096, ROPE // 2, generator=maker) * 6
    positions = torch.randint(0, 4096, (tokens,), generator=maker)
    return o, positions, torch.cat([angles.cos(), angles.sin()], dim=-1)


def weights(kind: str) -> tuple[Any, Any, Any]:
    """wo_a as the checkpoint has it, its block scales in one of the forms they may have, and both in float64."""
    import torch

    maker = torch.Generator().manual_seed(7)
    weight = torch.randn(GROUPS * RANK, INNER, generator=maker).to(torch.float8_e4m3fn)
    exponents = torch.randint(115, 121, (GROUPS * RANK // BLOCK, INNER // BLOCK), generator=maker).to(torch.uint8)
    scale = exponents.view(torch.float8_e8m0fnu)
    if kind == "float32":
        scale = scale.to(torch.float32) * (1 + torch.rand(scale.shape, generator=maker))
    wide = scale.double().repeat_interleave(BLOCK, dim=0).repeat_interleave(BLOCK, dim=1)
    return weight, scale, (weight.double() * wide).view(GROUPS, RANK, INNER)


def layer_of(weight: Any, scale: Any, deep_gemm: bool) -> Any:
    """A layer with these parameters; in DeepGEMM's layout for sm_90 where its post-load code has been."""
    import torch

    if deep_gemm:
        weight = weight.view(GROUPS, RANK, INNER)
        scale = scale.to(torch.float32).view(GROUPS, RANK // BLOCK, INNER // BLOCK)
    layer = torch.nn.Module()
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    layer.weight_scale_inv = torch.nn.Parameter(scale, requires_grad=False)
    return layer


def project(tree: Path, record: Record, layer: Any, given: tuple[Any, Any, Any], capability: tuple[int, int]) -> Any:
    """Through the tree's projection, up to what it hands to wo_b."""
    import torch

    quantise = load_quantiser(tree, record)
    sizes = {"n_groups": GROUPS, "heads_per_group": HEADS, "nope_dim": NOPE, "rope_dim": ROPE}
    if lean(tree):
        source = imported(tree, PROJECTION[0])
        recipe, packed = source.compute_fp8_einsum_recipe()
        handed: list[Any] = []
        source.deep_gemm_fp8_o_proj(
            *given, layer, lambda z: handed.append(z) or z,
            **sizes, o_lora_rank=RANK, einsum_recipe=recipe, tma_aligned_scales=packed,
        )  # fmt: skip
        return handed[0].view(-1, GROUPS, RANK)
    path, name = next(item for item in OPERATORS if (tree / item[0]).is_file())
    operator = getattr(imported(tree, path), name)
    x, x_scale = quantise(*given, **sizes, tma_aligned_scales=capability[0] >= 10)  # as the layer asks for it
    z = torch.empty(x.shape[0], GROUPS, RANK, dtype=torch.bfloat16)
    recipe = [1, 128, 128] if capability[0] <= 9 else [1, 1, 128]
    operator(x, x_scale, layer.weight, layer.weight_scale_inv, z, "bhr,hdr->bhd", recipe)
    return z


def compare(kind: str, found: Any, left: Any, right: Any) -> float:
    """The largest error beyond the rounding of the result, relative to the size of the terms summed."""
    import torch

    wanted = torch.einsum("tgk,gnk->tgn", left, right)
    size = torch.einsum("tgk,gnk->tgn", left.abs(), right.abs())
    if found.shape != wanted.shape or found.dtype != torch.bfloat16:
        raise Bad(f"fallback is wrong: wo_b is handed {found.dtype} {tuple(found.shape)}")
    error = (((found.double() - wanted).abs() - ROUNDING * wanted.abs()) / size).max().item()
    if not error <= TOLERANCE[kind]:
        raise Bad(f"fallback is wrong: {kind} scales: off by {error:.1e} of its terms, allowed {TOLERANCE[kind]:.0e}")
    return max(error, 0.0)


def check(tree: Path, capability: tuple[int, int], must_take: bool) -> None:
    """One faked device in this process."""
    import torch

    record = Record()
    fake_device(capability, dispatch_key="CPU")
    keep = answer_at_import()
    stub_deep_gemm(capability, record)
    torch.use_deterministic_algorithms(True)  # makes torch.empty hold NaN: what is not filled shows
    worst = dict.fromkeys(TOLERANCE, 0.0)
    for kind in TOLERANCE:
        weight, scale, right = weights(kind)
        layer = layer_of(weight, scale, must_take)
        for tokens in TOKENS:
            before = record.deep_gemm_calls
            found = project(tree, record, layer, activations(tokens), capability)
            called = record.deep_gemm_calls - before
            if called and not must_take:
                raise Bad("call is not guarded: DeepGEMM was called, its error caught")
            if must_take and not called:
                raise Bad(f"DeepGEMM is not taken with {tokens} tokens on an arch it supports")
            worst[kind] = max(worst[kind], compare(kind, found, record.meant, right))
    del keep
    path = "DeepGEMM" if must_take else "fallback"
    errors = ", ".join(f"{error:.1e} with {kind} scales" for kind, error in worst.items())
    print(f"{path} on {capability}: largest error {errors}, for {TOKENS} tokens")


def child(tree: Path, capability: tuple[int, int], must_take: bool) -> int:
    where = f"sm_{capability[0]}{capability[1]}"
    try:
        check(tree, capability, must_take)
    except Bad as problem:
        print(f"{where}: bad: {problem}")
        return 1
    except Exception as error:
        traceback.print_exc(file=sys.stdout)
        names = (PROJECTION[1], OPERATORS[0][1])
        inside = any(frame.name in names for frame in traceback.extract_tb(error.__traceback__))
        if isinstance(error, CANNOT_TELL) or not inside:
            print(f"{where}: cannot tell: {type(error).__name__}: {error}")
            return 125
        known = "call is not guarded" if UNSUPPORTED in str(error) else "fallback fails"
        print(f"{where}: bad: {known}: {type(error).__name__}: {error}")
        return 1
    return 0


def present(tree: Path) -> bool:
    return any(
        (tree / path).is_file() and f"def {name}(" in (tree / path).read_text(encoding="utf-8")
        for path, name in (PROJECTION, *OPERATORS)
    )


def parent(tree: Path) -> int:
    here = capability_at_hand()
    here = (12, 1) if here[0] in DEEP_GEMM_MAJORS else here
    for capability, must_take, switch in ((here, False, "0"), ((8, 9), False, None), ((9, 0), True, None)):
        env = {key: value for key, value in os.environ.items() if key != "VLLM_USE_DEEP_GEMM"}
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(tree), env.get("PYTHONPATH", "")]))
        env.update({"VLLM_USE_DEEP_GEMM": switch} if switch else {})
        arguments = [str(tree), str(capability[0]), str(capability[1]), str(int(must_take))]
        sys.stdout.flush()
        code = subprocess.run(
            [sys.executable, __file__, *arguments], env=env, stderr=subprocess.STDOUT, check=False
        ).returncode
        if code:
            return code if code == 1 else 125
    return 0


def main(arguments: list[str]) -> int:
    if arguments:
        tree, major, minor, must_take = arguments
        return child(Path(tree), (int(major), int(minor)), must_take == "1")
    root = Path(os.environ.get("PATCHKIT_TREE") or Path.cwd()).resolve()
    if not (root / "vllm" / "__init__.py").is_file():
        print(f"cannot tell: {root} holds no vllm package")
        return 125
    if not present(root):
        print("patchkit: absent")
        return 0
    return parent(root)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
