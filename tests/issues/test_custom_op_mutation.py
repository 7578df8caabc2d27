"""The defect: an op whose registration declares no write and whose body writes. Eager is right, compiled is not.

The lie these tests prevent is a scan that reads declarations only, or one that cries at every helper: beside each write
that must be seen stands a look-alike that is none.
"""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent

import pytest

from tests.issues.support import BAD, CANNOT_TELL, GOOD, Answer, ask, plant, signature

SLUG = "custom-op-mutation"
FILE = "vllm/ops.py"
HEAD = """
import torch
import triton.language as tl
from vllm import _custom_ops as ops
from vllm.helpers import fill, fill_if
from vllm.utils.deep_gemm import fp8_einsum
from vllm.utils.torch_utils import direct_register_custom_op

def kernel(out_ptr, x_ptr, stride, BLOCK):
    place = out_ptr + tl.program_id(0) * stride
    tl.store(place, tl.load(x_ptr))

def op(out: torch.Tensor, x: torch.Tensor, stride: int, xs: list[torch.Tensor]) -> None:
"""
HELPERS = """
def fill(target, value):
    inner(value, target)

def inner(value, target):
    target.copy_(value)

def fill_if(target, value, inplace):
    result = target if inplace else target.clone()
    result.copy_(value)
"""
WRAPPERS = """
import torch

def scaled(out, x):
    torch.ops._C.scaled(out, x)
"""
BINDINGS = """
ops.def(
    "scaled(Tensor! out, "
    "Tensor x) -> ()");
"""


def tree(tmp_path: Path, body: str, declared: str = "[]", extra: str = "") -> Path:
    register = f"\n\ndirect_register_custom_op('probe', op, mutates_args={declared}, fake_impl=None)\n"
    return plant(
        tmp_path,
        {
            FILE: HEAD + indent(body.strip("\n"), "    ") + register + extra,
            "vllm/helpers.py": HELPERS,
            "vllm/_custom_ops.py": WRAPPERS,
            "csrc/torch_bindings.cpp": BINDINGS,
        },
    )


def scan(tmp_path: Path, body: str, declared: str = "[]") -> Answer:
    return ask(SLUG, tree(tmp_path, body, declared), "scan.py")


WRITES = {
    "an in-place method": "out.copy_(x)",
    "an in-place method on a view": "out.view(-1)[1:].t().mul_(x)",
    "an assignment to an index": "out[0] = x",
    "an assignment through a name": "rows = out.flatten()\nrows[:2] += 1",
    "an augmented assignment": "out += x",
    "an out argument": "torch.add(x, x, out=out)",
    "an item of a list": "for one in xs:\n    one.zero_()",
    "one side of a condition": "if stride:\n    y = out\nelse:\n    y = x.clone()\ny.zero_()",
    "a compiled op": "torch.ops._C.scaled(out, x)",
    "a wrapper of a compiled op": "ops.scaled(x=x, out=out)",
    "a helper of a helper": "fill(out, x)",
    "a helper whose flag says so": "fill_if(out, x, True)",
    "a Triton kernel": "kernel[(1,)](out, x, stride, BLOCK=1)",
    "DeepGEMM's einsum": "fp8_einsum('bhr,hdr->bhd', (x, x), (x, x), out, recipe=(1, 128, 128))",
}
LOOKALIKES = {
    "a copy": "y = out.clone()\ny.copy_(x)",
    "a new tensor of the same name": "out = torch.empty_like(out)\nout.copy_(x)",
    "a method with a name alone": "out.requires_grad_(False)\nout.__len__()",
    "an integer": "stride += 1",
    "a read by index": "y = x.clone()\ny[0] = out[0]",
    "a helper that writes into the other argument": "fill(torch.empty_like(x), out)",
    "a helper whose flag says no": "fill_if(out, x, inplace=False)",
    "a Triton kernel that loads": "kernel[(1,)](torch.empty_like(x), out, stride, BLOCK=1)",
    "a compiled op that reads": "torch.ops._C.scaled(torch.empty_like(x), out)",
    "an op of the same name elsewhere": "torch.ops.other.scaled(out, x)",
}


@pytest.mark.parametrize("body", WRITES.values(), ids=WRITES)
def test_a_write_that_is_not_declared_is_bad(tmp_path: Path, body: str) -> None:
    answer = scan(tmp_path, body)
    assert answer.code == BAD, answer.output
    assert re.search(signature(SLUG, "static"), answer.output)
    assert f"{FILE}:" in answer.output


@pytest.mark.parametrize("body", WRITES.values(), ids=WRITES)
def test_the_same_write_declared_is_good(tmp_path: Path, body: str) -> None:
    answer = scan(tmp_path, body, "['out', 'xs', 'x']")
    assert answer.code == GOOD, answer.output


@pytest.mark.parametrize("body", LOOKALIKES.values(), ids=LOOKALIKES)
def test_what_only_looks_like_a_write_is_good(tmp_path: Path, body: str) -> None:
    answer = scan(tmp_path, body)
    assert answer.code == GOOD, answer.output


def test_the_other_ways_to_register_are_read(tmp_path: Path) -> None:
    extra = """
@torch.library.custom_op("vllm::second", mutates_args=())
def second(a: torch.Tensor) -> None:
    a.zero_()

def third(first: torch.Tensor, other: torch.Tensor) -> None:
    other.zero_()

lib = torch.library.Library("vllm", "FRAGMENT")
lib.define("third(Tensor(a!) x, Tensor y) -> ()")
lib.impl("third", third, "CUDA")

@torch.library.custom_op("vllm::fourth", mutates_args="unknown")
def fourth(a: torch.Tensor) -> None:
    a.zero_()
"""
    answer = ask(SLUG, tree(tmp_path, "return x.clone()", extra=extra), "scan.py")
    assert answer.code == BAD
    assert "op second writes to a, declared is nothing" in answer.output
    assert "op third writes to other, declared is first" in answer.output
    assert "fourth" not in answer.output
    assert "4 registrations" in answer.output


def test_a_reviewed_write_is_listed_and_good(tmp_path: Path) -> None:
    text = HEAD.replace("def op(out", "def op(kv_cache") + "    kv_cache.zero_()\n"
    register = "direct_register_custom_op(op_name='sparse_attn_indexer', op_func=op, mutates_args=['x'])\n"
    answer = ask(SLUG, plant(tmp_path, {FILE: text + register}), "scan.py")
    assert answer.code == GOOD
    assert "op sparse_attn_indexer writes to kv_cache, declared is x" in answer.output
    assert "(reviewed: " in answer.output


def test_a_tree_without_custom_ops_says_absent_and_is_good(tmp_path: Path) -> None:
    answer = ask(SLUG, plant(tmp_path, {}), "scan.py")
    assert answer.code == GOOD
    assert "patchkit: absent" in answer.output


def test_a_tree_that_is_no_vllm_cannot_be_told(tmp_path: Path) -> None:
    assert ask(SLUG, tmp_path, "scan.py").code == CANNOT_TELL


def test_a_function_that_is_wrapped_where_it_is_registered_is_read(tmp_path: Path) -> None:
    text = f"{HEAD}    x.zero_()\n\ndirect_register_custom_op(op_name='op', op_func=eager(op), mutates_args=['out'])\n"
    answer = ask(SLUG, plant(tmp_path, {FILE: text}), "scan.py")
    assert (answer.code, "op op writes to x, declared is out" in answer.output) == (BAD, True)


@pytest.mark.parametrize(("declared", "code"), [("'out'", GOOD), ("", BAD)])
def test_a_kernel_of_helion_is_an_op(tmp_path: Path, declared: str, code: int) -> None:
    text = f"""
    import helion.language as hl

    @register_kernel(mutates_args=[{declared}])
    def halve(out: torch.Tensor, x: torch.Tensor) -> None:
        for tile in hl.tile(x.size(0)):
            out[tile] = x[tile] / 2
    """
    answer = ask(SLUG, plant(tmp_path, {FILE: text}), "scan.py")
    assert (answer.code, "halve writes to out" in answer.output) == (code, code == BAD)
