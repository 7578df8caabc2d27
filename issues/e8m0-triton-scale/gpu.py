"""Runs the check of `stubbed.py` on the GPU at hand: the tree's own Triton kernel is compiled and launched.

The platform is the tree's own on the real device. vLLM's compiled extensions are not needed by this kernel and are left
out; the two questions that imports ask of them are answered as the extension answers them.
Exit code: 0 good, 1 bad, 125 cannot tell, which is also what it says without a CUDA device.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import stubbed
from faked_gpu import EXTENSIONS, module

LEAST = {"cutlass_scaled_mm_supports_fp8": 89, "cutlass_scaled_mm_supports_block_fp8": 90}


class Watched:
    """The tree's Triton kernel, launched as it is; the scales that it is handed are kept."""

    def __init__(self, kernel: Any, arrived: list[Any], grid: Any = None) -> None:
        self.kernel, self.arrived, self.grid = kernel, arrived, grid

    def __getitem__(self, grid: Any) -> Watched:
        return Watched(self.kernel, self.arrived, grid)

    def __call__(self, *given: Any, **named: Any) -> None:
        self.arrived.append(given[4])
        self.kernel[self.grid](*given, **named)


def name_distribution() -> None:
    """Imports of the tree ask which vLLM is installed; a tree alone is not, so it gets a record."""
    folder = Path(tempfile.mkdtemp(prefix="vllm-record-"))
    version = os.environ.get("PATCHKIT_VERSION") or "0.0.0"
    record = folder / f"vllm-{version}.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
    sys.path.append(str(folder))


def real_device(_: tuple[int, int], **__: str) -> None:
    """The tree's own CUDA platform on the device at hand."""
    for extension in EXTENSIONS:
        module(f"vllm.{extension}")
    from vllm import platforms
    from vllm.platforms import cuda

    platforms._current_platform = platform = cuda.CudaPlatform()
    print(f"{platform.get_device_name()}, capability {platform.get_device_capability()}")


def watch_kernel(arrived: list[Any]) -> None:
    """Leave the kernel as it is, and see what it is handed."""
    import torch

    library = torch.library.Library("_C", "FRAGMENT")
    for question, least in LEAST.items():
        library.define(f"{question}(int cuda_device_capability) -> bool")
        library.impl(question, lambda capability, least=least: capability >= least, "CompositeExplicitAutograd")
    watch_kernel.keep = library  # type: ignore[attr-defined]  # unloaded with its last reference
    utils = importlib.import_module(stubbed.UTILS)
    kernel = utils._w8a8_triton_block_scaled_mm
    if not hasattr(kernel, "__getitem__"):
        raise TypeError("the tree found no Triton that works here")
    utils._w8a8_triton_block_scaled_mm = Watched(kernel, arrived)


def main() -> int:
    try:
        import torch
    except ImportError:
        print("cannot tell: there is no torch here")
        return 125
    if not torch.cuda.is_available():
        print("cannot tell: there is no CUDA device here")
        return 125
    torch.set_default_device("cuda")
    name_distribution()
    stubbed.fake_device, stubbed.stub_compiled_op = real_device, watch_kernel
    return stubbed.main()


if __name__ == "__main__":
    sys.exit(main())
