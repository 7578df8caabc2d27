"""Loads E8M0 block scales into the tree's own CUTLASS block-FP8 kernel class and checks what reaches the compiled op.

The compiled op takes float32 scales only (`STD_TORCH_CHECK(b_scales.scalar_type() == Float)` in scaled_mm_helper.hpp),
and vLLM finds that out at the first forward pass, not when it picks the kernel. The kernel's real post-load code runs
here on the CPU, on a faked sm_121 or `PATCHKIT_ARCH`, for both names a checkpoint gives the scale. Only the compiled op
is stubbed: it makes the same dtype and shape checks and multiplies in float32.

Checked besides: all 256 exponents keep their value bit for bit (0 is 2**-127, 255 is NaN), the weights are not touched,
float32 scales are left alone, and DeepGEMM's kernel class still gets E8M0: it packs that format itself, and with
float32 it would requantise the weights. Exit code: 0 good, 1 bad, 125 cannot tell. `patchkit: absent` means that there
is no such kernel class.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from e8m0_layer import (
    BLOCK,
    COLUMNS,
    PACKAGE,
    ROWS,
    SCALE_NAMES,
    check_bits,
    check_product,
    every_exponent,
    forward,
    kernel_of,
    layer_with,
    run,
    spread,
)
from faked_gpu import Bad, capability_at_hand, fake_device

KERNEL, DEEP_GEMM_KERNEL = "CutlassFp8BlockScaledMMKernel", "DeepGemmFp8BlockScaledMMKernel"
CHECK = "Expected b_scales.scalar_type() == torch::headeronly::ScalarType::Float to be true, but got false."


def stub_compiled_op(arrived: list[Any]) -> None:
    """The checks of dispatch_scaled_mm in their order, then the product it stands for."""
    import torch

    library = torch.library.Library("_C", "FRAGMENT")
    library.define(
        "cutlass_scaled_mm(Tensor! out, Tensor a, Tensor b, Tensor a_scales, Tensor b_scales, Tensor? bias) -> ()"
    )

    def cutlass_scaled_mm(out: Any, a: Any, b: Any, a_scales: Any, b_scales: Any, _: Any) -> None:
        if a_scales.dtype != torch.float32:
            raise RuntimeError(CHECK.replace("b_scales", "a_scales"))
        if b_scales.dtype != torch.float32:
            raise RuntimeError(CHECK)
        arrived.append(b_scales)
        rows, inner, columns = a.shape[0], a.shape[1], b.shape[1]
        if tuple(a_scales.shape) != (rows, -(-inner // BLOCK)):
            raise RuntimeError("a_scale_group_shape must be [1, 128].")
        if tuple(b_scales.shape) != (-(-inner // BLOCK), -(-columns // BLOCK)):
            raise RuntimeError("b_scale_group_shape must be [128, 128].")
        left = a.float() * spread(a_scales, rows, inner)
        right = b.float() * spread(b_scales.t(), columns, inner).t()
        out.copy_(left @ right)

    library.impl("cutlass_scaled_mm", cutlass_scaled_mm, "CPU")
    for question in ("cutlass_scaled_mm_supports_fp8", "cutlass_scaled_mm_supports_block_fp8"):  # asked at import
        library.define(f"{question}(int cuda_device_capability) -> bool")
        library.impl(question, lambda _: True, "CompositeExplicitAutograd")
    stub_compiled_op.keep = library  # type: ignore[attr-defined]  # unloaded with its last reference


def check_kernel(name: str, arrived: list[Any]) -> None:
    import torch

    kernel = kernel_of(KERNEL, "cutlass")
    check_product(kernel, name, arrived)
    layer = layer_with(name, every_exponent())
    weight = layer.weight.detach().clone()
    forward(kernel, name, layer, arrived)
    check_bits(name, every_exponent(), arrived[0].t())
    if not torch.equal(layer.weight.view(torch.uint8), weight.view(torch.uint8)):
        raise Bad(f"{name}: the weights were changed")
    plain = torch.rand(ROWS, COLUMNS) + 0.5
    forward(kernel, name, layer_with(name, plain.clone()), arrived)
    if not torch.equal(arrived[0].t(), plain):
        raise Bad(f"{name}: float32 scales were changed")


def check_deep_gemm(name: str) -> None:
    """What DeepGEMM's kernel class hands to the code that packs scales."""
    import torch

    source = importlib.import_module(f"{PACKAGE}.deep_gemm")
    seen: list[Any] = []

    def packed(wq: Any, ws: Any, **_: Any) -> tuple[Any, Any]:
        seen.append(ws.dtype)
        return wq, ws

    source.deepgemm_post_process_fp8_weight_block = packed
    kernel = kernel_of(DEEP_GEMM_KERNEL, "deep_gemm")
    kernel.is_deep_gemm_supported, kernel.use_deep_gemm_e8m0 = True, True
    kernel.process_weights_after_loading(layer_with(name, every_exponent()))
    if not seen:
        raise AttributeError("DeepGEMM's post-load code no longer calls deepgemm_post_process_fp8_weight_block")
    if seen != [torch.float8_e8m0fnu]:
        raise Bad(f"{name}: DeepGEMM's kernel is handed {seen[0]}, it packs E8M0 itself")


def check() -> None:
    fake_device(capability_at_hand())
    arrived: list[Any] = []
    stub_compiled_op(arrived)
    for name in SCALE_NAMES:
        check_kernel(name, arrived)
        check_deep_gemm(name)
    print("DeepGEMM's kernel still gets E8M0")


if __name__ == "__main__":
    sys.exit(run("cutlass.py", KERNEL, check, "the compiled op", CHECK))
