"""A block-scaled FP8 linear layer with E8M0 scales, one block for each exponent, and the tree's own kernels for it."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faked_gpu import Bad

PACKAGE = "vllm.model_executor.kernels.linear.scaled_mm"
BLOCK = 128
ROWS, COLUMNS = 16, 16  # blocks of the layer: one per exponent, 256 in all
SCALE_NAMES = ("weight_scale_inv", "weight_scale")  # fp8.py's name, and compressed-tensors'
# Of the terms summed: the result is rounded to bfloat16 (2**-8), and a wrong scale is off by a factor of two at least.
TOLERANCE = 5e-3


def spread(scale: Any, rows: int, columns: int) -> Any:
    """A block scale, or a token's group scales, at the size of what it scales."""
    if scale.shape[0] != rows:
        scale = scale.repeat_interleave(BLOCK, dim=0)[:rows]
    return scale.repeat_interleave(BLOCK, dim=1)[:, :columns]


def layer_with(name: str, scale: Any) -> Any:
    import torch

    layer = torch.nn.Module()
    generator = torch.Generator(torch.get_default_device()).manual_seed(1)
    weight = torch.randn(ROWS * BLOCK, COLUMNS * BLOCK, generator=generator).to(torch.float8_e4m3fn)
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    layer.register_parameter(name, torch.nn.Parameter(scale, requires_grad=False))
    layer.weight_block_size = [BLOCK, BLOCK]
    layer.logical_widths = [ROWS * BLOCK]
    layer.orig_dtype = torch.bfloat16
    layer.input_scale = layer.input_scale_ub = None
    return layer


def kernel_of(name: str, source: str) -> Any:
    """A kernel object of the tree. Its constructor wants a running engine, the code tried here the configuration."""
    import torch

    quant = importlib.import_module("vllm.model_executor.layers.quantization.utils.quant_utils")
    config = importlib.import_module(f"{PACKAGE}.ScaledMMLinearKernel").FP8ScaledMMLinearLayerConfig
    cls = getattr(importlib.import_module(f"{PACKAGE}.{source}"), name)
    made = cls.__new__(cls)
    made.config = config(
        weight_quant_key=quant.kFp8Static128BlockSym,
        activation_quant_key=quant.kFp8Dynamic128Sym,
        weight_shape=(ROWS * BLOCK, COLUMNS * BLOCK),
        input_dtype=torch.bfloat16,
        out_dtype=torch.bfloat16,
    )
    made.weight_group_shape = quant.kFp8Static128BlockSym.scale.group_shape
    made.apply_input_quant, made.use_triton, made.is_hopper = True, False, False
    return made


def every_exponent() -> Any:
    import torch

    return torch.arange(256, dtype=torch.uint8).view(ROWS, COLUMNS).view(torch.float8_e8m0fnu)


def check_bits(name: str, before: Any, after: Any) -> None:
    """All 256 exponents: 0 … 254 are the powers of two from 2**-127 to 2**127, bit for bit, and 255 is NaN."""
    import torch

    if after.shape != before.shape or not after.is_contiguous():
        raise Bad(f"{name} has shape {tuple(after.shape)}, strides {after.stride()}")
    found = after.detach().flatten()
    wanted = torch.ldexp(torch.ones(256, dtype=torch.float64), torch.arange(256) - 127).to(torch.float32)
    wanted[255] = torch.nan
    same = wanted.view(torch.int32) == found.view(torch.int32)
    wrong = (~(same | (wanted.isnan() & found.isnan()))).nonzero()
    if len(wrong):
        first = int(wrong[0])
        raise Bad(f"{name}: exponent byte {first} became {found[first]}, is {wanted[first]}; {len(wrong)} are wrong")


def forward(kernel: Any, name: str, layer: Any, arrived: list[Any]) -> tuple[Any, Any, Any]:
    """Load, then run from the quantised activation on. Returns the activation, its scales and the result."""
    import torch

    generator = torch.Generator(torch.get_default_device()).manual_seed(2)
    x = torch.randn(4, COLUMNS * BLOCK, generator=generator).to(torch.float8_e4m3fn)
    x_scale = torch.rand(4, COLUMNS, generator=generator) + 0.5
    kernel.process_weights_after_loading(layer)
    arrived.clear()
    found = kernel.apply_block_scaled_mm(A=x, B=layer.weight, As=x_scale, Bs=getattr(layer, name))
    if len(arrived) != 1:
        raise TypeError(f"the compiled op was called {len(arrived)} times")
    return x, x_scale, found


def check_product(kernel: Any, name: str, arrived: list[Any]) -> None:
    """The forward pass on scales a model would have."""
    import torch

    generator = torch.Generator(torch.get_default_device()).manual_seed(3)
    exponents = torch.randint(110, 130, (ROWS, COLUMNS), generator=generator, dtype=torch.uint8)
    scale = exponents.view(torch.float8_e8m0fnu)
    layer = layer_with(name, scale.clone())
    x, x_scale, found = forward(kernel, name, layer, arrived)
    left = x.double() * spread(x_scale.double(), 4, COLUMNS * BLOCK)
    right = (layer.weight.double() * spread(scale.double(), ROWS * BLOCK, COLUMNS * BLOCK)).t()
    error = ((found.double() - left @ right).abs() / (left.abs() @ right.abs())).max().item()
    if not error <= TOLERANCE:
        raise Bad(f"{name}: the product is off by {error:.1e} of its terms, allowed {TOLERANCE:.0e}")
    print(f"{name}: product within {error:.1e} of float64, allowed {TOLERANCE:.0e}")


def run(source: str, kernel: str, check: Callable[[], None], op: str, sign: str) -> int:
    """Ask the tree at `PATCHKIT_TREE`, else in the current folder: 0 good, 1 bad, 125 cannot tell.

    `source`, `kernel`: the file of the kernel class and its name; `sign`: in the error of an `op` that refuses E8M0.
    """
    tree = Path(os.environ.get("PATCHKIT_TREE") or Path.cwd()).resolve()
    if not (tree / "vllm" / "__init__.py").is_file():
        print(f"cannot tell: {tree} holds no vllm package")
        return 125
    file = tree / PACKAGE.replace(".", "/") / source
    if not file.is_file() or f"class {kernel}" not in file.read_text(encoding="utf-8"):
        print("patchkit: absent")
        return 0
    sys.path.insert(0, str(tree))
    try:
        check()
    except Bad as problem:
        print(f"bad: E8M0 scales: {problem}")
        return 1
    except Exception as error:
        traceback.print_exc(file=sys.stdout)
        if sign in str(error):
            print(f"bad: E8M0 scales reach {op}: {type(error).__name__}: {error}")
            return 1
        print(f"cannot tell: {type(error).__name__}: {error}")
        return 125
    print(f"good: {op} is fed float32 scales of the same value")
    return 0
