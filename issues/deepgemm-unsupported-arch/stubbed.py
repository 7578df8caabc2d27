"""Runs the tree's own `mhc_pre_broadcast_tilelang` on faked GPUs, with only the DeepGEMM and TileLang kernels stubbed.

A guard can be in the right place and still be wrong: buffers sized for several splits of which the fallback fills one,
a TileLang kernel told the wrong row length, or DeepGEMM lost where it works. So the function runs on three faked
devices and what it feeds the next kernel is compared with a float64 reference:

- the arch at hand (`PATCHKIT_ARCH`, else sm_121) with VLLM_USE_DEEP_GEMM=0, the setting users are told to try;
- sm_80 with the default settings, an arch on which every tree says that DeepGEMM is not supported;
- sm_90 with the default settings, where DeepGEMM must still be taken.

The capability is faked on the tree's real CUDA platform class, so the tree's own `is_deep_gemm_supported()` decides.
Each device is a process of its own: vLLM caches such answers. Exit code: 0 good, 1 bad, 125 cannot tell.
"""

from __future__ import annotations

import importlib.machinery
import inspect
import os
import subprocess
import sys
import traceback
import types
from pathlib import Path
from typing import Any

from faked_gpu import Bad, capability_at_hand, fake_device, module

FUNCTION = "mhc_pre_broadcast_tilelang"
MODULE = "vllm.model_executor.kernels.mhc.tilelang"
HIDDEN, STREAMS = 4096, 4  # DeepSeek-V4-Flash: hidden_size, hc_mult
TOKENS = (1, 17, 130, 1100)  # each side of the kernels' thresholds at 128 and 1024
# Relative to sum |x||w|: 100 times the rounding of float32 sums of this length, and less than a weight cut to bfloat16.
TOLERANCE = 5e-6
PROCESSORS = 132  # of an H100; only decides into how many parts the GEMM is split
DEEP_GEMM_MAJORS = (9, 10)  # hyperconnection.hpp of the pins without SM12x kernels, 891d57b for one
UNSUPPORTED = "Assertion error (/deepgemm-src/csrc/apis/hyperconnection.hpp:56): Unsupported architecture"
CANNOT_TELL = (ImportError, AttributeError, TypeError)  # an interface that drifted says nothing about the guard


class Record:
    """What the stubbed kernels saw."""

    def __init__(self) -> None:
        self.deep_gemm_calls = 0
        self.fed: dict[str, Any] = {}


def prenorm_gemm(x: Any, weight: Any, out: Any, sqrsum: Any, splits: int) -> None:
    """The projection in float32, in as many partial sums along k as the kernel was asked for."""
    for part, (xs, ws) in enumerate(zip(x.float().chunk(splits, dim=1), weight.chunk(splits, dim=1), strict=False)):
        out[part].copy_(xs @ ws.t())
        sqrsum[part].copy_(xs.square().sum(dim=-1))


def stub_deep_gemm(capability: tuple[int, int], record: Record) -> None:
    def tf32_hc_prenorm_gemm(a: Any, b: Any, d: Any, sqr_sum: Any, num_splits: int) -> None:
        record.deep_gemm_calls += 1
        if not (d.shape[0] == sqr_sum.shape[0] == num_splits and d.shape[1] == a.shape[0] and a.shape[1] == b.shape[1]):
            raise RuntimeError("Assertion error (/deepgemm-src/csrc/apis/hyperconnection.hpp:32): shapes disagree")
        if capability[0] not in DEEP_GEMM_MAJORS:
            raise RuntimeError(UNSUPPORTED)
        prenorm_gemm(a, b, d, sqr_sum, num_splits)

    module("deep_gemm", tf32_hc_prenorm_gemm=tf32_hc_prenorm_gemm, __version__="0")


def launch(kernel: Any, record: Record, *args: Any, **keywords: Any) -> None:
    """Stands for a compiled TileLang kernel: the two GEMMs compute, the epilogue notes what it was fed."""
    bound = inspect.signature(kernel).bind(*args, **keywords)
    bound.apply_defaults()
    given = bound.arguments
    if kernel.__name__.startswith("hc_prenorm_gemm"):
        width, splits = given["hc_mult"] * given["hidden_size"], given.get("n_splits", 1)
        if given["x"].shape[1] != width or given["fn"].shape[1] != width:
            raise Bad(f"fallback is wrong: {kernel.__name__} reads rows of {width}, got {tuple(given['x'].shape)}")
        if width // splits % given["n_thr"]:
            raise Bad(f"fallback is wrong: {kernel.__name__} drops columns, {width} is no multiple of its block")
        prenorm_gemm(given["x"], given["fn"], given["out"], given["sqrsum"], splits)
    elif kernel.__name__.startswith("mhc_pre_big_fuse"):
        record.fed = dict(given)


def stub_tilelang(record: Record) -> None:
    def jit(function: Any = None, **_: Any) -> Any:
        if function is None:
            return jit
        return lambda *args, **keywords: launch(function, record, *args, **keywords)

    class Anything:
        def __getattr__(self, name: str) -> str:
            return name

    language = module("tilelang.language", Tensor=Anything())
    module("tilelang", jit=jit, PassConfigKey=Anything(), JITKernel=object, language=language, __path__=[])


def count_processors(capability: tuple[int, int]) -> None:
    """What the code asks the driver for."""
    import torch

    properties = types.SimpleNamespace(multi_processor_count=PROCESSORS, major=capability[0], minor=capability[1])
    torch.cuda.get_device_properties = lambda *_: properties


def inputs(tokens: int) -> dict[str, Any]:
    import torch

    maker = torch.Generator().manual_seed(tokens)
    mixes = STREAMS * (STREAMS + 2)
    weight = torch.randn(mixes, STREAMS * HIDDEN, generator=maker) / 64
    return {
        "residual": torch.randn(tokens, HIDDEN, generator=maker).bfloat16(),
        "fn": weight,
        "hc_scale": torch.ones(3),
        "hc_base": torch.zeros(mixes),
        "rms_eps": 1e-6,
        "hc_pre_eps": 1e-6,
        "hc_sinkhorn_eps": 1e-6,
        "hc_post_mult_value": 2.0,
        "sinkhorn_repeat": 20,
        "norm_weight": torch.ones(HIDDEN).bfloat16(),
        "fn_broadcast": weight.view(mixes, STREAMS, HIDDEN).sum(dim=1),
    }


def compare(given: dict[str, Any], fed: dict[str, Any]) -> float:
    """The largest error of what the epilogue was fed, relative to the size of the terms summed."""
    if not fed:
        raise Bad("fallback is wrong: the epilogue kernel was never launched")
    mul, sqrsum = fed["gemm_out_mul"], fed["gemm_out_sqrsum"]
    if not fed["n_splits"] == mul.shape[0] == sqrsum.shape[0]:
        raise Bad(f"fallback is wrong: {fed['n_splits']} splits announced, {mul.shape[0]} handed over")
    x, weight = given["residual"].double(), given["fn_broadcast"].double()
    worst = 0.0
    for name, found, wanted, size in (
        ("x @ fn.T", mul, x @ weight.t(), x.abs() @ weight.abs().t()),
        ("sum of squares", sqrsum, x.square().sum(-1), x.square().sum(-1)),
    ):
        if found.shape[1:] != wanted.shape:
            raise Bad(f"fallback is wrong: {name} has shape {tuple(found.shape)}")
        error = ((found.double().sum(0) - wanted).abs() / size).max().item()
        if not error <= TOLERANCE:
            raise Bad(f"fallback is wrong: {name} is off by {error:.1e} of its terms, allowed {TOLERANCE:.0e}")
        worst = max(worst, error)
    return worst


def check(name: str, capability: tuple[int, int], must_take: bool) -> None:
    """One faked device in this process."""
    import torch

    record = Record()
    count_processors(capability)
    platform = fake_device(capability)
    stub_deep_gemm(capability, record)
    stub_tilelang(record)
    torch.use_deterministic_algorithms(True)  # makes torch.empty hold NaN: an unfilled split shows
    function = getattr(importlib.import_module(MODULE), FUNCTION)
    if name == "here" and platform.support_deep_gemm():
        print(f"note: by default this tree takes DeepGEMM to support {capability}; whether it does is its pin's matter")
    worst = 0.0
    for tokens in TOKENS:
        record.fed, before, given = {}, record.deep_gemm_calls, inputs(tokens)
        function(**given)
        called = record.deep_gemm_calls - before
        if called and not must_take:
            raise Bad("call is not guarded: DeepGEMM was called, its Unsupported architecture error caught")
        if must_take and not called:
            raise Bad(f"DeepGEMM is not taken with {tokens} tokens on an arch it supports")
        worst = max(worst, compare(given, record.fed))
    path = "DeepGEMM" if must_take else "fallback"
    print(f"{path} on {capability}: largest error {worst:.1e} for {TOKENS} tokens, allowed {TOLERANCE:.0e}")


def child(name: str, capability: tuple[int, int], must_take: bool) -> int:
    where = f"sm_{capability[0]}{capability[1]}"
    try:
        check(name, capability, must_take)
    except Bad as problem:
        print(f"{where}: bad: {problem}")
        return 1
    except Exception as error:
        traceback.print_exc(file=sys.stdout)
        inside = any(frame.name == FUNCTION for frame in traceback.extract_tb(error.__traceback__))
        if isinstance(error, CANNOT_TELL) or not inside:
            print(f"{where}: cannot tell: {type(error).__name__}: {error}")
            return 125
        known = "call is not guarded" if "Unsupported architecture" in str(error) else "fallback fails"
        print(f"{where}: bad: {known}: {type(error).__name__}: {error}")
        return 1
    return 0


def present(tree: Path) -> bool:
    try:  # to open what is not there is a look at the tree, which `absent` needs
        return f"def {FUNCTION}(" in (tree / (MODULE.replace(".", "/") + ".py")).read_text(encoding="utf-8")
    except FileNotFoundError:
        return False


def parent(tree: Path) -> int:
    here = capability_at_hand()
    here = (12, 1) if here[0] in DEEP_GEMM_MAJORS else here
    devices = (("here", here, False, "0"), ("pre-hopper", (8, 0), False, None), ("hopper", (9, 0), True, None))
    for name, capability, must_take, switch in devices:
        env = {key: value for key, value in os.environ.items() if key != "VLLM_USE_DEEP_GEMM"}
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(tree), env.get("PYTHONPATH", "")]))
        env.update({"VLLM_USE_DEEP_GEMM": switch} if switch else {})
        arguments = [name, str(capability[0]), str(capability[1]), str(int(must_take))]
        sys.stdout.flush()
        code = subprocess.run(
            [sys.executable, __file__, *arguments], env=env, stderr=subprocess.STDOUT, check=False
        ).returncode
        if code:
            return code if code == 1 else 125
    return 0


def main(arguments: list[str]) -> int:
    if arguments:
        name, major, minor, must_take = arguments
        return child(name, (int(major), int(minor)), must_take == "1")
    tree = Path(os.environ.get("PATCHKIT_TREE") or Path.cwd()).resolve()
    if not (tree / "vllm" / "__init__.py").is_file():
        print(f"cannot tell: {tree} holds no vllm package")
        return 125
    if not present(tree):
        print("patchkit: absent")
        return 0
    return parent(tree)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
