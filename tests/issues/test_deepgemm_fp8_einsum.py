"""The defect: the output projection hands its operands to DeepGEMM's einsum, whatever the architecture.

The lie these tests prevent is a repro that looks at one function: the call moved three times, and a second one appeared
in another file. So the trees below have the shapes of several releases, and the guard on one site only.
"""

import re
from pathlib import Path

import pytest

from tests.issues.support import BAD, CANNOT_TELL, GOOD, Answer, ask, plant, signature

SLUG = "deepgemm-fp8-einsum"
WRAPPER = """
_fp8_einsum_impl = None
_fp8_gemm_nt_impl = None

def is_deep_gemm_supported():
    return current_platform.support_deep_gemm()

def fp8_einsum(*args, **kwargs):
    return _fp8_einsum_impl(*args, **kwargs)

def fp8_gemm_nt(*args):
    return _fp8_gemm_nt_impl(*args)

def transform_sf_into_required_layout(*args):
    return _transform_impl(*args)
"""
O_PROJ = "vllm/models/deepseek_v4/nvidia/ops/o_proj.py"
LAYER = "vllm/models/deepseek_v4/nvidia/flashmla.py"
PROJECTION = """
from vllm.utils.deep_gemm import fp8_einsum, is_deep_gemm_supported

def deep_gemm_fp8_o_proj(x, wo_a):
    {call}
    return x
"""
USER = """
from .ops.o_proj import deep_gemm_fp8_o_proj

class Attention:
    def _o_proj(self, x):
        return deep_gemm_fp8_o_proj(x, self.wo_a)
"""
MEGA = """
from vllm.utils.deep_gemm import fp8_einsum, is_deep_gemm_supported

def is_mega_supported():
    if not {available}:
        return False, "no"
    return True, None

class MegaAttention:
    @classmethod
    def is_available_for(cls, config):
        return is_mega_supported()[0]

    def _o_proj(self, x):
        return fp8_einsum(x)
"""
GUARDED = "fp8_einsum(x) if is_deep_gemm_supported() else plain(x)"


def tree(tmp_path: Path, call: str, **more: str) -> Answer:
    files = {"vllm/utils/deep_gemm.py": WRAPPER, O_PROJ: PROJECTION.format(call=call), LAYER: USER}
    return ask(SLUG, plant(tmp_path, {**files, **more}))


def test_a_call_without_a_guard_is_bad_and_named_with_its_line_and_user(tmp_path: Path) -> None:
    answer = tree(tmp_path, "fp8_einsum(x)")
    assert answer.code == BAD
    assert f"{O_PROJ}:5: in deep_gemm_fp8_o_proj, entered by Attention._o_proj" in answer.output
    assert re.search(signature(SLUG, "static"), answer.output)


def test_a_guard_at_the_call_is_good(tmp_path: Path) -> None:
    answer = tree(tmp_path, GUARDED)
    assert answer.code == GOOD, answer.output
    assert "1 calls" in answer.output


def test_a_guard_in_the_only_user_is_good(tmp_path: Path) -> None:
    guarded = USER.replace("        return", "        if is_deep_gemm_supported():\n            return").replace(
        "from .ops", "from vllm.utils.deep_gemm import is_deep_gemm_supported\nfrom .ops"
    )
    assert tree(tmp_path, "fp8_einsum(x)", **{LAYER: guarded}).code == GOOD


def test_a_guard_in_one_of_two_users_is_bad(tmp_path: Path) -> None:
    guarded = USER.replace("        return", "        if is_deep_gemm_supported():\n            return").replace(
        "from .ops", "from vllm.utils.deep_gemm import is_deep_gemm_supported\nfrom .ops"
    )
    other = {"vllm/models/deepseek_v4/nvidia/other.py": USER.replace("class Attention", "class Other")}
    answer = tree(tmp_path, "fp8_einsum(x)", **{LAYER: guarded, **other})
    assert answer.code == BAD
    assert "entered by Other._o_proj" in answer.output


def test_a_class_that_says_it_is_not_available_is_good(tmp_path: Path) -> None:
    mega = {"vllm/models/mega.py": MEGA.format(available="is_deep_gemm_supported()")}
    assert tree(tmp_path, GUARDED, **mega).code == GOOD


@pytest.mark.parametrize("available", ["has_deep_gemm()", "current_platform.is_device_capability_family(100)", "False"])
def test_a_class_that_asks_for_something_else_is_bad(tmp_path: Path, available: str) -> None:
    answer = tree(tmp_path, GUARDED, **{"vllm/models/mega.py": MEGA.format(available=available)})
    assert answer.code == BAD
    assert "vllm/models/mega.py" in answer.output


def test_a_custom_operator_is_followed_to_where_it_is_called(tmp_path: Path) -> None:
    operator = """
    import torch
    from vllm.utils.deep_gemm import fp8_einsum, is_deep_gemm_supported

    def einsum_op(x):
        fp8_einsum(x)

    direct_register_custom_op(op_name="the_einsum", op_func=einsum_op, fake_impl=None)

    class Attention:
        def forward(self, x):
            if {condition}:
                torch.ops.vllm.the_einsum(x)
    """
    for condition, code in (("is_deep_gemm_supported()", GOOD), ("self.enabled", BAD)):
        layer = {"vllm/layer.py": operator.format(condition=condition)}
        answer = tree(tmp_path / str(code), GUARDED, **layer)
        assert answer.code == code, answer.output


def test_an_attribute_that_holds_the_answer_is_a_guard_unless_it_is_set_to_something_else(tmp_path: Path) -> None:
    layer = """
    from vllm.utils.deep_gemm import fp8_einsum, is_deep_gemm_supported

    class Attention:
        def __init__(self, given):
            self.use = is_deep_gemm_supported()

        def forward(self, x):
            if self.use:
                fp8_einsum(x)

        def other(self):
            {other}
    """
    for other, code in (("pass", GOOD), ("self.use = True", BAD)):
        answer = tree(tmp_path / str(code), GUARDED, **{"vllm/layer.py": layer.format(other=other)})
        assert answer.code == code, answer.output


def test_deep_gemm_switched_off_everywhere_is_bad(tmp_path: Path) -> None:
    answer = tree(tmp_path, "fp8_einsum(x) if False else plain(x)")
    assert answer.code == BAD
    assert "DeepGEMM is not taken" in answer.output
    assert re.search(signature(SLUG, "static"), answer.output)


def test_a_tree_without_the_call_says_absent(tmp_path: Path) -> None:
    answer = ask(SLUG, plant(tmp_path, {"vllm/utils/deep_gemm.py": WRAPPER}))
    assert (answer.code, answer.output.splitlines()) == (GOOD, ["patchkit: absent"])


@pytest.mark.parametrize("script", ["static.py", "stubbed.py"])
def test_a_tree_that_is_no_vllm_cannot_be_told(tmp_path: Path, script: str) -> None:
    assert ask(SLUG, tmp_path, script).code == CANNOT_TELL


def test_running_the_code_of_a_tree_without_the_call_needs_no_torch(tmp_path: Path) -> None:
    answer = ask(SLUG, plant(tmp_path, {}), "stubbed.py")
    assert (answer.code, answer.output.splitlines()) == (GOOD, ["patchkit: absent"])


def test_a_file_that_does_not_parse_cannot_be_told(tmp_path: Path) -> None:
    assert tree(tmp_path, "fp8_einsum(").code == CANNOT_TELL
