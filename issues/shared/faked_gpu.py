"""A GPU that is not there: the tree's own CUDA platform, told a capability, and empty compiled extensions."""

from __future__ import annotations

import importlib.machinery
import os
import re
import sys
import types
from typing import Any

# Compiled extensions that imports of vLLM want to see, in one release or another; empty ones do.
EXTENSIONS = (
    "_C",
    "_C_stable_libtorch",
    "_moe_C",
    "_moe_C_stable_libtorch",
    "vllm_flash_attn._vllm_fa2_C",
    "vllm_flash_attn._vllm_fa3_C",
)


class Bad(Exception):
    """The tree ran and did the wrong thing."""


def module(name: str, **members: Any) -> types.ModuleType:
    """Put a module in place."""
    made = types.ModuleType(name)
    made.__spec__ = importlib.machinery.ModuleSpec(name, loader=None)
    made.__dict__.update(members)
    sys.modules[name] = made
    return made


def capability_at_hand(default: tuple[int, int] = (12, 1)) -> tuple[int, int]:
    """The capability that `PATCHKIT_ARCH` names."""
    found = re.fullmatch(r"sm_?(\d+)(\d)[a-z]?", os.environ.get("PATCHKIT_ARCH", ""))
    return (int(found[1]), int(found[2])) if found else default


def fake_device(capability: tuple[int, int], **members: Any) -> Any:
    """The tree's CUDA platform class, told its capability; everything it concludes from it is its own.

    `members` are set on the class: `dispatch_key="CPU"` lets its operators run where the tensors are.
    """
    for extension in EXTENSIONS:
        module(f"vllm.{extension}")
    from vllm import platforms
    from vllm.platforms import cuda
    from vllm.platforms.interface import DeviceCapability

    class FakedCudaPlatform(cuda.CudaPlatformBase):
        @classmethod
        def get_device_capability(cls, device_id: int = 0) -> Any:  # noqa: ARG003 — vLLM's signature
            return DeviceCapability(*capability)

    for name, value in members.items():
        setattr(FakedCudaPlatform, name, value)
    platforms._current_platform = FakedCudaPlatform()
    return platforms._current_platform
