"""custom-op-functional: the einsum op makes its result, says that it writes to nothing, and is called accordingly."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from patchkit.stack.rewrite import RewriteError
from tests.patches.shapes import choose, patched, run_module

SLUG = "custom-op-functional"
LAYERS, MODELS = "vllm/model_executor/layers/deepseek_v4_attention.py", "vllm/models/deepseek_v4/attention.py"
SOURCE = '''\
import torch


class DeepseekV4MultiHeadLatentAttentionWrapper:
    def forward(self, o):
        q = torch.empty((1,), dtype=torch.bfloat16)
        b, b_scale = self.wo_a
        z = torch.empty(
            (len(q), self.n_local_groups, self.o_lora_rank),
            dtype=torch.bfloat16,
        )
        torch.ops.vllm.deepseek_v4_fp8_einsum(
            o,
            o,
            b,
            b_scale,
            z,
            "bhr,hdr->bhd",
            list(self.recipe),
        )

        return self.wo_b(z)


def deepseek_v4_fp8_einsum(a, a_scale, b, b_scale, out, equation: str, recipe: list[int]) -> None:
    """In place."""
    fp8_einsum(equation, (a, a_scale), (b, b_scale), out, recipe=tuple(recipe))


def deepseek_v4_fp8_einsum_fake(a, a_scale, b, b_scale, out, equation: str, recipe: list[int]) -> None:
    return None


direct_register_custom_op(
    op_name="deepseek_v4_fp8_einsum",
    op_func=deepseek_v4_fp8_einsum,
    mutates_args=["out"],
    fake_impl=deepseek_v4_fp8_einsum_fake,
)


def other(out) -> None:
    return None


direct_register_custom_op(op_name="other", op_func=other, mutates_args=["out"], fake_impl=other)
'''
PLACES = pytest.mark.parametrize(("path", "vllm"), [(LAYERS, "0.20.0"), (LAYERS, "0.21.0"), (MODELS, "0.22.1")])


class Tensor:
    """As much of a tensor as the op asks for."""

    def __init__(self, shape: tuple[int, ...], dtype: str = "fp8") -> None:
        self.shape, self.dtype, self.written = shape, dtype, ""

    def new_empty(self, shape: tuple[int, ...], dtype: str) -> Tensor:
        return Tensor(shape, dtype)


def run(source: str | bytes) -> tuple[SimpleNamespace, dict[str, dict[str, Any]], list[Any]]:
    """Execute the module with a registry and a kernel that writes into `out`; torch.ops finds what was registered."""
    registered: dict[str, dict[str, Any]] = {}
    calls: list[Any] = []

    def fp8_einsum(equation: str, a: Any, b: Any, out: Tensor, recipe: tuple[int, ...]) -> None:
        calls.append((equation, a, b, recipe))
        out.written = "by the kernel"

    def register(**given: Any) -> None:
        registered[given["op_name"]] = given

    def call(*given: Any) -> Any:
        return registered["deepseek_v4_fp8_einsum"]["op_func"](*given)

    torch = SimpleNamespace(
        Tensor=Tensor,
        bfloat16="bf16",
        empty=Tensor,
        ops=SimpleNamespace(vllm=SimpleNamespace(deepseek_v4_fp8_einsum=call)),
    )
    text = (source.encode() if isinstance(source, str) else source).replace(b"import torch\n", b"")
    space = run_module(text, torch=torch, fp8_einsum=fp8_einsum, direct_register_custom_op=register, len=lambda _: 1)
    return space, registered, calls


def result(space: SimpleNamespace) -> Tensor:
    made = SimpleNamespace(
        wo_a=("b", "b_scale"), n_local_groups=4, o_lora_rank=32, recipe=(1, 128, 128), wo_b=lambda z: z
    )
    found = space.DeepseekV4MultiHeadLatentAttentionWrapper.forward(made, Tensor((1, 4, 8)))
    assert isinstance(found, Tensor)
    return found


@PLACES
def test_the_call_gets_the_same_result_from_the_same_kernel(path: str, vllm: str) -> None:
    seen = []
    for source in (SOURCE, patched(SLUG, {path: SOURCE}, vllm).contents[path]):
        space, _, calls = run(source)
        found = result(space)
        seen.append((found.shape, found.dtype, found.written, calls[0][0], calls[0][2:]))
    assert seen[0] == seen[1]
    assert seen[0] == ((1, 4, 32), "bf16", "by the kernel", "bhr,hdr->bhd", (("b", "b_scale"), (1, 128, 128)))


@PLACES
def test_the_op_declares_no_write_and_its_fake_has_the_shape_of_the_result(path: str, vllm: str) -> None:
    _, registered, _ = run(patched(SLUG, {path: SOURCE}, vllm).contents[path])
    op = registered["deepseek_v4_fp8_einsum"]
    assert op["mutates_args"] == []
    given = (Tensor((7, 4, 8)), "a_scale", "b", "b_scale", 32, "bhr,hdr->bhd", [1, 128, 128])
    fake, real = op["fake_impl"](*given), op["op_func"](*given)
    assert (fake.shape, fake.dtype) == (real.shape, real.dtype) == ((7, 4, 32), "bf16")
    assert registered["other"]["mutates_args"] == ["out"]


def test_a_guard_that_another_patch_put_into_the_body_stays() -> None:
    guard = "    einsum = fp8_einsum if supported() else plain\n    einsum(equation, "
    guarded = SOURCE.replace("    fp8_einsum(equation, ", guard)
    after = patched(SLUG, {MODELS: guarded}, "0.22.0").contents[MODELS].decode()
    assert guard in after
    assert "    return out\n" in after


def test_a_tree_with_the_change_has_it_already() -> None:
    after = patched(SLUG, {MODELS: SOURCE}, "0.22.0").contents[MODELS].decode()
    assert patched(SLUG, {MODELS: after}, "0.22.1").done


def test_each_place_of_the_module_has_its_rewrite() -> None:
    assert choose(SLUG, {LAYERS: SOURCE}, "0.21.0") == "layers.yaml"
    assert choose(SLUG, {MODELS: SOURCE}, "0.22.0") == "models.yaml"


def test_a_tree_without_the_op_is_not_applicable() -> None:
    assert choose(SLUG, {MODELS: "def other():\n    pass\n"}, "0.23.0") is None
    assert choose(SLUG, {}, "0.19.0") is None


def test_an_op_that_has_moved_is_a_conflict_and_not_silence() -> None:
    with pytest.raises(RewriteError, match="no such file in the tree"):
        patched(SLUG, {"vllm/elsewhere.py": SOURCE}, "0.22.0")


def test_a_second_empty_result_is_a_conflict() -> None:
    twice = SOURCE.replace(
        "        b, b_scale", "        z = torch.empty((2,), dtype=torch.bfloat16)\n        b, b_scale"
    )
    with pytest.raises(RewriteError, match=r"found 2 of 'z = torch\.empty"):
        patched(SLUG, {MODELS: twice}, "0.22.0")
