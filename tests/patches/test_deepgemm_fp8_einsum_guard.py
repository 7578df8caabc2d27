"""deepgemm-fp8-einsum-guard: DeepGEMM's einsum where it is supported, ours elsewhere, at every place it stood."""

from __future__ import annotations

from typing import Any

import pytest

from patchkit.stack.rewrite import RewriteError
from tests.patches.shapes import choose, fake_modules, patched, run_module

SLUG = "deepgemm-fp8-einsum-guard"
FALLBACK = "vllm/utils/deep_gemm_fallback.py"
O_PROJ = "vllm/models/deepseek_v4/nvidia/ops/o_proj.py"
MEGA = "vllm/models/deepseek_v41/nvidia/flash_mla_mega_attn.py"
LAYER = "vllm/model_executor/layers/deepseek_v4_attention.py"
MODEL = "vllm/models/deepseek_v4/attention.py"

PROJECTION = """\
from vllm.utils.deep_gemm import fp8_einsum


def deep_gemm_fp8_o_proj(o, wo_a, recipe):
    fp8_einsum(
        "bhr,hdr->bhd",
        o,
        wo_a,
        recipe=recipe,
    )
"""
OPERATOR = """\
from vllm.utils.deep_gemm import fp8_einsum


def deepseek_v4_fp8_einsum(a, b, recipe):
    fp8_einsum("bhr,hdr->bhd", a, b, recipe=tuple(recipe))
"""
SUPPORT = """\
from vllm.utils.deep_gemm import fp8_einsum


def is_flashmla_mega_attn_supported():
    if not built:
        return False, "not built"
    return True, None
"""
PLACES = pytest.mark.parametrize(
    ("files", "vllm", "rewrite"),
    [
        ({LAYER: OPERATOR}, "0.20.0", "layer.yaml"),
        ({MODEL: OPERATOR}, "0.22.0", "model.yaml"),
        ({O_PROJ: PROJECTION}, "0.26.0", "o-proj.yaml"),
        ({O_PROJ: PROJECTION, MEGA: SUPPORT}, "0.33.0", "mega-attention.yaml"),
    ],
    ids=["0.20", "0.22", "0.26", "0.33"],
)


def load(monkeypatch: pytest.MonkeyPatch, source: bytes, supported: bool, **names: Any) -> tuple[Any, list[Any]]:
    calls: list[Any] = []
    wrapper = {
        "is_deep_gemm_supported": lambda: supported,
        "fp8_einsum": lambda *given, **more: calls.append(("deepgemm", given, more)),
    }
    ours = {"fp8_einsum_dequantised": lambda *given, **more: calls.append(("torch", given, more))}
    modules = {"vllm": {}, "vllm.utils": {}, "vllm.utils.deep_gemm": wrapper, "vllm.utils.deep_gemm_fallback": ours}
    fake_modules(monkeypatch, modules)
    return run_module(source, **names), calls


@PLACES
def test_the_same_operands_go_to_the_one_that_can_take_them(
    monkeypatch: pytest.MonkeyPatch, files: dict[str, str], vllm: str, rewrite: str
) -> None:
    assert choose(SLUG, files, vllm) == rewrite
    after = patched(SLUG, files, vllm).contents
    assert after[FALLBACK].startswith(b'"""What DeepGEMM')
    path, name = next(
        (path, "deep_gemm_fp8_o_proj" if path == O_PROJ else "deepseek_v4_fp8_einsum") for path in files if path != MEGA
    )
    operands = ("bhr,hdr->bhd", "a", "b")
    for supported, who in ((True, "deepgemm"), (False, "torch")):
        module, calls = load(monkeypatch, after[path], supported)
        getattr(module, name)("a", "b", (1, 1, 128))
        assert calls == [(who, operands, {"recipe": (1, 1, 128)})]


@pytest.mark.parametrize(("built", "supported"), [(True, True), (True, False), (False, True)])
def test_the_mega_attention_is_available_only_with_deep_gemm(
    monkeypatch: pytest.MonkeyPatch, built: bool, supported: bool
) -> None:
    after = patched(SLUG, {O_PROJ: PROJECTION, MEGA: SUPPORT}, "0.33.0").contents[MEGA]
    module, _ = load(monkeypatch, after, supported, built=built)
    available, reason = module.is_flashmla_mega_attn_supported()
    assert available is (built and supported)
    assert (reason is None) is available


@PLACES
def test_a_tree_with_the_guard_has_it_already(files: dict[str, str], vllm: str, rewrite: str) -> None:
    after = {path: text.decode() for path, text in patched(SLUG, files, vllm).contents.items()}
    assert patched(SLUG, {**files, **after}, vllm).done


def test_a_call_that_has_moved_is_a_conflict_and_not_silence() -> None:
    with pytest.raises(RewriteError, match="deep_gemm_fp8_o_proj"):
        patched(SLUG, {O_PROJ: "def other():\n    pass\n"}, "0.34.0")


def test_a_tree_from_before_the_model_is_not_applicable() -> None:
    assert choose(SLUG, {"vllm/utils/deep_gemm.py": ""}, "0.19.0") is None
