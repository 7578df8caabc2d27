"""The words of `bisect --fix-up`: the offer is a command that works, and every report says what was carried."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from patchkit.cli.run import run
from tests.workflows.test_bisect_holes import grown, hole


def test_the_offer_is_a_command_that_finds_the_culprit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world, commits = grown(tmp_path, hole(4, 2, 2, 4))
    words = ["bisect", str(world.recipe), "--source", "git", "--good", commits[0], "--bad", "main"]
    assert run([*words, "--series", "without", "--exhaustive"]) == 1
    offer = re.search(r"next: if .*: patchkit (bisect .*)", capsys.readouterr().out)
    assert offer is not None
    offered = shlex.split(offer[1])
    reports = [f"--{name}={tmp_path / name}" for name in ("html", "markdown", "junit")]
    assert run([*offered, *reports, "--explain"]) == 0
    out = capsys.readouterr().out
    repair = commits[8][:12]
    assert f"{commits[6]} is the first bad commit (confirmed)" in out
    assert f"{commits[6][:12]} was told with {repair} carried onto it" in out
    for name in ("html", "markdown", "junit"):
        assert f", with {repair}" in (tmp_path / name).read_text()
    assert run(["bisect", "log", *offered[1:]]) == 0
    assert f"  with {repair}" in capsys.readouterr().out
    assert run(["bisect", "replay", *offered[1:]]) == 0
    assert "all as in the journal" in capsys.readouterr().out


def test_what_is_no_commit_is_told_before_anything_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world, commits = grown(tmp_path, hole(2, 1, 1, 2))
    words = ["bisect", str(world.recipe), "--good", commits[0], "--bad", "main", "--source", "git"]
    assert run([*words, "--fix-up", "nowhere"]) == 128
    assert "nowhere" in capsys.readouterr().err
    assert run([*words, "--fix-up=--output=x"]) == 128
    assert "--output=x" in capsys.readouterr().err
    assert world.runs == []


def test_a_fix_up_that_the_good_end_has_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world, commits = grown(tmp_path, hole(4, 0, 0, 3))
    words = ["bisect", str(world.recipe), "--good", commits[2], "--bad", "main", "--source", "git"]
    assert run([*words, "--fix-up", commits[1]]) == 0
    assert f"{commits[2][:12]} has it already" in capsys.readouterr().err
