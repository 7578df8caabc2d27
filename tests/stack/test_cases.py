"""Real situations of real patches on vLLM's history, with the right answers known: git told them, commit by commit.

Needs a clone of vLLM with its history to 2026-05 in PATCHKIT_VLLM_CLONE, and for the last three cases a clone of
eugr/spark-vllm-docker in PATCHKIT_SPARK_CLONE. Without them one test is skipped and says so, in CI not even that: the
situations themselves are tested on small repositories beside this file, these tests say that the real ones are told the
same. `python -m benchmarks.patch` runs them, too.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from benchmarks.patch_clone import Clone, patch_of
from patchkit.source.source import FactSettings
from patchkit.stack.lineage.lineage import Lineage
from patchkit.stack.outcome import Outcome
from patchkit.stack.series import StackPatch
from patchkit.stack.status.examine import examine_series
from patchkit.stack.status.model import HunkAnswer, PatchStatus
from patchkit.stack.status.window import DryRun, find_window
from tests.stack.bench import GivenFacts

VLLM = os.environ.get("PATCHKIT_VLLM_CLONE", "")
SPARK = os.environ.get("PATCHKIT_SPARK_CLONE", "")
TIP = "4ff865c38"
STANDS = {Outcome.CLEAN, Outcome.OFFSET}


def git(path: str, *arguments: str) -> bytes:
    return subprocess.run(["git", "--git-dir", path, *arguments], check=True, capture_output=True).stdout


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """The clone's objects under a repository of our own: what the engine writes does not go into the clone."""
    return Clone.over(Path(VLLM), tmp_path_factory.mktemp("clone") / "vllm.git", TIP)


def pull(commit: str) -> bytes:
    return git(VLLM, "diff", "--full-index", f"{commit}^", commit)


def file(path: str) -> bytes:
    return git(SPARK, "show", f"HEAD:{path}")


def status(clone: Clone, patch: StackPatch, at: str) -> PatchStatus:
    tree = clone.tree(clone.resolve(at))
    (found,) = examine_series(clone, tree, (patch,), GivenFacts()).patches  # type: ignore[arg-type]
    return found


def window(clone: Clone, patch: StackPatch, first: str, last: str) -> list[tuple[Outcome, str, str]]:
    ends = [clone.resolve(ref).id for ref in (first, last)]
    history = clone.repository.parents_between(*ends)
    run = DryRun(clone, (patch,), FactSettings(), Lineage(clone.repository, ends[1]))  # type: ignore[arg-type]
    return [(one.outcome, one.first[:10], one.last[:10]) for one in find_window(run, history, ends[0]).segments]


if not (VLLM and SPARK) and os.environ.get("CI") != "true":

    def test_the_real_situations_need_clones() -> None:
        pytest.skip("PATCHKIT_VLLM_CLONE and PATCHKIT_SPARK_CLONE name no clones of the real repositories")


if VLLM:

    def test_pr_window_and_what_comes_before_and_after_it(clone: Clone, tmp_path: Path) -> None:
        patch = patch_of(tmp_path, "p", pull("cf3eacfe58"))
        assert status(clone, patch, "d017bceb08").outcome in STANDS
        assert status(clone, patch, "cf3eacfe58^").outcome in STANDS
        old = status(clone, patch, "d017bceb08^")
        assert old.outcome is Outcome.CONFLICT
        (failed,) = [hunk for hunk in old.hunks if hunk.answer not in {HunkAnswer.APPLIES, HunkAnswer.OFFSET}]
        assert failed.answer is HunkAnswer.TOO_OLD
        assert failed.by is not None
        assert failed.by.commit.startswith("d017bceb08")
        last = git(VLLM, "rev-parse", "cf3eacfe58^").decode()[:10]
        found = window(clone, patch, "d017bceb08~5", "cf3eacfe58")
        assert found[-2:] == [
            (Outcome.CLEAN, "d017bceb08", last),
            (Outcome.ALREADY_UPSTREAM, "cf3eacfe58", "cf3eacfe58"),
        ]
        assert found[-3][0] is Outcome.CONFLICT

    @pytest.mark.parametrize("at", ["cf3eacfe58", "9f2fc16a69", TIP])
    def test_pr_upstreamed_is_told_at_once_and_half_a_year_later(clone: Clone, tmp_path: Path, at: str) -> None:
        found = status(clone, patch_of(tmp_path, "p", pull("cf3eacfe58")), at)
        assert found.outcome is Outcome.ALREADY_UPSTREAM
        assert found.upstreamed is not None
        assert found.upstreamed.by.commit.startswith("cf3eacfe58")

    def test_pr_native_says_that_it_needs_a_build(clone: Clone, tmp_path: Path) -> None:
        patch = patch_of(tmp_path, "p", pull("e502098643"))
        before = status(clone, patch, "e502098643^")
        assert (before.outcome in STANDS, before.native) == (True, True)
        after = status(clone, patch, "1656ad3704")
        assert after.outcome is Outcome.ALREADY_UPSTREAM
        assert after.upstreamed is not None
        assert after.upstreamed.by.commit.startswith("e502098643")

    def test_pr_tests_only_offers_what_to_exclude(clone: Clone, tmp_path: Path) -> None:
        found = status(clone, patch_of(tmp_path, "p", pull("06d020bb6e")), "c1cc7344f")
        assert (found.outcome, found.exclude) == (Outcome.TEST_ONLY, ("tests/**",))
        failed = {hunk.path for hunk in found.hunks if hunk.answer not in {HunkAnswer.APPLIES, HunkAnswer.OFFSET}}
        assert failed == {"tests/kernels/moe/test_moe.py"}
        assert any(hunk.answer is HunkAnswer.OFFSET for hunk in found.hunks)


if VLLM and SPARK:

    @pytest.mark.parametrize("at", ["d6953beb91", "75f0d516c4^"])
    def test_mod_prefix_applies_after_re_rooting(clone: Clone, tmp_path: Path, at: str) -> None:
        patch = patch_of(tmp_path, "p", file("mods/fix-Salyut1-GLM-4.7-NVFP4/glm4_moe.patch"), strip=6)
        assert status(clone, patch, at).outcome in STANDS

    def test_mod_superseded_is_refused_and_names_the_other_fix(clone: Clone, tmp_path: Path) -> None:
        patch = patch_of(tmp_path, "p", file("mods/fix-Salyut1-GLM-4.7-NVFP4/glm4_moe.patch"), strip=6)
        found = status(clone, patch, "75f0d516c4")
        assert not found.outcome.stands
        assert [touch.commit[:10] for touch in found.superseded_by] == ["75f0d516c4"]

    def test_window_end_is_a_conflict_with_the_commit_that_changes_the_same_lines(clone: Clone, tmp_path: Path) -> None:
        patch = patch_of(tmp_path, "p", file("fastsafetensors.patch"))
        found = status(clone, patch, "d9bede0314")
        assert (found.outcome, [touch.commit[:10] for touch in found.superseded_by]) == (
            Outcome.CONFLICT,
            ["d9bede0314"],
        )
        last = git(VLLM, "rev-parse", "d9bede0314^").decode()[:10]
        segments = window(clone, patch, "d9bede0314~200", "d9bede0314")
        assert segments[-2:] == [(Outcome.CLEAN, segments[-2][1], last), (Outcome.CONFLICT, "d9bede0314", "d9bede0314")]
