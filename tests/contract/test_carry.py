"""Patches that are carried, on vLLM's real releases: what is handed on makes the same tree, and comes back the same."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from patchkit.errors import RemoteUnavailable
from patchkit.tools.cache import Cache
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.apply import ApplyRequest, apply_recipe
from patchkit.workflows.export import ExportReport, ExportRequest, export_recipe
from patchkit.workflows.import_patch import ImportRequest, import_patch
from patchkit.workflows.refresh import RefreshRequest, refresh_recipe

pytestmark = pytest.mark.contract

ROOT = Path(__file__).parents[2]
OWN = """format: 1
name: own
upstream: {vllm: {package: vllm, ref: v0.26.0}}
series: []   # what comes back
"""


@pytest.fixture
def kit() -> Toolkit:
    return Toolkit(Cache(Path(os.environ["PATCHKIT_CACHE"])), env=dict(os.environ))


def export(kit: Toolkit, name: str, to: Path) -> ExportReport:
    recipe = ROOT / "recipes" / name / "recipe.yaml"
    try:
        return export_recipe(kit, ExportRequest(recipe, to, source="package"))
    except RemoteUnavailable as error:
        pytest.skip(f"no package index: {error.message}")


def git(folder: Path, *arguments: str) -> str:
    env = {
        **os.environ,
        "GIT_CONFIG_NOSYSTEM": "1",
        "HOME": str(folder),
        "GIT_COMMITTER_NAME": "c",
        "GIT_COMMITTER_EMAIL": "c@x",
    }
    return subprocess.run(["git", *arguments], cwd=folder, env=env, capture_output=True, check=True, text=True).stdout


@pytest.mark.parametrize("name", ["quickstart", "deepseek-v4-gb10", "deepseek-v4-l20"])
def test_git_am_makes_the_tree_of_a_shipped_recipe(kit: Toolkit, name: str, tmp_path: Path) -> None:
    report = export(kit, name, tmp_path / "out")
    applied = apply_recipe(kit, ApplyRequest(ROOT / "recipes" / name / "recipe.yaml", source="package"))
    assert applied.result.patched is not None
    assert report.tree == applied.result.patched.id
    git(tmp_path, "init", "-q", "work")
    work = tmp_path / "work"
    (work / ".git/objects/info/alternates").write_text(f"{applied.base.repository.path / 'objects'}\n")
    git(work, "checkout", "-q", report.commit.id)
    git(work, "am", "-q", "--keep-cr", *(str(tmp_path / "out" / file) for file in report.files))
    assert git(work, "rev-parse", "HEAD^{tree}").strip() == report.tree


def test_what_was_handed_on_comes_back_and_is_fresh(kit: Toolkit, tmp_path: Path) -> None:
    report = export(kit, "quickstart", tmp_path / "out")
    recipe = tmp_path / "library/recipes/own/recipe.yaml"
    recipe.parent.mkdir(parents=True)
    recipe.write_text(OWN)
    for file in report.files:
        what = str(tmp_path / "out" / file)
        (taken,) = import_patch(kit, ImportRequest(what, recipe, add=True, source="package")).patches
        assert taken.state == "new"
    refreshed = refresh_recipe(kit, RefreshRequest(recipe, source="package"))
    assert (refreshed.stands, refreshed.written) == (True, ())
    patched = apply_recipe(kit, ApplyRequest(recipe, source="package")).result.patched
    assert patched is not None
    assert patched.id == report.tree
