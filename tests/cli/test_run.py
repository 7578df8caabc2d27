"""Exit codes are git's: with click's own 2 for a typo, `git bisect run patchkit …` would name an innocent commit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from patchkit.cli import main as table
from patchkit.cli.run import run


def test_an_unknown_verb_is_a_usage_error() -> None:
    assert run(["bisekt"]) == 129


def test_an_unknown_option_is_a_usage_error() -> None:
    assert run(["check", "--jsno"]) == 129


def test_no_arguments_show_the_help_and_are_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 129
    assert "bisect" in "".join(capsys.readouterr())


def test_a_recipe_that_does_not_exist_cannot_be_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["apply", str(tmp_path / "none.yaml")]) == 128
    assert "none.yaml" in capsys.readouterr().err


def test_a_bug_leaves_a_log_with_the_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("mended soon")

    monkeypatch.setenv("PATCHKIT_CACHE", str(tmp_path))
    monkeypatch.setattr(table.Verbs, "invoke", broken)
    assert run(["check", "x"]) == 128
    (log,) = (tmp_path / "logs").iterdir()
    assert "ZeroDivisionError: mended soon" in log.read_text()


def test_a_closed_pipe_is_no_bug(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        "import sys; sys.argv = ['patchkit', '--help']; from patchkit.cli.run import main; main()",
    ]
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(
        command, check=False, stdout=writer, stderr=subprocess.PIPE, env={**os.environ, "PATCHKIT_CACHE": str(tmp_path)}
    )
    os.close(writer)
    assert b"Traceback" not in result.stderr
    assert not (tmp_path / "logs").exists()


def test_an_unknown_verb_is_answered_with_the_one_that_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bisekt"]) == 129
    assert "did you mean bisect?" in capsys.readouterr().err


def test_a_store_of_nobody_is_a_wrong_request_and_no_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATCHKIT_CACHE", "~no-such-user-here/store")
    assert run(["cache"]) == 128
    err = capsys.readouterr().err
    assert "error: PATCHKIT_CACHE=~no-such-user-here/store: there is no such user" in err
    assert "bug" not in err


def test_a_name_with_a_line_feed_or_an_escape_stays_on_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["apply", "no\nerror: \x1b[31msuch.yaml"]) == 128
    assert capsys.readouterr().err.startswith("error: no\\nerror: \\x1b[31msuch.yaml: ")


@pytest.mark.parametrize("options", [["bogus"], ["--prune", "bogus"], ["../store", "--prune"]])
def test_a_kind_that_the_store_does_not_have_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    (tmp_path / "evidence").mkdir()
    monkeypatch.setenv("PATCHKIT_CACHE", str(tmp_path))
    assert run(["cache", *options]) == 128
    assert "hint: it has: evidence" in capsys.readouterr().err
    assert run(["cache", "evidence"]) == 0
    assert "evidence" in capsys.readouterr().out


@pytest.mark.parametrize("days", ["nan", "-1", "many"])
def test_days_that_are_no_number_of_days_are_a_usage_error(days: str) -> None:
    assert run(["cache", "--prune", "--unused-days", days]) == 129


def test_a_current_folder_that_is_gone_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert run(["check", "x.yaml"]) == 128
    assert "error: the current folder is not there any more" in capsys.readouterr().err


@pytest.mark.parametrize("to", [">/dev/full", ">&-"])
def test_an_output_that_cannot_be_written_is_no_bug(to: str) -> None:
    command = ["bash", "-c", f"{sys.executable} -m patchkit --version {to}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "bug" not in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == (128 if to == ">/dev/full" else 0)
