"""`patchkit preflight`: exit codes, the document, and what a person reads."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from patchkit.cli.run import run
from tests.diagnosis.test_installed import site

CONFIGS = Path(__file__).parents[1] / "diagnosis" / "configs"
MINIMAX = str(CONFIGS / "minimax-m2.json")


def ask(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = run(["preflight", *arguments, "--json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, document


def test_no_problem_is_0(capsys: pytest.CaptureFixture[str]) -> None:
    code, document = ask(capsys, MINIMAX, "--tp", "8", "--ep", "--arch", "sm_90")
    assert (code, document["format"], document["problems"]) == (0, 1, [])
    assert document["facts"]["experts_per_rank"] == [32] * 8


def test_a_problem_is_1_with_its_arithmetic(capsys: pytest.CaptureFixture[str]) -> None:
    code, document = ask(capsys, MINIMAX, "--tp", "8", "--vllm", "0.26.0")
    assert code == 1
    (problem,) = document["problems"]
    assert problem["check"] == "expert-blocks"
    assert problem["arithmetic"] == "1536 / 8 = 192; 192 = 128 × 1 + 64"
    assert set(problem) == {"check", "message", "arithmetic", "change", "upstream"}


def test_a_person_reads_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["preflight", MINIMAX, "--tp", "8"]) == 1
    out = capsys.readouterr().out
    assert "problem: intermediate_size 1536 cut by 8 gives 192" in out
    assert "  arithmetic: 1536 / 8 = 192; 192 = 128 × 1 + 64" in out
    assert "  change: dp × pcp × tp one of 1, 2, 3, 4, 6, 12" in out


def test_a_config_without_its_number_of_experts_is_128(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "llama", "num_attention_heads": 8}')
    assert run(["preflight", str(tmp_path)]) == 128
    assert "n_routed_experts or num_experts or num_local_experts" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["nothing.json"], 128),
        ([MINIMAX, "--arch", "gb10"], 128),
        ([MINIMAX, "--vllm", "main"], 128),
        ([MINIMAX, "--site-packages", "/nothing"], 128),
        ([MINIMAX, "--tp", "0"], 129),
        ([], 129),
    ],
)
def test_what_cannot_be_done_is_128_and_usage_129(arguments: list[str], code: int) -> None:
    assert run(["preflight", *arguments]) == code


def test_what_is_installed_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_kernels = site(tmp_path, (90, 100, 120))
    v4 = str(CONFIGS / "deepseek-v4-flash.json")
    code, document = ask(capsys, v4, "--arch", "sm_121", "--site-packages", str(with_kernels))
    assert document["facts"]["vllm"] == "0.33.0"
    assert document["facts"]["installed"]["deep_gemm"][0]["generates"] == ["sm_90", "sm_100", "sm_120"]
    assert (code, document["problems"]) == (0, [])
    assert [finding["check"] for finding in document["notes"]] == ["e8m0-scales", "deep-gemm-calls"]
    sites = {(one["variable"], one["site"]): one["reaches"] for one in document["facts"]["switches"]}
    assert sites["VLLM_USE_DEEP_GEMM", "mhc_pre_broadcast_tilelang of DeepSeek-V4"] is False


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from patchkit.cli.run import run; run(['preflight', sys.argv[1], '--json']); "
        "print('heavy:', *{name.partition('.')[0] for name in sys.modules} & {'pygit2', 'docker', 'pydantic', 'torch'})"
    )
    done = subprocess.run([sys.executable, "-c", code, MINIMAX], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "heavy:"
