"""The defect: a DeepGEMM call that runs where DeepGEMM has no kernels, behind something that only looks like a guard.

The lie these tests prevent is a repro that greps: beside each accepted guard stands one that reads alike and guards
nothing.
"""

import re
from pathlib import Path
from textwrap import dedent, indent

import pytest

from tests.issues.support import BAD, CANNOT_TELL, GOOD, Answer, ask, plant, signature

SLUG = "deepgemm-unsupported-arch"
FILE = "vllm/model_executor/kernels/mhc/tilelang.py"
HEAD = """
from vllm.utils.deep_gemm import is_deep_gemm_supported, tf32_hc_prenorm_gemm

def plain(x):
    return x
"""


WRAPPER = """
_tf32_hc_prenorm_gemm_impl = None

def is_deep_gemm_supported():
    return current_platform.support_deep_gemm()

def tf32_hc_prenorm_gemm(*args):
    return _tf32_hc_prenorm_gemm_impl(*args)
"""


def with_wrapper(tmp_path: Path, files: dict[str, str]) -> Path:
    return plant(tmp_path, {"vllm/utils/deep_gemm.py": WRAPPER, **files})


def module(tmp_path: Path, text: str) -> Answer:
    return ask(SLUG, with_wrapper(tmp_path, {FILE: HEAD + dedent(text)}))


def body(tmp_path: Path, text: str) -> Answer:
    return module(tmp_path, "\ndef mhc_pre_broadcast_tilelang(x, splits=1):\n" + indent(dedent(text).strip(), "    "))


GUARDS = {
    "if and else": """
        if is_deep_gemm_supported():
            tf32_hc_prenorm_gemm(x)
        else:
            plain(x)
        """,
    "a local that holds the answer": """
        use = is_deep_gemm_supported()
        splits = 8 if use else 1
        if use:
            tf32_hc_prenorm_gemm(x)
        """,
    "a negated condition": """
        if not is_deep_gemm_supported():
            plain(x)
        else:
            tf32_hc_prenorm_gemm(x)
        """,
    "an early return": """
        if not is_deep_gemm_supported():
            return plain(x)
        return tf32_hc_prenorm_gemm(x)
        """,
    "an early raise": """
        if not is_deep_gemm_supported():
            raise NotImplementedError("no DeepGEMM here")
        return tf32_hc_prenorm_gemm(x)
        """,
    "an assertion": """
        assert is_deep_gemm_supported()
        return tf32_hc_prenorm_gemm(x)
        """,
    "a ternary": "return tf32_hc_prenorm_gemm(x) if is_deep_gemm_supported() else plain(x)",
    "a ternary that picks the function": """
        gemm = tf32_hc_prenorm_gemm if is_deep_gemm_supported() else plain
        return gemm(x)
        """,
    "and": "return is_deep_gemm_supported() and tf32_hc_prenorm_gemm(x)",
    "or": "return not is_deep_gemm_supported() or tf32_hc_prenorm_gemm(x)",
    "and with something unknown": """
        if splits > 1 and is_deep_gemm_supported():
            tf32_hc_prenorm_gemm(x)
        """,
    "a choice by name": """
        backend = "deep_gemm" if is_deep_gemm_supported() else "torch"
        if backend == "deep_gemm":
            tf32_hc_prenorm_gemm(x)
        """,
    "a nested function that asks itself": """
        def run():
            if is_deep_gemm_supported():
                tf32_hc_prenorm_gemm(x)
        run()
        """,
    "a nested function of a guarded caller": """
        def run():
            tf32_hc_prenorm_gemm(x)
        if is_deep_gemm_supported():
            run()
        """,
    "a capability DeepGEMM serves": """
        from vllm.platforms import current_platform
        if current_platform.is_device_capability(90) or current_platform.is_device_capability_family(100):
            tf32_hc_prenorm_gemm(x)
        """,
}

LOOKALIKES = {
    "no guard": "return tf32_hc_prenorm_gemm(x)",
    "a guard in a comment": """
        # if is_deep_gemm_supported():
        return tf32_hc_prenorm_gemm(x)
        """,
    "the answer thrown away": """
        is_deep_gemm_supported()
        tf32_hc_prenorm_gemm(x)
        """,
    "the function instead of its answer": """
        if is_deep_gemm_supported:
            tf32_hc_prenorm_gemm(x)
        """,
    "or with a switch": """
        if is_deep_gemm_supported() or splits:
            tf32_hc_prenorm_gemm(x)
        """,
    "one branch only": """
        if splits > 16:
            if is_deep_gemm_supported():
                tf32_hc_prenorm_gemm(x)
        else:
            tf32_hc_prenorm_gemm(x)
        """,
    "the wrong way round": """
        if not is_deep_gemm_supported():
            tf32_hc_prenorm_gemm(x)
        """,
    "another predicate": """
        from vllm.utils.import_utils import has_deep_gemm
        if has_deep_gemm():
            tf32_hc_prenorm_gemm(x)
        """,
    "a platform that counts sm_12x as supported": """
        from vllm.platforms import current_platform
        if current_platform.support_deep_gemm():
            tf32_hc_prenorm_gemm(x)
        """,
    "a capability that DeepGEMM does not serve": """
        from vllm.platforms import current_platform
        if current_platform.is_device_capability_family(120):
            tf32_hc_prenorm_gemm(x)
        """,
    "a guard behind the call": """
        out = tf32_hc_prenorm_gemm(x)
        if not is_deep_gemm_supported():
            return plain(x)
        return out
        """,
    "a local overwritten": """
        use = is_deep_gemm_supported()
        use = splits > 1
        if use:
            tf32_hc_prenorm_gemm(x)
        """,
    "a caught error": """
        try:
            tf32_hc_prenorm_gemm(x)
        except RuntimeError:
            plain(x)
        """,
    "a nested function called outside the guard": """
        def run():
            tf32_hc_prenorm_gemm(x)
        run()
        """,
    "a lambda handed away": "return launch(lambda: tf32_hc_prenorm_gemm(x))",
    "a partial called later": """
        from functools import partial
        run = partial(tf32_hc_prenorm_gemm, x)
        return run()
        """,
    "a loop that changes the answer": """
        use = is_deep_gemm_supported()
        for item in x:
            if use:
                tf32_hc_prenorm_gemm(item)
            use = True
        """,
}


@pytest.mark.parametrize("text", GUARDS.values(), ids=GUARDS)
def test_a_call_that_cannot_run_without_deep_gemm_is_good(tmp_path: Path, text: str) -> None:
    answer = body(tmp_path, text)
    assert (answer.code, "absent" in answer.output) == (GOOD, False), answer.output


@pytest.mark.parametrize("text", LOOKALIKES.values(), ids=LOOKALIKES)
def test_what_only_looks_like_a_guard_is_bad(tmp_path: Path, text: str) -> None:
    answer = body(tmp_path, text)
    assert answer.code == BAD
    assert re.search(signature(SLUG, "static"), answer.output)


HELPER = """
def _gemm(x, *, fallback=True):
    use = is_deep_gemm_supported() {condition}
    if use:
        return tf32_hc_prenorm_gemm(x)
    return plain(x)

def mhc_pre_tilelang(x):
    return _gemm(x)

def mhc_pre_broadcast_tilelang(x):
    return _gemm(x, fallback=False)
"""


def test_an_argument_that_opens_the_guard_of_a_helper_is_followed(tmp_path: Path) -> None:
    answer = module(tmp_path, HELPER.format(condition="or not fallback"))
    assert answer.code == BAD
    assert "in _gemm, entered by mhc_pre_broadcast_tilelang" in answer.output
    assert "entered by mhc_pre_tilelang" not in answer.output


def test_a_helper_that_asks_for_all_its_callers_is_good(tmp_path: Path) -> None:
    assert module(tmp_path, HELPER.format(condition="")).code == GOOD


def test_a_helper_that_returns_the_answer_counts_as_the_answer(tmp_path: Path) -> None:
    text = """
    def _use(size):
        if size > 1:
            return is_deep_gemm_supported()
        return False

    def mhc_pre_broadcast_tilelang(x):
        if _use(len(x)):
            tf32_hc_prenorm_gemm(x)
    """
    assert module(tmp_path, text).code == GOOD


def test_a_global_that_is_set_elsewhere_is_not_taken_for_its_first_value(tmp_path: Path) -> None:
    text = """
    _USE = False

    def configure():
        global _USE
        _USE = True

    def mhc_pre_broadcast_tilelang(x):
        if _USE:
            tf32_hc_prenorm_gemm(x)
    """
    assert module(tmp_path, text).code == BAD


def test_a_private_function_that_is_registered_is_entered_with_unknown_arguments(tmp_path: Path) -> None:
    text = """
    def _run(x, use=False):
        if use or is_deep_gemm_supported():
            tf32_hc_prenorm_gemm(x)

    def mhc_pre_broadcast_tilelang(x):
        _run(x)

    register(op=_run)
    """
    assert module(tmp_path, text).code == BAD


@pytest.mark.parametrize(("answer", "code"), [("asked()", GOOD), ("asked() or True", BAD)])
def test_a_helper_of_another_module_is_followed(tmp_path: Path, answer: str, code: int) -> None:
    helper = f"from vllm.utils.deep_gemm import is_deep_gemm_supported as asked\n\ndef use():\n    return {answer}\n"
    text = """
    from .choice import use

    def mhc_pre_broadcast_tilelang(x):
        if use():
            tf32_hc_prenorm_gemm(x)
    """
    with_wrapper(tmp_path, {"vllm/model_executor/kernels/mhc/choice.py": helper})
    assert module(tmp_path, text).code == code


def test_deep_gemm_switched_off_everywhere_is_bad(tmp_path: Path) -> None:
    text = """
    def mhc_pre_tilelang(x):
        return tf32_hc_prenorm_gemm(x) if is_deep_gemm_supported() else plain(x)

    def mhc_pre_broadcast_tilelang(x):
        use = False
        return tf32_hc_prenorm_gemm(x) if use else plain(x)
    """
    answer = module(tmp_path, text)
    assert answer.code == BAD
    assert "DeepGEMM is not taken" in answer.output
    assert re.search(signature(SLUG, "static"), answer.output)


def test_every_unguarded_site_is_named_with_its_line(tmp_path: Path) -> None:
    text = """
    def mhc_pre_tilelang(x):
        tf32_hc_prenorm_gemm(x)

    def mhc_pre_broadcast_tilelang(x):
        tf32_hc_prenorm_gemm(x)
        tf32_hc_prenorm_gemm(x)
    """
    answer = module(tmp_path, text)
    lines = tmp_path.joinpath(FILE).read_text().splitlines()
    sites = [number for number, line in enumerate(lines, 1) if line.strip() == "tf32_hc_prenorm_gemm(x)"]
    assert [f"{FILE}:{number}:" in answer.output for number in sites] == [True] * 3


def test_a_tree_without_the_function_says_absent_and_is_good(tmp_path: Path) -> None:
    answer = module(tmp_path, "def mhc_pre_tilelang(x):\n    return tf32_hc_prenorm_gemm(x)\n")
    assert answer.code == GOOD
    assert "patchkit: absent" in answer.output.splitlines()


def test_the_older_form_is_mentioned_but_is_another_defect(tmp_path: Path) -> None:
    older = HEAD + "\ndef mhc_pre(x):\n    return tf32_hc_prenorm_gemm(x)\n"
    answer = ask(SLUG, with_wrapper(tmp_path, {"vllm/model_executor/layers/mhc.py": older}))
    assert answer.code == GOOD
    assert "note: not counted" in answer.output


def test_a_function_that_moved_is_found(tmp_path: Path) -> None:
    moved = HEAD + "\ndef mhc_pre_broadcast_tilelang(x):\n    return tf32_hc_prenorm_gemm(x)\n"
    assert ask(SLUG, with_wrapper(tmp_path, {"vllm/models/deepseek/mhc.py": moved})).code == BAD


@pytest.mark.parametrize("script", ["static.py", "stubbed.py"])
def test_a_tree_that_is_no_vllm_cannot_be_told(tmp_path: Path, script: str) -> None:
    assert ask(SLUG, tmp_path, script).code == CANNOT_TELL


def test_running_the_code_of_a_tree_without_the_function_needs_no_torch(tmp_path: Path) -> None:
    answer = ask(SLUG, with_wrapper(tmp_path, {FILE: "def mhc_pre_tilelang(x):\n    return x\n"}), "stubbed.py")
    assert answer.code == GOOD
    assert "patchkit: absent" in answer.output.splitlines()


def test_a_tree_that_cannot_be_imported_cannot_be_told(tmp_path: Path) -> None:
    answer = ask(
        SLUG,
        with_wrapper(tmp_path, {FILE: "import nothing\n\ndef mhc_pre_broadcast_tilelang(x):\n    return x\n"}),
        "stubbed.py",
    )
    assert answer.code == CANNOT_TELL, answer.output


def test_a_file_that_does_not_parse_cannot_be_told(tmp_path: Path) -> None:
    assert module(tmp_path, "def mhc_pre_broadcast_tilelang(x):\n    tf32_hc_prenorm_gemm(\n").code == CANNOT_TELL
