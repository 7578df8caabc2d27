"""Every repro of every shipped recipe, on real vLLM releases: what its issue expects without and with the series.

That is bad for the right reason without and good with it; good both times for a guard against a wrong fix, and for an
issue that by its `affects` is not there (repaired upstream, or a matter of a pin that the recipe does not have).

A patch that only satisfies its own static repro would pass everything else in these tests.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from patchkit.pipeline import is_affected, open_recipe, resolve_commit
from patchkit.tools.cache import Cache
from patchkit.tools.toolkit import Toolkit

ROOT = Path(__file__).parents[2]
RECIPES = [
    "deepseek-v4-gb10/recipe.yaml",
    "deepseek-v4-l20/recipe.yaml",
    "deepseek-v3.2-moe/recipe.yaml",
    "qwen3-moe-capture-ascend/vllm.yaml",  # the vLLM half of the pair
]
RELEASES = ["v0.26.0", "v0.33.0"]
ASCEND = ("qwen3-moe-capture-ascend/recipe.yaml", "routed-expert-capture-ascend")


def ask(path: Path, release: str, *more: str) -> dict[str, dict[str, str]]:
    """The answers of a recipe's repros, by repro and series."""
    command = ["repro", str(path), "--at", release, "--source", "package", "--fresh", "--json", *more]
    result = subprocess.run([sys.executable, "-m", "patchkit", *command], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    answers: dict[str, dict[str, str]] = {}
    for verdict in json.loads(result.stdout)["verdicts"]:
        answers.setdefault(f"{verdict['issue']}/{verdict['repro']}", {})[verdict["series"]] = verdict["answer"]
    return answers


@pytest.mark.real
@pytest.mark.parametrize("release", ["v0.26.0rc1", "v0.30.0rc2"])
def test_the_half_of_vllm_ascend_is_bad_without_its_patch_and_good_with_it(release: str) -> None:
    recipe, issue = ASCEND
    answers = ask(ROOT / "recipes" / recipe, release, "--issue", issue)
    assert answers == {f"{issue}/prepare": {"without": "bad", "with": "good"}}


@pytest.mark.real
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("recipe", RECIPES)
def test_each_issue_answers_as_it_says_without_the_series_and_with_it(recipe: str, release: str) -> None:
    path = ROOT / "recipes" / recipe
    answers = ask(path, release)
    assert len(answers) >= 2
    toolkit = Toolkit(Cache(Path(os.environ["PATCHKIT_CACHE"])), env=dict(os.environ))
    opened = open_recipe(toolkit, path, "package")
    commit = resolve_commit(opened, release)
    for name, pair in answers.items():
        issue = opened.loaded.issues[name.partition("/")[0]]
        expects = issue.issue.expects
        affected = is_affected(opened, issue, commit) is not False
        assert pair == {"without": expects.without if affected else "good", "with": expects.with_}, name
