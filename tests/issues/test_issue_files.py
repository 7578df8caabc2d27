"""The files of the shipped issues say what the harness relies on; a repro it cannot find would be a silent skip."""

import ast
import re

import pytest

from patchkit.recipe.load import load_issue
from tests.issues.support import ISSUES, issue

SLUGS = sorted(file.parent.name for file in ISSUES.glob("*/issue.yaml"))
SHARED = {file.stem for file in (ISSUES / "shared").glob("*.py")}
# What users' logs hold, in their words: one for each pattern of an issue, in its order.
LOGS = {
    "auto-functionalized-e8m0": [
        "torch._inductor.exc.InductorError: AssertionError: auto_functionalized_v2 was not removed",
    ],
    "deepgemm-fp8-einsum": [
        "    fp8_einsum(\nRuntimeError: Assertion error (/deepgemm-src/csrc/apis/../utils/layout.hpp:39): t.dim() == N",
    ],
    "deepgemm-sm12x-support": [
        "RuntimeError: Assertion error (/deepgemm-src/csrc/apis/layout.hpp:56): Unknown SF transformation",
    ],
    "deepgemm-unguarded-call": [
        "RuntimeError: Assertion error (/deepgemm-src/csrc/apis/gemm.hpp:88): Unsupported architecture",
    ],
    "deepgemm-unsupported-arch": [
        "RuntimeError: Assertion error (/deepgemm-src/csrc/apis/hyperconnection.hpp:56): Unsupported architecture",
    ],
    "e8m0-scale-dtype": [
        "RuntimeError: Expected b_scales.scalar_type() == torch::headeronly::ScalarType::Float to be true, but got "
        "false.",
    ],
    "e8m0-triton-scale": ["KeyError: 'float8_e8m0fnu'"],
    "moe-config-check": [
        "    assert self.intermediate_size % self.tp_size == 0",
        "AssertionError: EPLB currently only supports even distribution of experts across ranks.",
        "ValueError: The output_size of gate's and up's weight = 192 is not divisible by weight quantization block_n = "
        "128.",
    ],
    "routed-expert-capture-ascend": [
        '  File "/src/vllm-ascend/vllm_ascend/patch/worker/patch_routed_experts_capture.py", line 51, in capture',
    ],
    "routed-expert-capture-layout": ["AssertionError: RoutedExpertsCapturer: unexpected topk_ids batch dim 12"],
}


@pytest.mark.parametrize("slug", SLUGS)
def test_every_repro_names_a_script_and_an_environment_that_exist(slug: str) -> None:
    for repro in issue(slug)["repros"]:
        assert (ISSUES / slug / repro["script"]).is_file()
        if "environment" in repro:
            assert (ISSUES.parent / "recipes/environments" / f"{repro['environment']}.txt").is_file()


@pytest.mark.parametrize("slug", SLUGS)
def test_the_cheapest_repro_comes_first(slug: str) -> None:
    limits = [repro["timeout_seconds"] for repro in issue(slug)["repros"]]
    assert limits == sorted(limits)


@pytest.mark.parametrize("slug", SLUGS)
def test_the_log_signatures_match_the_error_users_see(slug: str) -> None:
    patterns, logs = issue(slug).get("log-signatures", []), LOGS.get(slug, [])
    assert len(patterns) == len(logs)
    for pattern, log in zip(patterns, logs, strict=True):
        assert re.search(pattern, log)


@pytest.mark.parametrize("slug", SLUGS)
def test_the_readme_tells_what_a_pass_does_not_prove(slug: str) -> None:
    text = (ISSUES / slug / "README.md").read_text()
    assert "What a pass proves" in text
    assert re.search("hardware|GPU", text)


@pytest.mark.parametrize("slug", SLUGS)
def test_an_issue_names_all_shared_modules_that_its_scripts_reach_and_no_others(slug: str) -> None:
    """An import that `uses:` lacks works by hand and fails in the harness, where only those named are found."""
    own = {file.stem for file in (ISSUES / slug).glob("*.py")}
    waiting = [*(ISSUES / slug).glob("*.py")]
    reached: set[str] = set()
    while waiting:
        named = imports(waiting.pop().read_text()) & SHARED - own - reached
        reached |= named
        waiting += [ISSUES / "shared" / f"{name}.py" for name in named]
    assert set(load_issue(ISSUES / slug).modules) == reached


def test_every_shared_module_is_used() -> None:
    assert {name for slug in SLUGS for name in load_issue(ISSUES / slug).modules} == SHARED


def imports(text: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def test_the_environment_pins_every_requirement_and_names_no_host() -> None:
    text = (ISSUES.parent / "recipes/environments/vllm-cpu.txt").read_text()
    wanted = [line.split(";")[0].strip() for line in text.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in wanted)
    assert "torch==2.13.0" in wanted
    assert "://" not in text
