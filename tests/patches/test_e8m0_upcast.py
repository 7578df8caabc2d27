"""e8m0-upcast: the CUTLASS kernel gets float32 scales, whatever the layer calls them; no other one is touched."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from patchkit.stack.rewrite import RewriteError
from tests.patches.shapes import BEFORE_THE_FUNCTION, CUTLASS, KERNELS, MHC, choose, fake_modules, patched, run_module

SLUG = "e8m0-upcast"


class Scale:
    """A tensor of which only the dtype counts."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.data = self

    def view(self, dtype: str) -> Scale:
        return Scale(dtype)

    def to(self, dtype: str) -> Scale:
        assert self.dtype == "e8m0", "exponents are converted, not the bytes they are held in"
        return Scale(dtype)

    def contiguous(self) -> Scale:
        return self


class Base:
    """The kernel above: notes that its own post-load work came first."""

    def process_weights_after_loading(self, layer: Any) -> None:
        layer.order.append("base")


def replace_parameter(layer: Any, name: str, new: Scale) -> None:
    layer.order.append(name)
    setattr(layer, name, new)


def load(monkeypatch: pytest.MonkeyPatch, source: bytes) -> Any:
    quantization = "vllm.model_executor.layers.quantization"
    torch = {"float8_e8m0fnu": "e8m0", "uint8": "uint8", "float32": "float32", "nn": SimpleNamespace(Module=object)}
    names: dict[str, dict[str, Any]] = {
        name: {} for name in ("vllm", "vllm.model_executor", "vllm.model_executor.layers", quantization, "here")
    }
    names |= {
        "torch": torch,
        f"{quantization}.utils": {"replace_parameter": None},
        "vllm.model_executor.utils": {"replace_parameter": replace_parameter},
        "here.block": {"Base": Base},
    }
    fake_modules(monkeypatch, names)
    return run_module(source, package="here")


def patched_kernel(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = load(monkeypatch, patched(SLUG, {CUTLASS: KERNELS}, "0.26.0").contents[CUTLASS])
    return module.CutlassFp8BlockScaledMMKernel()


@pytest.mark.parametrize("name", ["weight_scale_inv", "weight_scale"])
@pytest.mark.parametrize("dtype", ["e8m0", "uint8"])
def test_scales_are_upcast_once_after_the_kernels_own_work(
    monkeypatch: pytest.MonkeyPatch, name: str, dtype: str
) -> None:
    layer = SimpleNamespace(order=[], **{name: Scale(dtype)})
    kernel = patched_kernel(monkeypatch)
    kernel.process_weights_after_loading(layer)
    assert (getattr(layer, name).dtype, layer.order) == ("float32", ["base", name])
    kernel.process_weights_after_loading(layer)
    assert layer.order == ["base", name, "base"]


def test_scales_that_are_float32_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    scale = Scale("float32")
    layer = SimpleNamespace(order=[], weight_scale_inv=scale, weight_scale=None)
    patched_kernel(monkeypatch).process_weights_after_loading(layer)
    assert layer.weight_scale_inv is scale
    assert layer.order == ["base"]


def test_the_rest_of_the_file_is_untouched() -> None:
    after = patched(SLUG, {CUTLASS: KERNELS}, "0.26.0").contents[CUTLASS].decode()
    assert after.endswith(KERNELS[KERNELS.index("\n\nclass DeepGemmKernel") :])
    assert after.startswith(KERNELS[: KERNELS.index("\n\n\nclass Cutlass")])


def test_a_tree_with_the_upcast_has_it_already() -> None:
    after = patched(SLUG, {CUTLASS: KERNELS}, "0.26.0").contents[CUTLASS].decode()
    assert patched(SLUG, {CUTLASS: after}, "0.27.0").done


def test_a_method_of_upstreams_own_is_a_conflict() -> None:
    method = "    def process_weights_after_loading(self, layer):\n        layer.fixed = True\n\n"
    theirs = KERNELS.replace("    def apply(", method + "    def apply(")
    with pytest.raises(RewriteError, match="process_weights_after_loading is defined already, otherwise"):
        patched(SLUG, {CUTLASS: theirs}, "0.34.0")


def test_a_tree_without_the_kernel_is_not_applicable() -> None:
    assert choose(SLUG, {MHC: BEFORE_THE_FUNCTION}, "0.19.0") is None
