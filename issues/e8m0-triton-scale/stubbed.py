"""Loads E8M0 block scales into the tree's own Triton block-FP8 kernel class and checks what reaches the Triton kernel.

Triton looks tensors up by dtype and knows no float8_e8m0fnu. The kernel class's post-load code, its operator and the
function that launches run here on the CPU, on a faked sm_89 or `PATCHKIT_ARCH`, for both names a checkpoint gives the
scale. Only the compiled kernel is stubbed: it refuses what Triton cannot bind and multiplies in float32.

Checked besides: all 256 exponents keep their value bit for bit (0 is 2**-127, 255 is NaN) where the kernel class has
converted them itself, the weights are not touched, float32 scales are left alone. Exit code: 0 good, 1 bad, 125 cannot
tell. `patchkit: absent` means that there is no such kernel class.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

from e8m0_layer import (
    COLUMNS,
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

KERNEL, UTILS = "TritonFp8BlockScaledMMKernel", "vllm.model_executor.layers.quantization.utils.fp8_utils"
CHECK = "float8_e8m0fnu"


class Launched:
    """Stands for the compiled kernel: looks its tensors up by dtype as Triton does, then multiplies."""

    def __init__(self, arrived: list[Any]) -> None:
        self.arrived = arrived

    def __getitem__(self, _grid: Any) -> Launched:
        return self

    def __call__(self, *given: Any, **_: Any) -> None:
        import torch

        a, b, out, a_scales, b_scales = given[:5]
        for tensor in (a_scales, b_scales):
            if tensor.dtype == torch.float8_e8m0fnu:
                raise KeyError(CHECK)
        self.arrived.append(b_scales)
        left = a.float() * spread(a_scales, a.shape[0], a.shape[1])
        right = b.float() * spread(b_scales, b.shape[0], b.shape[1])
        out.copy_(left @ right.t())


def stub_compiled_op(arrived: list[Any]) -> None:
    import torch

    library = torch.library.Library("_C", "FRAGMENT")
    for question in ("cutlass_scaled_mm_supports_fp8", "cutlass_scaled_mm_supports_block_fp8"):  # asked at import
        library.define(f"{question}(int cuda_device_capability) -> bool")
        library.impl(question, lambda _: False, "CompositeExplicitAutograd")
    stub_compiled_op.keep = library  # type: ignore[attr-defined]  # unloaded with its last reference
    utils = importlib.import_module(UTILS)
    if not hasattr(utils, "_w8a8_triton_block_scaled_mm"):
        raise AttributeError("the Triton kernel has another name")
    utils._w8a8_triton_block_scaled_mm = Launched(arrived)
    # 0.27 and 0.28 ask which AMD device this is, on NVIDIA as well, where torch answers with the device's name.
    torch.cuda.get_device_properties = lambda *_: types.SimpleNamespace(gcnArchName="NVIDIA")
    utils.get_w8a8_block_fp8_configs = lambda *_: None  # would ask the driver for the device's name
    utils.triton = types.SimpleNamespace(
        cdiv=lambda x, y: -(-x // y), next_power_of_2=lambda n: 1 << (n - 1).bit_length()
    )


def check_kernel(name: str, arrived: list[Any]) -> None:
    import torch

    kernel = kernel_of(KERNEL, "triton")
    check_product(kernel, name, arrived)
    layer = layer_with(name, every_exponent())
    weight = layer.weight.detach().clone()
    forward(kernel, name, layer, arrived)
    held = getattr(layer, name).detach()
    if held.dtype == torch.float32:
        check_bits(name, every_exponent(), held)
    else:
        print(f"note: {name} stays {held.dtype} and is converted in every forward pass")
    if not torch.equal(layer.weight.view(torch.uint8), weight.view(torch.uint8)):
        raise Bad(f"{name}: the weights were changed")
    plain = torch.rand(ROWS, COLUMNS) + 0.5
    forward(kernel, name, layer_with(name, plain.clone()), arrived)
    if not torch.equal(arrived[0], plain):
        raise Bad(f"{name}: float32 scales were changed")


def check() -> None:
    fake_device(capability_at_hand((8, 9)), dispatch_key="CPU")
    arrived: list[Any] = []
    stub_compiled_op(arrived)
    for name in SCALE_NAMES:
        check_kernel(name, arrived)


def main() -> int:
    return run("triton.py", KERNEL, check, "the Triton kernel", CHECK)


if __name__ == "__main__":
    sys.exit(main())
