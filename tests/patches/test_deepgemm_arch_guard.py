"""deepgemm-arch-guard: DeepGEMM is called where it is supported and nowhere else; the fallback computes the same."""

from __future__ import annotations

from typing import Any

import pytest

from patchkit.stack.rewrite import RewriteError
from tests.patches.shapes import (
    BEFORE_THE_FUNCTION,
    CALL_SITE,
    MHC,
    SHARED_HELPER,
    Rows,
    choose,
    fake_modules,
    patched,
    run_module,
)

SLUG = "deepgemm-arch-guard"
SHAPES = pytest.mark.parametrize(("source", "vllm"), [(CALL_SITE, "0.26.0"), (SHARED_HELPER, "0.30.0")])


def load(monkeypatch: pytest.MonkeyPatch, source: bytes, supported: bool) -> tuple[Any, list[tuple[Any, ...]]]:
    calls: list[tuple[Any, ...]] = []
    names = {
        "is_deep_gemm_supported": lambda: supported,
        "tf32_hc_prenorm_gemm": lambda *given: calls.append(("deepgemm", *given)),
    }
    fake_modules(monkeypatch, {"vllm": {}, "vllm.utils": {}, "vllm.utils.deep_gemm": names})
    return run_module(source, calls=calls, compute_num_split=lambda *_: 4), calls


@SHAPES
def test_deepgemm_is_not_called_where_it_is_not_supported(
    monkeypatch: pytest.MonkeyPatch, source: str, vllm: str
) -> None:
    after = patched(SLUG, {MHC: source}, vllm).contents[MHC]
    module, calls = load(monkeypatch, after, supported=False)
    module.mhc_pre_broadcast_tilelang(Rows([[1.0, 2.0]]), Rows([[3.0, 4.0]]))
    assert "deepgemm" not in [call[0] for call in calls]


@SHAPES
def test_deepgemm_is_called_as_before_where_it_is_supported(
    monkeypatch: pytest.MonkeyPatch, source: str, vllm: str
) -> None:
    answers = []
    for text in (source.encode(), patched(SLUG, {MHC: source}, vllm).contents[MHC]):
        module, calls = load(monkeypatch, text, supported=True)
        answers.append((module.mhc_pre_broadcast_tilelang("x", "fn"), calls))
    assert answers[0] == answers[1]
    assert answers[0][1][0][0] == "deepgemm"


@SHAPES
def test_the_unpatched_shape_calls_deepgemm_whatever_is_supported(
    monkeypatch: pytest.MonkeyPatch, source: str, vllm: str
) -> None:
    module, calls = load(monkeypatch, source.encode(), supported=False)
    module.mhc_pre_broadcast_tilelang("x", "fn")
    assert [call[0] for call in calls] == ["deepgemm"]


def test_the_call_site_falls_back_with_buffers_of_one_split(monkeypatch: pytest.MonkeyPatch) -> None:
    after = patched(SLUG, {MHC: CALL_SITE}, "0.26.0").contents[MHC]
    module, calls = load(monkeypatch, after, supported=False)
    assert module.mhc_pre_broadcast_tilelang("x", "fn") == 1
    assert calls == [("torch", "x", "fn", ("mul", 1), ("sqrsum", 1))]


def test_the_shared_helper_falls_back_to_the_product_and_the_sums_of_squares(monkeypatch: pytest.MonkeyPatch) -> None:
    after = patched(SLUG, {MHC: SHARED_HELPER}, "0.33.0").contents[MHC]
    module, calls = load(monkeypatch, after, supported=False)
    x, fn = Rows([[1.0, 2.0], [3.0, 4.0]]), Rows([[5.0, 6.0]])
    assert module.mhc_pre_broadcast_tilelang(x, fn) == ([[[17.0], [39.0]]], [[5.0, 25.0]])
    assert calls == []
    module.mhc_pre_tilelang("x", "fn")
    assert [call[0] for call in calls] == ["tilelang"]


OLDER_FORM = """\
def mhc_pre(residual, fn):
    from vllm.utils.deep_gemm import tf32_hc_prenorm_gemm

    mul, sqrsum = Buffer(2), Buffer(2)
    tf32_hc_prenorm_gemm(residual, fn, mul, sqrsum, 2)
    return mul, sqrsum
"""


class Buffer(list[Any]):
    """As many splits, not yet filled."""

    def __init__(self, splits: int) -> None:
        super().__init__(["whatever lay there"] * splits)

    def zero_(self) -> None:
        self[:] = [0] * len(self)


OTHER_BLOCK = OLDER_FORM.replace("def mhc_pre", "\n\ndef mhc_fused_post_pre")


@pytest.mark.parametrize("more", ["", OTHER_BLOCK], ids=["0.20", "0.21"])
def test_the_older_form_fills_the_first_split_and_clears_the_others(monkeypatch: pytest.MonkeyPatch, more: str) -> None:
    path = "vllm/model_executor/layers/mhc.py"
    after = patched(SLUG, {path: OLDER_FORM + more}, "0.20.0").contents[path]
    for supported in (False, True):
        calls: list[Any] = []
        names = {
            "is_deep_gemm_supported": lambda answer=supported: answer,
            "tf32_hc_prenorm_gemm": lambda *given, calls=calls: calls.append(given),
        }
        fake_modules(monkeypatch, {"vllm": {}, "vllm.utils": {}, "vllm.utils.deep_gemm": names})
        module = run_module(after, Buffer=Buffer)
        for name in ("mhc_pre", "mhc_fused_post_pre")[: 1 + bool(more)]:
            answer = getattr(module, name)(Rows([[1.0, 2.0]]), Rows([[3.0, 4.0]]))
            assert supported or answer == ([[[11.0]], 0], [[5.0], 0])
        assert len(calls) == supported * (1 + bool(more))


@SHAPES
def test_a_tree_with_the_guard_has_it_already(source: str, vllm: str) -> None:
    after = patched(SLUG, {MHC: source}, vllm).contents[MHC].decode()
    assert patched(SLUG, {MHC: after}, vllm).done


def test_a_tree_without_the_function_is_not_applicable() -> None:
    assert choose(SLUG, {MHC: BEFORE_THE_FUNCTION}, "0.25.1") is None


def test_a_commit_between_two_releases_is_judged_by_what_it_has() -> None:
    assert choose(SLUG, {MHC: CALL_SITE}, "0.25.2.dev10") == "call-site.yaml"
    assert choose(SLUG, {MHC: SHARED_HELPER}, "0.29.1.dev10") == "shared-helper.yaml"


def test_a_function_that_has_moved_is_a_conflict_and_not_silence() -> None:
    with pytest.raises(RewriteError, match="no definition named mhc_pre_broadcast_tilelang"):
        patched(SLUG, {MHC: BEFORE_THE_FUNCTION}, "0.34.0")
