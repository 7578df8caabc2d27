"""`triage` is called by people in trouble and by programs that page them: the answer, and an exit code to branch on."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from patchkit.cli.run import run
from tests.recipe.files import write_library

LOGS = Path(__file__).parents[1] / "diagnosis" / "logs"
C1, D = str(LOGS / "c1-mhc-unsupported-arch.log"), str(LOGS / "d-e8m0-scales.log")


def test_a_known_failure_leads_to_its_issue_patch_recipe_and_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["triage", C1]) == 0
    rows = [line.split(None, 1) for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    told = {row[0]: row[1].strip() for row in rows}
    assert told["frame"].endswith("mhc/tilelang.py:374 in mhc_pre_broadcast_tilelang")
    assert told["issue"].startswith("deepgemm-unsupported-arch: ")
    assert told["patch"] == "deepgemm-arch-guard"
    assert "deepseek-v4-gb10" in told["recipe"]
    assert "vllm 0.26.0" in told["seen"]
    assert "patchkit repro deepseek-v4-gb10 --issue deepgemm-unsupported-arch" in [row[1].strip() for row in rows]


def test_json_has_the_root_cause_the_matches_and_how_far_it_got(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["triage", "--json", D]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == 1
    assert document["root_cause"]["ranks"] == ["TP2", "TP0", "TP1", "TP3"]
    assert document["root_cause"]["frame"]["function"] == "apply_block_scaled_mm"
    assert document["progress"] == {"stage": "profile run", "done": 0, "total": 0, "part": "linear layer"}
    assert [match["issue"] for match in document["matches"]] == ["e8m0-scale-dtype"]
    assert document["facts"]["tensor_parallel"] == "4"
    assert "before" not in document


def test_before_tells_whether_the_failure_moved_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["triage", "--before", C1, D]) == 0
    assert "moved on from profile run, hyper-connection to profile run, linear layer" in capsys.readouterr().out
    assert run(["triage", "--json", "--before", D, D]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["change"] == "same"
    assert document["before"]["root_cause"]["rank"] == "TP2"


def test_an_unknown_failure_is_told_as_unknown_with_its_cause(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["triage", str(LOGS / "unknown-slurm.log")]) == 0
    out = capsys.readouterr().out
    assert "KeyError: 'block_topk'" in out
    assert "none of the library" in out
    assert "log signature: KeyError: 'block_topk'" in out


def test_a_log_without_a_failure_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["triage", str(LOGS / "healthy.log")]) == 1
    assert "no failure" in capsys.readouterr().out


def test_stdin_is_read_for_a_dash(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.TextIOWrapper(io.BytesIO(b"vllm serve: error: unrecognized arguments: --foo\n"))
    monkeypatch.setattr(sys, "stdin", stream)
    assert run(["triage", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["root_cause"]["kind"] == "arguments"
    assert run(["triage", "-", "--before", "-"]) == 129


@pytest.mark.parametrize(
    ("content", "hint"),
    [(b"\x1f\x8b\x08rest", "zcat"), (b"\xff\xfeE\x00r\x00", "iconv"), (b"(\xb5/\xfdrest", "zstdcat")],
)
def test_a_log_that_is_no_text_is_refused_with_the_command_that_reads_it(
    content: bytes, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log").write_bytes(content)
    assert run(["triage", str(tmp_path / "log")]) == 128
    assert hint in capsys.readouterr().err


def test_what_cannot_be_read_exits_with_128(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["triage", str(tmp_path / "gone.log")]) == 128
    assert run(["triage", str(tmp_path)]) == 128
    assert run(["triage", "a\0b"]) == 128
    assert capsys.readouterr().out == ""


def test_issues_of_the_users_own_library_are_matched_and_a_broken_one_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_library(tmp_path)
    issue = tmp_path / "issues" / "crash" / "issue.yaml"
    issue.write_text(issue.read_text(encoding="utf-8") + 'log-signatures: ["block_topk"]\n', encoding="utf-8")
    broken = tmp_path / "issues" / "broken" / "issue.yaml"
    broken.parent.mkdir()
    broken.write_text("format: 9\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert run(["triage", "--json", str(LOGS / "unknown-slurm.log")]) == 0
    captured = capsys.readouterr()
    assert [match["issue"] for match in json.loads(captured.out)["matches"]] == ["crash"]
    assert "issue broken is left out" in captured.err


def test_words_of_the_log_do_not_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "log").write_bytes(b"RuntimeError: a\x07\x1bPb\x9b31m\n")
    assert run(["triage", str(tmp_path / "log")]) == 0
    out = capsys.readouterr().out
    assert all(character.isprintable() or character == "\n" for character in out)
