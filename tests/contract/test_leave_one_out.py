"""Every patch of a shipped recipe is there for a reason: without it a repro is bad, on real releases of vLLM.

Static repros only, which take a second; tests/real has the others.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from patchkit.errors import RemoteUnavailable
from patchkit.tools.cache import Cache
from patchkit.tools.toolkit import Toolkit
from patchkit.verdict.expectation import Need
from patchkit.workflows.necessity import NecessityRequest, find_necessity

pytestmark = pytest.mark.contract

ROOT = Path(__file__).parents[2]
STATIC = {
    "deepgemm-arch-guard": "deepgemm-unsupported-arch/static",
    "deepgemm-fp8-einsum-guard": "deepgemm-fp8-einsum/static",
    "e8m0-upcast": "e8m0-scale-dtype/static",
}


def static_half(recipe: str, folder: Path) -> Path:
    """The recipe with the patches that have a static repro, and those repros, in a library of our own."""
    document = yaml.safe_load((ROOT / "recipes" / recipe / "recipe.yaml").read_text())
    document["series"] = [slug for slug in document["series"] if slug in STATIC]
    document["issues"] = [STATIC[slug] for slug in document["series"]]
    path = folder / "recipes" / "half" / "recipe.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.parametrize("release", ["v0.26.0", "v0.33.0"])
@pytest.mark.parametrize(("recipe", "patches"), [("quickstart", 2), ("deepseek-v4-gb10", 3), ("deepseek-v4-l20", 2)])
def test_without_any_one_patch_a_repro_is_bad(recipe: str, patches: int, release: str, tmp_path: Path) -> None:
    toolkit = Toolkit(Cache(Path(os.environ["PATCHKIT_CACHE"])), env=dict(os.environ))
    request = NecessityRequest(static_half(recipe, tmp_path), "package", at=release)
    try:
        removals = find_necessity(toolkit, request).removals
    except RemoteUnavailable as error:
        pytest.skip(f"no package index with vLLM: {error}")
    assert len(removals) == patches
    assert {one.patch: one.need for one in removals} == dict.fromkeys((one.patch for one in removals), Need.NEEDED)
    assert all(one.detail.startswith(f"{STATIC[one.patch]} is bad") for one in removals)
