"""What the repros of this issue share: a faked device, a linear layer with E8M0 block scales, an empty compile cache.

The trap: inductor keeps one folder of compiled graphs a user, and a graph in it is not compiled again. After one run
that passes, an unpatched tree passes as well. So a cache folder that holds anything is refused.
"""

from __future__ import annotations

import atexit
import importlib
import importlib.machinery
import os
import re
import shutil
import sys
import tempfile
import traceback
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

KERNELS = "vllm.model_executor.kernels.linear"
SCALED_MM = f"{KERNELS}.scaled_mm"
# Compiled extensions that the imports want to see, in one release or another; empty ones do.
EXTENSIONS = (
    "_C",
    "_C_stable_libtorch",
    "_moe_C",
    "_moe_C_stable_libtorch",
    "vllm_flash_attn._vllm_fa2_C",
    "vllm_flash_attn._vllm_fa3_C",
)
BLOCK = 128
NOT_REMOVED = re.compile(r"auto_functionalized(_v2)? was not removed")
# Of the terms summed: the result is rounded to bfloat16 (2**-9), and a wrong scale is off by a factor of two at least.
TOLERANCE = 5e-3


class Bad(Exception):
    """The tree ran and did the wrong thing."""


class CannotTell(Exception):
    """The question does not arise here, or something else is in the way."""


class Absent(Exception):
    """The tree has no such code, or no code that goes that way on this device."""


def capability_at_hand() -> tuple[int, int]:
    found = re.fullmatch(r"sm_?(\d+)(\d)[a-z]?", os.environ.get("PATCHKIT_ARCH", ""))
    return (int(found[1]), int(found[2])) if found else (12, 1)


def empty_cache() -> None:
    """Make sure that whatever is compiled here is compiled now."""
    given = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    if given is None:
        made = tempfile.mkdtemp(prefix="inductor-")
        atexit.register(shutil.rmtree, made, ignore_errors=True)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = made
    elif any(files for _, _, files in os.walk(given)):
        raise CannotTell(f"{given} holds compiled graphs already: a pass would prove nothing")


def fake_device(capability: tuple[int, int]) -> None:
    """The tree's CUDA platform class, told its capability; custom ops are registered for the CPU."""
    for extension in EXTENSIONS:
        name = f"vllm.{extension}"
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__spec__ = importlib.machinery.ModuleSpec(name, loader=None)
    from vllm import platforms
    from vllm.platforms import cuda
    from vllm.platforms.interface import DeviceCapability

    class FakedCudaPlatform(cuda.CudaPlatformBase):
        dispatch_key = "CPU"

        @classmethod
        def get_device_capability(cls, device_id: int = 0) -> Any:  # noqa: ARG003 — vLLM's signature
            return DeviceCapability(*capability)

    platforms._current_platform = FakedCudaPlatform()


def keep(library: Any) -> None:
    """Hold a torch library to the end: it is unloaded with its last reference."""
    atexit.register(id, library)


def answer_support_questions() -> Any:
    """What the tree's compiled code says of FP8: block scales from capability 9.0 on (scaled_mm_entry.cu)."""
    import torch

    library = torch.library.Library("_C", "FRAGMENT")
    keep(library)
    for question, least in (("cutlass_scaled_mm_supports_fp8", 89), ("cutlass_scaled_mm_supports_block_fp8", 90)):
        library.define(f"{question}(int cuda_device_capability) -> bool")
        library.impl(question, lambda capability, least=least: capability >= least, "CompositeExplicitAutograd")
    return library


def spread(scale: Any, rows: int, columns: int) -> Any:
    """A block scale, or a token's group scales, in float64 at the size of what it scales."""
    scale = scale.float().double()  # E8M0 converts to float32 only; both steps are exact
    if scale.shape[0] != rows:
        scale = scale.repeat_interleave(BLOCK, dim=0)[:rows]
    return scale.repeat_interleave(BLOCK, dim=1)[:, :columns]


def layer_with_e8m0(rows: int, columns: int) -> Any:
    """A block-FP8 linear layer as the loader leaves it for a UE8M0 checkpoint."""
    import torch

    layer = torch.nn.Module()
    generator = torch.Generator(torch.get_default_device()).manual_seed(1)
    weight = torch.randn(rows, columns, generator=generator).to(torch.float8_e4m3fn)
    exponents = torch.randint(110, 130, (rows // BLOCK, columns // BLOCK), generator=generator, dtype=torch.uint8)
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    layer.weight_scale_inv = torch.nn.Parameter(exponents.view(torch.float8_e8m0fnu), requires_grad=False)
    layer.weight_block_size, layer.logical_widths = [BLOCK, BLOCK], [rows]
    layer.orig_dtype = torch.bfloat16
    layer.input_scale = layer.input_scale_ub = None
    return layer


def config_of(rows: int, columns: int) -> Any:
    import torch

    quant = importlib.import_module("vllm.model_executor.layers.quantization.utils.quant_utils")
    return importlib.import_module(f"{SCALED_MM}.ScaledMMLinearKernel").FP8ScaledMMLinearLayerConfig(
        weight_quant_key=quant.kFp8Static128BlockSym,
        activation_quant_key=quant.kFp8Dynamic128Sym,
        weight_shape=(rows, columns),
        input_dtype=torch.bfloat16,
        out_dtype=torch.bfloat16,
    )


def kernel_of(cls: Any, config: Any) -> Any:
    """A kernel object of the tree. Its constructor wants a running engine, the code tried here the configuration."""
    made = cls.__new__(cls)
    made.config = config
    made.weight_group_shape = config.weight_quant_key.scale.group_shape
    made.is_hopper = capability_at_hand() == (9, 0)
    return made


def compare(what: str, found: Any, wanted: Any, terms: Any) -> None:
    """Whether a product agrees with float64, relative to the sum of its terms' sizes."""
    error = ((found.double() - wanted).abs() / terms.clamp_min(1e-300)).nan_to_num(nan=float("inf")).max().item()
    if not error <= TOLERANCE:
        raise Bad(f"{what}: values are wrong, off by {error:.1e} of the terms, allowed {TOLERANCE:.0e}")
    print(f"{what}: values within {error:.1e} of float64, allowed {TOLERANCE:.0e}")


def answer(check: Callable[[], str]) -> int:
    """Run a check and say what came of it."""
    try:
        empty_cache()
        said = check()
    except Absent as reason:
        print(f"patchkit: absent: {reason}")
        return 0
    except Bad as problem:
        print(f"bad: {problem}")
        return 1
    except CannotTell as reason:
        print(f"cannot tell: {reason}")
        return 125
    except Exception as error:
        traceback.print_exc(file=sys.stdout)
        found = NOT_REMOVED.search(str(error))
        print(f"bad: torch.compile fails: {found[0]}" if found else f"cannot tell: {type(error).__name__}: {error}")
        return 1 if found else 125
    print(f"good: {said}")
    return 0


def tree_at_hand() -> Path | None:
    """The tree under test, importable; None where there is none."""
    tree = Path(os.environ.get("PATCHKIT_TREE") or Path.cwd()).resolve()
    if not (tree / "vllm" / "__init__.py").is_file():
        print(f"cannot tell: {tree} holds no vllm package")
        return None
    sys.path.insert(0, str(tree))
    return tree


def defines(tree: Path, path: str, text: str) -> bool:
    """Whether a file of the tree has this text."""
    try:
        return text in (tree / path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
