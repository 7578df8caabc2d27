"""The defect: a kernel is called where DeepGEMM is not available, at a place that nobody has named yet."""

import re
from pathlib import Path

from tests.issues.support import BAD, CANNOT_TELL, GOOD, Answer, ask, plant, signature
from tests.issues.test_deepgemm_fp8_einsum import WRAPPER

SLUG = "deepgemm-unguarded-call"
MORE = """
def tf32_hc_prenorm_gemm(*args):
    return _prenorm_impl(*args)

def fp8_mqa_logits(*args):
    return _logits_impl(*args)
"""
BASE = """
class Kernel:
    pass

class Either(Kernel):
    @classmethod
    def is_supported(cls):
        first, reason = cls.first.is_supported()
        second, _ = cls.second.is_supported()
        if first and second:
            return True, None
        return False, reason
"""


def tree(tmp_path: Path, text: str, **more: str) -> Answer:
    files = {"vllm/utils/deep_gemm.py": WRAPPER + MORE, "vllm/new.py": text}
    return ask(SLUG, plant(tmp_path, {**files, **more}))


def test_a_kernel_that_only_the_wrapper_names_is_found_at_a_new_place(tmp_path: Path) -> None:
    answer = tree(tmp_path, "from vllm.utils.deep_gemm import fp8_gemm_nt\n\ndef run(x):\n    fp8_gemm_nt(x)\n")
    assert answer.code == BAD
    assert "vllm/new.py:4: in run: fp8_gemm_nt not guarded" in answer.output
    assert re.search(signature(SLUG, "static"), answer.output)


def test_sizes_and_layouts_are_no_kernels(tmp_path: Path) -> None:
    text = """
    from vllm.utils.deep_gemm import transform_sf_into_required_layout

    def run(x):
        transform_sf_into_required_layout(x)
    """
    assert tree(tmp_path, text).code == GOOD


def test_the_logits_of_the_indexer_are_told_and_not_counted(tmp_path: Path) -> None:
    answer = tree(tmp_path, "from vllm.utils.deep_gemm import fp8_mqa_logits\n\ndef run(x):\n    fp8_mqa_logits(x)\n")
    assert answer.code == GOOD
    assert "note: not counted" in answer.output


def test_the_wrapper_as_a_module_is_seen_through(tmp_path: Path) -> None:
    for text in (
        "from vllm.utils import deep_gemm\n\ndef run(x):\n    deep_gemm.fp8_gemm_nt(x)\n",
        "import vllm.utils.deep_gemm as dg\n\ndef run(x):\n    dg.fp8_gemm_nt(x)\n",
    ):
        assert tree(tmp_path, text).code == BAD


def test_a_kernel_composed_of_two_is_not_chosen_when_one_of_them_is_not(tmp_path: Path) -> None:
    text = """
    from vllm.utils.deep_gemm import fp8_gemm_nt, is_deep_gemm_supported
    from .base import Either, Kernel

    class First(Kernel):
        @classmethod
        def is_supported(cls):
            return True, None

    class Second(Kernel):
        @classmethod
        def is_supported(cls):
            return ({answer}), "no"

    class Both(Either):
        first = First
        second: type = Second

        def apply(self, x):
            fp8_gemm_nt(x)
    """
    for name, code in (("is_deep_gemm_supported()", GOOD), ("has_deep_gemm()", BAD)):
        answer = tree(tmp_path / str(code), text.format(answer=name), **{"vllm/base.py": BASE})
        assert answer.code == code, answer.output


def test_an_ability_that_a_class_never_has_is_no_guard(tmp_path: Path) -> None:
    text = """
    from vllm.utils.deep_gemm import fp8_gemm_nt

    class Experts:
        @staticmethod
        def supports_expert_map():
            return False

        def apply(self, x):
            fp8_gemm_nt(x)
    """
    assert tree(tmp_path, text).code == BAD


def test_a_predicate_beside_the_call_that_nobody_asks_is_no_guard(tmp_path: Path) -> None:
    text = """
    from vllm.utils.deep_gemm import tf32_hc_prenorm_gemm, is_deep_gemm_supported

    def supports_overlap():
        return is_deep_gemm_supported()

    class Overlap:
        def run(self, x):
            tf32_hc_prenorm_gemm(x)
    """
    user = {"vllm/model.py": "from .new import supports_overlap\n\nstream = new() if supports_overlap() else None\n"}
    asked = text + "\n    stream = new() if supports_overlap() else None\n"
    assert tree(tmp_path / "unasked", text).code == BAD
    answer = tree(tmp_path / "asked", asked, **user)
    assert answer.code == GOOD, answer.output
    assert "note: not followed" in answer.output
    assert "relies on supports_overlap()" in answer.output


def test_a_tree_without_deep_gemm_says_absent(tmp_path: Path) -> None:
    answer = ask(SLUG, plant(tmp_path, {}))
    assert (answer.code, answer.output.splitlines()) == (GOOD, ["patchkit: absent"])


def test_a_tree_that_is_no_vllm_cannot_be_told(tmp_path: Path) -> None:
    assert ask(SLUG, tmp_path).code == CANNOT_TELL
