"""The shipped patches on vLLM's real releases: they apply, to the files they are about, and what comes out is Python.

Small trees of our own (tests/patches) cannot tell that upstream still has the shapes that the rewrites look for.
"""

from __future__ import annotations

import ast
import os
import warnings
from pathlib import Path

import pytest

from patchkit.errors import RemoteUnavailable
from patchkit.recipe.load import load_recipe
from patchkit.source.open import open_source
from patchkit.source.source import FactSettings, Source
from patchkit.stack.apply import apply_series
from patchkit.stack.outcome import Outcome, SeriesResult
from patchkit.stack.series import load_series
from patchkit.tools.cache import Cache
from patchkit.tools.toolkit import Toolkit

pytestmark = pytest.mark.contract

QUICKSTART = Path(__file__).parents[2] / "recipes" / "quickstart" / "recipe.yaml"
FILES = {
    "deepgemm-arch-guard": ("vllm/model_executor/kernels/mhc/tilelang.py",),
    "e8m0-upcast": ("vllm/model_executor/kernels/linear/scaled_mm/cutlass.py",),
}


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


def apply(source: Source, release: str) -> SeriesResult:
    commit = source.resolve(release)
    facts = source.facts(commit, FactSettings(arch="sm_121", python="3.12", torch="2.11.0"))
    return apply_series(source, source.tree(commit), load_series(load_recipe(QUICKSTART), "vllm"), facts)


@pytest.mark.parametrize("release", ["v0.26.0", "v0.28.0", "v0.30.0", "v0.33.0"])
def test_both_patches_apply_to_a_release_with_both_faults(source: Source, release: str) -> None:
    result = apply(source, release)
    assert {record.patch: (record.outcome, record.files) for record in result.records} == {
        patch: (Outcome.REWRITTEN, files) for patch, files in FILES.items()
    }
    assert result.patched is not None
    for path in (path for files in FILES.values() for path in files):
        content = source.repository.read(result.patched.id, path)
        assert content is not None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of upstream's code, about its escapes
            ast.parse(content)


def test_the_guard_is_not_applicable_before_the_function_was_there(source: Source) -> None:
    guard, upcast = apply(source, "v0.25.1").records
    assert (guard.outcome, upcast.outcome) == (Outcome.NOT_APPLICABLE, Outcome.REWRITTEN)
    assert "mhc_pre_broadcast_tilelang" in guard.detail
