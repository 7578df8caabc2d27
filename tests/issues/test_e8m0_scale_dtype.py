"""The defect: a kernel that takes float32 block scales is handed the checkpoint's E8M0 ones, under either of two names.

The lie these tests prevent is "there is an upcast in the file": for one name, on one path, of the wrong bits, or in the
class whose kernel wants E8M0.
"""

import re
from pathlib import Path
from textwrap import dedent, indent

import pytest

from tests.issues.support import BAD, CANNOT_TELL, GOOD, Answer, ask, plant, signature

SLUG = "e8m0-scale-dtype"
FOLDER = "vllm/model_executor/kernels/linear/scaled_mm"
UTILS = "vllm/model_executor/layers/quantization/utils/fp8_utils.py"
IMPORTS = """
import torch
from vllm.model_executor.layers.quantization.utils.fp8_utils import _upcast_e8m0_to_fp32, finish
from vllm.model_executor.utils import replace_parameter
from .base import Base
"""
BASE = """
from vllm.model_executor.layers.quantization.utils.fp8_utils import finish
from vllm.model_executor.utils import replace_parameter

class Base:
    def process_weights_after_loading(self, layer):
        params = self._get_layer_params(layer)
        inverse = params.weight_scale_inv is not None
        scale = params.weight_scale_inv if inverse else params.weight_scale
        name = params.WEIGHT_SCALE_INV if inverse else params.WEIGHT_SCALE
        weight, scale = finish(params.weight, scale)
        replace_parameter(layer, name, scale.data)

    def apply_weights(self, layer, x, bias=None):
        params = self._get_layer_params(layer)
        scale = params.weight_scale if params.weight_scale_inv is None else params.weight_scale_inv
        return self.apply_block_scaled_mm(A=x, B=params.weight, As=x, Bs=scale)
"""
APPLY = """
def apply_block_scaled_mm(self, A, B, As, Bs):
    return ops.cutlass_scaled_mm(A, B.T, scale_a=As, scale_b=Bs.T)
"""
DEEP_GEMM = """
def process_weights_after_loading(self, layer):
    super().process_weights_after_loading(layer)
    params = self._get_layer_params(layer)
    scale = params.weight_scale if params.weight_scale_inv is None else params.weight_scale_inv
    deepgemm_post_process_fp8_weight_block(wq=params.weight, ws=scale)
"""
POST = "def process_weights_after_loading(self, layer):\n    super().process_weights_after_loading(layer)\n"
EACH = "    for name in ('weight_scale_inv', 'weight_scale'):\n        scale = getattr(layer, name, None)\n"
UPCAST = EACH + (
    "        if scale is not None and scale.dtype == torch.float8_e8m0fnu:\n"
    "            replace_parameter(layer, name, _upcast_e8m0_to_fp32(scale.data).contiguous())\n"
)


def kernels(tmp_path: Path, post: str = "", apply: str = APPLY, deep_gemm: str = DEEP_GEMM, base: str = BASE) -> Answer:
    """The two kernel classes; `post` is what a patch adds to the CUTLASS one."""
    cutlass = IMPORTS + "class CutlassFp8BlockScaledMMKernel(Base):\n" + indent(post + apply, "    ")
    other = IMPORTS + "class DeepGemmFp8BlockScaledMMKernel(Base):\n" + indent(deep_gemm, "    ")
    files = {f"{FOLDER}/cutlass.py": cutlass, f"{FOLDER}/deep_gemm.py": other, f"{FOLDER}/base.py": base}
    utils = (
        "def _upcast_e8m0_to_fp32(scale):\n    return scale\n\ndef finish(weight, scale):\n    return weight, scale\n"
    )
    return ask(SLUG, plant(tmp_path, {**files, UTILS: utils}))


def test_scales_that_are_never_converted_are_bad_under_both_names(tmp_path: Path) -> None:
    answer = kernels(tmp_path)
    assert answer.code == BAD
    line = 1 + tmp_path.joinpath(FOLDER, "cutlass.py").read_text().splitlines().index(
        "        return ops.cutlass_scaled_mm(A, B.T, scale_a=As, scale_b=Bs.T)"
    )
    for name in ("weight_scale", "weight_scale_inv"):
        assert f"{FOLDER}/cutlass.py:{line}: an E8M0 {name} reaches the op" in answer.output


EXACT = {
    "vLLM's helper": UPCAST,
    "torch's conversion": UPCAST.replace("_upcast_e8m0_to_fp32(scale.data)", "scale.data.to(torch.float32)"),
    "bits shifted by hand": UPCAST.replace(
        "_upcast_e8m0_to_fp32(scale.data)",
        "(scale.view(torch.uint8).to(torch.int32) << 23).view(torch.float32)",
    ),
    "a loop that continues": EACH
    + "        if scale is None or scale.dtype != torch.float8_e8m0fnu:\n            continue\n"
    + "        setattr(layer, name, torch.nn.Parameter(scale.float(), requires_grad=False))\n",
    "one of several dtypes": UPCAST.replace("== torch.float8_e8m0fnu", "in (torch.float8_e8m0fnu, torch.uint8)"),
}


@pytest.mark.parametrize("body", EXACT.values(), ids=EXACT)
def test_an_upcast_after_loading_is_good(tmp_path: Path, body: str) -> None:
    answer = kernels(tmp_path, POST + body)
    assert answer.code == GOOD, answer.output


def test_an_upcast_in_the_forward_pass_is_good(tmp_path: Path) -> None:
    ahead = "    if Bs.dtype == torch.float8_e8m0fnu:\n        Bs = Bs.to(torch.float32)\n    return ops"
    assert kernels(tmp_path, apply=APPLY.replace("    return ops", ahead)).code == GOOD


INCOMPLETE = {
    "one name only": UPCAST.replace("('weight_scale_inv', 'weight_scale')", "('weight_scale_inv',)"),
    "a condition that never holds": UPCAST.replace("torch.float8_e8m0fnu", "torch.float8_e4m3fn"),
    "a condition that may not hold": UPCAST.replace("if scale is not None", "if self.wanted and scale is not None"),
    "a loop that is left early": EACH
    + "        if scale is None or scale.dtype != torch.float8_e8m0fnu:\n            break\n"
    + "        replace_parameter(layer, name, scale.float())\n",
    "a result thrown away": UPCAST.replace("replace_parameter(layer, name, ", "str("),
}


@pytest.mark.parametrize("body", INCOMPLETE.values(), ids=INCOMPLETE)
def test_an_upcast_that_misses_a_path_is_bad(tmp_path: Path, body: str) -> None:
    answer = kernels(tmp_path, POST + body)
    assert answer.code == BAD
    assert re.search(signature(SLUG, "static"), answer.output)


def test_exponent_bytes_taken_for_numbers_are_not_called_good(tmp_path: Path) -> None:
    bytes_only = UPCAST.replace("_upcast_e8m0_to_fp32(scale.data)", "scale.view(torch.uint8).to(torch.float32)")
    assert kernels(tmp_path, POST + bytes_only).code == CANNOT_TELL


def test_an_upcast_in_the_shared_base_is_bad_for_deep_gemm(tmp_path: Path) -> None:
    answer = kernels(tmp_path, base=BASE.replace("scale.data)", "scale.data.to(torch.float32))"))
    assert answer.code == BAD
    assert "DeepGEMM packs E8M0 scales itself" in answer.output
    assert re.search(signature(SLUG, "static"), answer.output)


def test_an_upcast_in_deep_gemms_own_class_is_bad(tmp_path: Path) -> None:
    answer = kernels(tmp_path, POST + UPCAST, deep_gemm=DEEP_GEMM.replace("ws=scale", "ws=scale.float()"))
    assert answer.code == BAD
    assert "DeepGEMM packs E8M0 scales itself" in answer.output


def test_a_kernel_that_looks_at_e8m0_when_it_is_chosen_cannot_be_told(tmp_path: Path) -> None:
    refusal = "def can_implement(cls, config):\n    return config.scale.dtype != torch.float8_e8m0fnu, None\n"
    assert kernels(tmp_path, refusal).code == CANNOT_TELL


def test_an_op_that_is_not_found_cannot_be_told(tmp_path: Path) -> None:
    assert kernels(tmp_path, apply="def apply_block_scaled_mm(self, A, B, As, Bs):\n    return other(Bs)\n").code == 125


@pytest.mark.parametrize("script", ["static.py", "stubbed.py"])
def test_a_tree_without_the_class_says_absent_and_is_good(tmp_path: Path, script: str) -> None:
    answer = ask(SLUG, plant(tmp_path, {f"{FOLDER}/cutlass.py": dedent("class Other:\n    pass\n")}), script)
    assert answer.code == GOOD
    assert "patchkit: absent" in answer.output.splitlines()


@pytest.mark.parametrize("script", ["static.py", "stubbed.py"])
def test_a_tree_that_is_no_vllm_cannot_be_told(tmp_path: Path, script: str) -> None:
    assert ask(SLUG, tmp_path, script).code == CANNOT_TELL
