"""The defect: a TP rank's rows are taken for the whole batch where there is one DP rank.

The lie this prevents is a repro that answers for a tree it could not run.
"""

import re
from pathlib import Path

import pytest

from tests.issues.support import CANNOT_TELL, GOOD, ISSUES, ask, issue, plant

SLUG = "routed-expert-capture-ascend"
CAPTURE = "vllm_ascend/patch/worker/patch_routed_experts_capture.py"


def test_a_tree_that_replaces_no_capture_says_absent_and_needs_no_torch(tmp_path: Path) -> None:
    answer = ask(SLUG, plant(tmp_path, {"vllm_ascend/__init__.py": ""}), "prepare.py")
    assert (answer.code, "patchkit: absent" in answer.output.splitlines()) == (GOOD, True)


@pytest.mark.parametrize("files", [{}, {CAPTURE: "from nothing import at_all\n"}])
def test_a_tree_that_is_no_vllm_ascend_or_cannot_be_run_cannot_be_told(tmp_path: Path, files: dict[str, str]) -> None:
    assert ask(SLUG, plant(tmp_path, files), "prepare.py").code == CANNOT_TELL


def test_the_log_signature_is_of_the_replacement_and_not_of_vllms_own_method() -> None:
    (pattern,) = issue(SLUG)["log-signatures"]
    frame = '  File "/vllm-workspace/vllm-ascend/{}", line 170, in capture'
    assert re.search(pattern, frame.format(CAPTURE))
    assert not re.search(pattern, frame.format("vllm/model_executor/layers/fused_moe/routed_experts_capturer.py"))


def test_the_layout_that_the_repro_takes_is_where_it_looks() -> None:
    text = (ISSUES / SLUG / "prepare.py").read_text()
    (path,) = re.findall(r'parents\[2\] / "([^"]+)"', text)
    assert (ISSUES.parent / path).is_file()


def test_the_readme_tells_what_a_pass_does_not_prove() -> None:
    text = (ISSUES / SLUG / "README.md").read_text()
    assert "What a pass proves" in text
    assert "hardware" in text
