"""`git bisect run patchkit repro …` reads exit codes its own way: a skip told as 1 would name an innocent commit."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workflows.worlds import World, linear

#             0        1        2         3         4         5         6        7        8
HISTORY = ["absent", "good", "broken", "broken", "broken", "fault", "fault", "fault", "fault"]
SPARED = ["good", "good", "good", "broken", "good", "good", "good", "fault", "fault"]


def git(folder: Path, *arguments: str, **variables: str) -> str:
    result = subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, **variables}
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def patchkit(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "patchkit", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def bisect(world: World, good: str, bad: str, tmp_path: Path) -> str:
    """Clone, bisect with plain git and return what git printed."""
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", world.upstream.url, str(clone))
    git(clone, "bisect", "start", bad, good)
    probe = [sys.executable, "-m", "patchkit", "repro", str(world.recipe), "--series", "without", "--at", "."]
    result = subprocess.run(
        ["git", "bisect", "run", "sh", "-c", shlex.join(probe)], cwd=clone, capture_output=True, text=True, check=False
    )
    return result.stdout + result.stderr


def test_git_bisect_run_finds_the_commit_and_skips_a_broken_one(tmp_path: Path) -> None:
    world, commits = linear(tmp_path / "world", SPARED)
    output = bisect(world, commits[0], commits[8], tmp_path)
    assert f"{commits[7]} is the first bad commit" in output


def test_git_bisect_run_names_only_suspects_when_a_broken_stretch_hides_the_turn(tmp_path: Path) -> None:
    world, commits = linear(tmp_path / "world", HISTORY)
    output = bisect(world, commits[0], commits[8], tmp_path)
    assert "only 'skip'ped commits left to test" in output
    tail = output[output.index("could be any of") :]
    assert set(re.findall(r"[0-9a-f]{40}", tail)) == set(commits[2:6])


@pytest.mark.parametrize(
    ("at", "series", "code"),
    [(1, "without", 0), (5, "without", 1), (3, "without", 125), (5, "with", 0), (5, "both", 0), (3, "both", 125)],
)
def test_the_exit_code_is_what_git_reads(tmp_path: Path, at: int, series: str, code: int) -> None:
    world, commits = linear(tmp_path / "world", HISTORY)
    result = patchkit("repro", str(world.recipe), "--series", series, "--at", commits[at], cwd=tmp_path)
    assert result.returncode == code, result.stdout + result.stderr


def test_a_recipe_that_is_wrong_stops_the_bisect_with_its_place(tmp_path: Path) -> None:
    world, commits = linear(tmp_path / "world", SPARED)
    world.recipe.write_text(world.recipe.read_text().replace("series:", "serie:"))
    result = patchkit("repro", str(world.recipe), "--at", commits[1], cwd=tmp_path)
    assert result.returncode == 128
    assert re.search(r"recipe\.yaml:\d+:\d+: serie: ", result.stderr)
