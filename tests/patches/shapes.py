"""Small trees with the shapes that the shipped patches look for, in our own words, and a way to run what comes out."""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from patchkit.recipe.condition import parse_condition
from patchkit.recipe.load import load_patch
from patchkit.recipe.model import ChangeRewrite
from patchkit.stack.rewrite import RewriteResult, rewrite_files

PATCHES = Path(__file__).parents[2] / "patches"
MHC = "vllm/model_executor/kernels/mhc/tilelang.py"
CUTLASS = "vllm/model_executor/kernels/linear/scaled_mm/cutlass.py"

BEFORE_THE_FUNCTION = """\
def mhc_pre_tilelang(residual):
    return residual
"""

CALL_SITE = '''\
def _torch_hc_prenorm_gemm(x, fn, out, sqrsum):
    calls.append(("torch", x, fn, out, sqrsum))


def mhc_pre_tilelang(residual, fn):
    from vllm.utils.deep_gemm import is_deep_gemm_supported, tf32_hc_prenorm_gemm

    use_deep_gemm = is_deep_gemm_supported()
    n_splits = compute_num_split(64, 1, 1) if use_deep_gemm else 1
    if use_deep_gemm:
        tf32_hc_prenorm_gemm(residual, fn, "mul", "sqrsum", n_splits)


def mhc_pre_broadcast_tilelang(residual, fn_broadcast):
    """The first layer."""
    from vllm.utils.deep_gemm import tf32_hc_prenorm_gemm

    n_splits = compute_num_split(64, 4096, 1)
    mul, sqrsum = ("mul", n_splits), ("sqrsum", n_splits)
    tf32_hc_prenorm_gemm(
        residual,
        fn_broadcast,
        mul,
        sqrsum,
        n_splits,
    )
    return n_splits
'''

SHARED_HELPER = """\
def _hc_prenorm_gemm_outputs(x, fn, *, use_tilelang_fallback=True):
    from vllm.utils.deep_gemm import is_deep_gemm_supported, tf32_hc_prenorm_gemm

    use_deep_gemm = is_deep_gemm_supported() or not use_tilelang_fallback
    n_splits = compute_num_split(64, 1, 1) if use_deep_gemm else 1
    out, sqrsum = [None] * n_splits, [None] * n_splits
    if use_deep_gemm:
        tf32_hc_prenorm_gemm(x, fn, out, sqrsum, n_splits)
    else:
        calls.append(("tilelang", x, fn, out, sqrsum))
    return out, sqrsum


def mhc_pre_tilelang(residual, fn):
    return _hc_prenorm_gemm_outputs(residual, fn)


def mhc_pre_broadcast_tilelang(residual, fn_broadcast):
    return _hc_prenorm_gemm_outputs(residual, fn_broadcast, use_tilelang_fallback=False)
"""

KERNELS = '''\
"""Kernels."""

import torch

from vllm.model_executor.layers.quantization.utils import replace_parameter

from .block import Base


class CutlassFp8BlockScaledMMKernel(Base):
    def apply(self, A, Bs):
        return torch.mm(A, Bs)


class DeepGemmKernel(Base):
    def process_weights_after_loading(self, layer):
        pass


def other():
    return replace_parameter
'''


@dataclass(frozen=True)
class TreeFacts:
    """What a condition may ask of a tree in memory."""

    files: Mapping[str, str]
    vllm: str

    def version(self, name: str) -> str | None:
        return self.vllm if name == "vllm" else None

    def arch(self) -> str | None:
        return None

    def pin(self, name: str) -> str | None:
        return None

    def contains(self, commit: str) -> bool | None:
        return None

    def has(self, path: str, symbol: str | None) -> bool:
        text = self.files.get(path, "")
        return path in self.files and (symbol is None or f"def {symbol}(" in text or f"class {symbol}(" in text)


def choose(slug: str, files: Mapping[str, str], vllm: str) -> str | None:
    """Return the rewrite that a patch chooses for a tree, None where it is not applicable."""
    loaded, facts = load_patch(PATCHES / slug), TreeFacts(files, vllm)
    if loaded.patch.when is not None and not parse_condition(loaded.patch.when).decide(facts).holds:
        return None
    for change in loaded.patch.change:
        assert isinstance(change, ChangeRewrite)
        if change.when is None or parse_condition(change.when).decide(facts).holds:
            return change.rewrite
    return None


def patched(slug: str, files: Mapping[str, str], vllm: str) -> RewriteResult:
    """Apply a shipped patch to a tree."""
    chosen = choose(slug, files, vllm)
    assert chosen is not None
    loaded = load_patch(PATCHES / slug)
    return rewrite_files(
        lambda path: files[path].encode() if path in files else None, loaded.rewrites[chosen], loaded.folder
    )


def fake_modules(monkeypatch: pytest.MonkeyPatch, modules: Mapping[str, Mapping[str, Any]]) -> None:
    """Put modules in the place of vLLM's and torch for one test."""
    for name, names in modules.items():
        module = ModuleType(name)
        vars(module).update(names)
        module.__path__ = []
        monkeypatch.setitem(sys.modules, name, module)


def run_module(source: bytes, package: str = "", **names: Any) -> types.SimpleNamespace:
    """Execute the source of a module and return its names."""
    space: dict[str, Any] = {"__name__": "probed", "__package__": package, **names}
    exec(compile(source, "probed.py", "exec"), space)
    return types.SimpleNamespace(**space)


class Rows:
    """A matrix of floats that knows the few operations of the torch fallback."""

    def __init__(self, rows: list[list[float]]) -> None:
        self.rows = rows

    def float(self) -> Rows:
        return self

    def t(self) -> Rows:
        return Rows([list(column) for column in zip(*self.rows, strict=True)])

    def __matmul__(self, other: Rows) -> list[list[float]]:
        return [
            [sum(a * b for a, b in zip(row, column, strict=True)) for column in other.t().rows] for row in self.rows
        ]

    def square(self) -> Rows:
        return Rows([[value * value for value in row] for row in self.rows])

    def sum(self, dim: int) -> list[float]:
        assert dim == -1
        return [sum(row) for row in self.rows]
