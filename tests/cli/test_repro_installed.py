"""Repros beside a patched distribution: the series reaches the torch of the environment, and that stays as it is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from patchkit.cli.run import run
from tests.support.repositories import GitRepository
from tests.support.wheels import install, make_wheel

RECIPE = """
format: 1
name: product
upstream:
  vllm: {{git: "{url}", ref: main}}
  torch: {{site-packages: "{site}", ref: {ref}}}
series: [matcher]
issues: [compile]
environment: {{python: "{python}"}}
"""
ISSUE = """
format: 1
title: Compiling fails
signature: "was not removed"
repros:
  - {name: compile, fidelity: real, script: repro.py}
"""
REPRO = """
import os, subprocess, sys
import engine
import torch.matcher
said = subprocess.run(
    [sys.executable, "-c", "import torch.matcher; print(torch.matcher.accepts)"], capture_output=True, text=True
)
assert said.stdout.strip() == str(torch.matcher.accepts), said
sys.exit(0 if torch.matcher.accepts else "was not removed")
"""
PATCH = """
format: 1
title: Let the matcher accept
upstream: torch
issue: [compile]
when: "torch >= 2.11"
change:
  - {rewrite: steps.yaml}
"""
STEPS = '- {file: torch/matcher.py, match: "accepts = False", replace: "accepts = True"}\n'


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    site = next(venv.glob("lib/python*/site-packages"))
    files = {"torch/__init__.py": "", "torch/matcher.py": "accepts = False\n"}
    install(make_wheel(tmp_path, files, "torch", "2.13.0+cpu"), site)
    upstream = GitRepository(tmp_path / "upstream")
    upstream.commit({"engine.py": "x = 1\n"})
    upstream.tag("v1")
    python = venv / "bin/python"
    for path, text in {
        "recipes/product/recipe.yaml": RECIPE.format(url=upstream.url, site=site, ref="v2.13.0", python=python),
        "issues/compile/issue.yaml": ISSUE,
        "issues/compile/repro.py": REPRO,
        "patches/matcher/patch.yaml": PATCH,
        "patches/matcher/steps.yaml": STEPS,
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path / "recipes/product/recipe.yaml"


def verdicts_of(capsys: pytest.CaptureFixture[str]) -> list[tuple[str, str, str]]:
    document = json.loads(capsys.readouterr().out)
    return [(one["series"], one["answer"], one["reason"]) for one in document["verdicts"]]


def test_the_patch_of_what_is_installed_turns_the_issue_good(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-q", "repro", str(recipe), "--json"]) == 0
    assert verdicts_of(capsys) == [("without", "bad", "signature"), ("with", "good", "passed")]
    (matcher,) = recipe.parents[2].glob("venv/lib/python*/site-packages/torch/matcher.py")
    assert matcher.read_text() == "accepts = False\n"


def test_the_series_without_the_patch_is_as_bad_as_none(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-q", "repro", str(recipe), "--series", "others", "--json"]) == 1
    assert verdicts_of(capsys) == [("others", "bad", "signature")]


def test_a_patch_that_does_not_stand_is_a_skip_with_its_reason(
    recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (recipe.parents[2] / "patches/matcher/steps.yaml").write_text(STEPS.replace("accepts", "refuses"))
    assert run(["-q", "repro", str(recipe), "--series", "with", "--json"]) == 125
    assert verdicts_of(capsys) == [("with", "skip", "conflict")]


def test_another_version_than_the_recipe_says_stops(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe.write_text(recipe.read_text().replace("v2.13.0", "v2.11.0"))
    assert run(["-q", "repro", str(recipe), "--series", "with"]) == 128
    assert "torch 2.13.0+cpu is installed, not 2.11.0" in capsys.readouterr().err


def test_an_issue_of_what_is_installed_has_no_tree_to_run(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    issue = recipe.parents[2] / "issues/compile/issue.yaml"
    issue.write_text(f"{ISSUE}upstream: torch\n")
    assert run(["check", str(recipe)]) == 1
    told = capsys.readouterr()
    assert "compile is about torch, which is no tree to run here" in told.out + told.err


def test_the_lock_holds_what_is_installed(recipe: Path) -> None:
    assert run(["-q", "lock", str(recipe)]) == 0
    lock = recipe.with_name("recipe.lock").read_text()
    assert 'version: "2.13.0+cpu"' in lock
    assert run(["-q", "repro", str(recipe), "--series", "with", "--locked"]) == 0
    (matcher,) = recipe.parents[2].glob("venv/lib/python*/site-packages/torch/matcher.py")
    matcher.write_text("accepts = True\n")
    assert run(["-q", "repro", str(recipe), "--series", "with", "--locked"]) == 128
