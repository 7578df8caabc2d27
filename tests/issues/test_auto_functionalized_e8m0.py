"""The defect: torch.compile fails on an op that writes into an argument and takes an E8M0 scale.

The lies these tests prevent: a pass out of a compile cache that an earlier, patched run filled, and a fix that compiles
and computes nothing. What needs torch and vLLM is in tests/real.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.issues.support import CANNOT_TELL, GOOD, ISSUES, ask, issue, plant

SLUG = "auto-functionalized-e8m0"
SCRIPTS = pytest.mark.parametrize("script", ["einsum.py", "cutlass.py"])


@SCRIPTS
def test_a_tree_without_the_code_says_absent_and_is_good(tmp_path: Path, script: str) -> None:
    answer = ask(SLUG, plant(tmp_path, {}), script)
    assert answer.code == GOOD
    assert "patchkit: absent" in answer.output


@SCRIPTS
def test_a_tree_that_is_no_vllm_cannot_be_told(tmp_path: Path, script: str) -> None:
    assert ask(SLUG, tmp_path, script).code == CANNOT_TELL


@SCRIPTS
def test_a_cache_of_compiled_graphs_that_is_not_empty_is_refused(tmp_path: Path, script: str) -> None:
    cache = tmp_path / "inductor" / "fxgraph"
    cache.mkdir(parents=True)
    (cache / "graph").write_text("compiled elsewhere")
    env = {**os.environ, "PATCHKIT_TREE": str(plant(tmp_path, {})), "TORCHINDUCTOR_CACHE_DIR": str(cache.parent)}
    done = subprocess.run(
        [sys.executable, str(ISSUES / SLUG / script)], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == CANNOT_TELL
    assert "holds compiled graphs already" in done.stdout


LINES = {
    "AssertionError: auto_functionalized was not removed": True,
    "torch._inductor.exc.InductorError: AssertionError: auto_functionalized_v2 was not removed": True,
    "bad: compiled, activation 2: values are wrong, off by inf of the terms, allowed 5e-03": True,
    "ModuleNotFoundError: No module named 'vllm._C'": False,
    "RuntimeError: Unsupported architecture": False,
}


@pytest.mark.parametrize(("line", "found"), LINES.items(), ids=list(LINES))
def test_only_the_compile_error_and_wrong_values_count_as_bad(line: str, found: bool) -> None:
    assert bool(re.search(issue(SLUG)["signature"], line)) is found
