"""The shipped patches on vLLM's real releases: they apply where they say so, and what comes out is Python.

Small trees of our own (tests/patches) cannot tell that upstream still has the shapes that the rewrites look for. Each
patch is tried alone, with those it requires, on every minor release: it applies, or says why it does not.
"""

from __future__ import annotations

import ast
import os
import warnings
from functools import cache
from pathlib import Path

import pytest

from patchkit.errors import RemoteUnavailable
from patchkit.recipe.load import load_patch, load_recipe
from patchkit.source.open import open_source
from patchkit.source.source import FactSettings, Source
from patchkit.stack.apply import apply_series
from patchkit.stack.outcome import Outcome, PatchRecord
from patchkit.stack.series import StackPatch, load_series
from patchkit.tools.cache import Cache
from patchkit.tools.toolkit import Toolkit

pytestmark = pytest.mark.contract

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "recipes" / "quickstart" / "recipe.yaml"
RELEASES = [f"v0.{minor}.0" for minor in range(20, 34)]
ASCEND = ["v0.22.1rc1", "v0.26.0rc1", "v0.30.0rc2"]  # releases of vLLM-Ascend, in its patch's range
PINS = {"deepgemm": "891d57b"}  # of the pins that a condition asks for, the one that holds
# Where a patch must apply, in the words of its README: a condition that lost its range would pass everything else.
RANGES = {
    "custom-op-functional": RELEASES[:3],
    "deepgemm-arch-guard": ["v0.20.0", "v0.21.0", *RELEASES[6:]],
    "deepgemm-fp8-einsum-guard": RELEASES,
    "deepgemm-sm12x-support": RELEASES[4:],
    "e8m0-upcast": RELEASES,
    "e8m0-upcast-triton": RELEASES[:10],
    "inductor-matcher-in-memory": RELEASES[:11],
    "moe-config-check": RELEASES,
    "routed-expert-capture-layout": RELEASES[2:],
    "routed-expert-capture-reset": RELEASES[8:],
}


@cache
def shipped(folder: Path) -> tuple[StackPatch, ...]:
    """Every shipped patch on vLLM itself, read through a recipe that names them all."""
    slugs = sorted(file.parent.name for file in (ROOT / "patches").glob("*/patch.yaml"))
    names = [slug for slug in slugs if load_patch(ROOT / "patches" / slug).patch.upstream == "vllm"]
    recipe = folder / "recipes" / "all" / "recipe.yaml"
    recipe.parent.mkdir(parents=True, exist_ok=True)
    upstream = "upstream: {vllm: {package: vllm, ref: v0.26.0}}"
    recipe.write_text(f"format: 1\nname: all\n{upstream}\nseries: [{', '.join(names)}]\n", encoding="utf-8")
    return load_series(load_recipe(recipe), "vllm")


@pytest.fixture
def source() -> Source:
    """vLLM's releases, from the index that pip is configured for."""
    toolkit = Toolkit(Cache(Path(os.environ["PATCHKIT_CACHE"])), env=dict(os.environ))
    upstream = load_recipe(QUICKSTART).recipe.upstream["vllm"]
    try:
        opened = open_source(toolkit, "vllm", upstream, "package")
        opened.resolve("v0.26.0")
    except RemoteUnavailable as error:
        pytest.skip(f"no package index with vLLM: {error}")
    return opened


def with_required(patch: StackPatch, patches: tuple[StackPatch, ...]) -> list[StackPatch]:
    before = [other for other in patches if other.name in patch.requires]
    return [*(item for other in before for item in with_required(other, patches)), patch]


def apply_alone(
    source: Source, release: str, patch: StackPatch, patches: tuple[StackPatch, ...]
) -> tuple[PatchRecord, dict[str, bytes]]:
    """The outcome of one patch, and the Python files that it made or changed."""
    commit = source.resolve(release)
    facts = source.facts(commit, FactSettings(arch="sm_121", python="3.12", torch="2.11.0", pins=PINS))
    result = apply_series(source, source.tree(commit), with_required(patch, patches), facts)
    record = result.records[-1]
    assert record.patch == patch.name
    if result.patched is None:
        return record, {}
    read = {path: source.repository.read(result.patched.id, path) for path in record.files}
    return record, {path: content for path, content in read.items() if content is not None and path.endswith(".py")}


@pytest.mark.parametrize("release", RELEASES)
def test_each_patch_applies_in_its_range_and_says_why_not_elsewhere(
    source: Source, release: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    patches = shipped(tmp_path_factory.getbasetemp() / "shipped")
    assert {patch.name for patch in patches} == set(RANGES)
    for patch in patches:
        record, contents = apply_alone(source, release, patch, patches)
        told = f"{patch.name} on {release}: {record.outcome}: {record.detail}"
        assert record.outcome in (Outcome.REWRITTEN, Outcome.NOT_APPLICABLE), told
        assert (record.outcome is Outcome.REWRITTEN) == (release in RANGES[patch.name]), told
        assert record.files if record.outcome is Outcome.REWRITTEN else record.detail, told
        for path, content in contents.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of upstream's code, about its escapes
                ast.parse(content, path)


def test_the_reason_names_what_does_not_hold(source: Source, tmp_path_factory: pytest.TempPathFactory) -> None:
    patches = shipped(tmp_path_factory.getbasetemp() / "shipped")
    reasons = {
        ("deepgemm-arch-guard", "v0.25.0"): "mhc_pre_broadcast_tilelang",
        ("deepgemm-sm12x-support", "v0.23.0"): "0.24",
        ("e8m0-upcast-triton", "v0.33.0"): "0.30",
    }
    for (name, release), reason in reasons.items():
        patch = next(patch for patch in patches if patch.name == name)
        record, _ = apply_alone(source, release, patch, patches)
        assert record.outcome is Outcome.NOT_APPLICABLE
        assert reason in record.detail


@pytest.mark.parametrize("release", ASCEND)
def test_the_patch_of_vllm_ascend_applies_in_its_range(release: str) -> None:
    toolkit = Toolkit(Cache(Path(os.environ["PATCHKIT_CACHE"])), env=dict(os.environ))
    loaded = load_recipe(ROOT / "recipes/qwen3-moe-capture-ascend/recipe.yaml")
    opened = open_source(toolkit, "vllm-ascend", loaded.recipe.upstream["vllm-ascend"], "package")
    (patch,) = load_series(loaded, "vllm-ascend")
    try:
        record, contents = apply_alone(opened, release, patch, (patch,))
    except RemoteUnavailable as error:
        pytest.skip(f"no package index with vLLM-Ascend: {error}")
    assert record.outcome is Outcome.REWRITTEN, record.detail
    assert contents
    for path, content in contents.items():
        ast.parse(content, path)
