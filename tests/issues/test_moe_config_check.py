"""The defect: numbers that the MoE layer refuses pass at load. The repro runs the tree's classes: see `nox -s real`.

Here: what the repro says of trees that have none of it, and that its cases are what the rules say they are.
"""

import re
from pathlib import Path

import pytest

from tests.issues.support import CANNOT_TELL, GOOD, ask, issue, plant

SLUG = "moe-config-check"
LOGS = {
    "AssertionError of the layer": "    assert self.intermediate_size % tp_size == 0",
    "of an older release": "    assert intermediate_size % self.tp_size == 0",
    "EPLB": "EPLB currently only supports even distribution of experts across ranks. Got 9 experts and 4 EP ranks.",
    "blocks": (
        "ValueError: The output_size of gate's and up's weight = 192 is not divisible by "
        "weight quantization block_n = 128."
    ),
}


@pytest.mark.parametrize("line", LOGS.values(), ids=LOGS)
def test_the_lines_of_a_workers_log_are_known(line: str) -> None:
    assert any(re.search(pattern, line) for pattern in issue(SLUG)["log-signatures"])


@pytest.mark.parametrize("line", ["AssertionError", "AssertionError: 2048 is not divisible by 7", "Worker failed"])
def test_other_assertions_are_not_taken_for_it(line: str) -> None:
    assert not any(re.search(pattern, line) for pattern in issue(SLUG)["log-signatures"])


def test_a_tree_that_is_no_vllm_cannot_be_told(tmp_path: Path) -> None:
    assert ask(SLUG, tmp_path, "real.py").code == CANNOT_TELL


def test_a_tree_that_verifies_no_deployment_says_absent(tmp_path: Path) -> None:
    answer = ask(SLUG, plant(tmp_path, {"vllm/config/model.py": "x = 1\n"}), "real.py")
    assert answer.code == GOOD
    assert "patchkit: absent" in answer.output.splitlines()


def test_a_tree_that_cannot_be_imported_cannot_be_told(tmp_path: Path) -> None:
    text = "import nothing\n\ndef verify_with_parallel_config(self, parallel):\n    pass\n"
    assert ask(SLUG, plant(tmp_path, {"vllm/config/model.py": text}), "real.py").code == CANNOT_TELL
