"""Compiles the tree's CUTLASS block-FP8 linear kernel, whose compiled op writes into an argument and takes a scale.

`CutlassFp8BlockScaledMMKernel` loads E8M0 block scales with its own post-load code, and its own `apply_block_scaled_mm`
runs under `torch.compile`. Stubbed is `torch.ops._C.cutlass_scaled_mm`, with its real schema: it multiplies in float64.
The error is torch's and real: it is raised while compiling. The compiled result must agree with a reference in float64.
The real op takes float32 scales only, which is another issue (e8m0-scale-dtype): it is noted here, not judged.

Exit code: 0 good, 1 bad, 125 cannot tell. `patchkit: absent` means that there is no such kernel class, or that the tree
does not choose it on `PATCHKIT_ARCH` (default sm_121).
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from compiled import (
    BLOCK,
    SCALED_MM,
    Absent,
    answer,
    answer_support_questions,
    capability_at_hand,
    compare,
    config_of,
    defines,
    fake_device,
    kernel_of,
    layer_with_e8m0,
    spread,
    tree_at_hand,
)

KERNEL = "CutlassFp8BlockScaledMMKernel"
SCHEMA = "cutlass_scaled_mm(Tensor! out, Tensor a, Tensor b, Tensor a_scales, Tensor b_scales, Tensor? bias) -> ()"
ROWS, COLUMNS, TOKENS = 2 * BLOCK, 4 * BLOCK, 8


def stub_op(library: Any) -> None:
    def cutlass_scaled_mm(out: Any, a: Any, b: Any, a_scales: Any, b_scales: Any, _: Any) -> None:
        right = b.float().double() * spread(b_scales.t(), b.shape[1], b.shape[0]).t()
        out.copy_((a.float().double() * spread(a_scales, *a.shape)) @ right)

    library.define(SCHEMA)
    library.impl("cutlass_scaled_mm", cutlass_scaled_mm, "CPU")
    library._register_fake("cutlass_scaled_mm", lambda *_: None)


def check(tree: Path) -> str:
    if not defines(tree, f"{SCALED_MM.replace('.', '/')}/cutlass.py", f"class {KERNEL}"):
        raise Absent(f"no class {KERNEL}")
    import torch

    fake_device(capability_at_hand())
    stub_op(answer_support_questions())
    cls = getattr(importlib.import_module(f"{SCALED_MM}.cutlass"), KERNEL)
    if not cls.is_supported()[0]:
        raise Absent(f"{KERNEL} is not chosen on sm_{''.join(map(str, capability_at_hand()))}")
    kernel, layer = kernel_of(cls, config_of(ROWS, COLUMNS)), layer_with_e8m0(ROWS, COLUMNS)
    kernel.process_weights_after_loading(layer)
    print(f"{KERNEL} hands on scales of {layer.weight_scale_inv.dtype}")
    compiled = torch.compile(
        lambda x, scale: kernel.apply_block_scaled_mm(A=x, B=layer.weight, As=scale, Bs=layer.weight_scale_inv) * 2,
        fullgraph=True,
    )
    for seed in (2, 3):
        generator = torch.Generator(torch.get_default_device()).manual_seed(seed)
        x = torch.randn(TOKENS, COLUMNS, generator=generator).to(torch.float8_e4m3fn)
        scale = torch.rand(TOKENS, COLUMNS // BLOCK, generator=generator) + 0.5
        left = x.float().double() * spread(scale, *x.shape)
        loaded = layer_with_e8m0(ROWS, COLUMNS)
        right = (loaded.weight.float().double() * spread(loaded.weight_scale_inv, ROWS, COLUMNS)).t()
        compare(f"compiled, activation {seed}", compiled(x, scale), 2 * (left @ right), 2 * (left.abs() @ right.abs()))
    if layer.weight_scale_inv.dtype != torch.float32:
        print("note: the real op will refuse this scale when it runs: issue e8m0-scale-dtype")
    return "the linear kernel compiles, and computes what it should"


def main() -> int:
    tree = tree_at_hand()
    return 125 if tree is None else answer(lambda: check(tree))


if __name__ == "__main__":
    sys.exit(main())
