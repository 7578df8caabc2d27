"""Compiles what `einsum.py` and `cutlass.py` compile, for the GPU at hand: inductor makes CUDA code of the graph.

Told by the tree which of the two it has to answer for: the output projection's custom op where a module calls it, the
CUTLASS linear kernel elsewhere. Tensors live on the device, and so do the stand-ins of the kernels, which compute in
float64 as on the CPU. The capability is the device's own. Exit code: 0 good, 1 bad, 125 cannot tell, which is also what
it says without a CUDA device.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import compiled
import cutlass
import einsum

STAND_INS = ("_C", "patchkit_probe")  # the libraries in which these scripts register what stands for a kernel


def move_stand_ins(torch: Any) -> None:
    """Register for the device what the scripts register for the CPU."""
    plain = torch.library.Library.impl

    def impl(self: Any, op_name: str, fn: Any, dispatch_key: str = "", **named: Any) -> Any:
        on_device = dispatch_key == "CPU" and self.ns in STAND_INS
        return plain(self, op_name, fn, "CUDA" if on_device else dispatch_key, **named)

    torch.library.Library.impl = impl


def device_platform(capability: tuple[int, int]) -> None:
    """The faked platform, whose custom ops are registered for the device."""
    compiled.fake_device(capability)
    from vllm import platforms

    type(platforms._current_platform).dispatch_key = "CUDA"


def check(tree: Path) -> str:
    try:
        place = einsum.place_of(tree)
    except compiled.Absent:
        return cutlass.check(tree)
    return einsum.check(place)


def main() -> int:
    tree = compiled.tree_at_hand()
    if tree is None:
        return 125
    try:
        import torch
    except ImportError:
        print("cannot tell: there is no torch here")
        return 125
    if not torch.cuda.is_available():
        print("cannot tell: there is no CUDA device here")
        return 125
    os.environ["PATCHKIT_ARCH"] = "sm_{}{}".format(*torch.cuda.get_device_capability())
    print(f"{torch.cuda.get_device_name()}, {os.environ['PATCHKIT_ARCH']}, torch {torch.__version__}")
    torch.set_default_device("cuda")
    move_stand_ins(torch)
    einsum.fake_device = cutlass.fake_device = device_platform
    return compiled.answer(lambda: check(tree))


if __name__ == "__main__":
    sys.exit(main())
