"""Every patch of a shipped recipe is needed: removed alone, one of its issues is bad again, on real vLLM with torch.

A patch that does not apply at the recipe's release (a later fault, another DeepGEMM) is tried where it does.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
NEEDED, NOT_HERE = "needed", "not-here"


def needs(recipe: Path, *options: str) -> dict[str, str]:
    """What `repro --leave-one-out` says of each patch."""
    command = [sys.executable, "-m", "patchkit", "repro", str(recipe), "--source", "package", "--leave-one-out"]
    done = subprocess.run([*command, "--json", *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return {one["patch"]: one["need"] for one in json.loads(done.stdout)["removals"]}


@pytest.mark.real
@pytest.mark.parametrize(
    ("recipe", "release", "expected"),
    [
        (
            "deepseek-v4-gb10/recipe.yaml",
            "v0.26.0",
            {
                "deepgemm-arch-guard": NEEDED,
                "deepgemm-fp8-einsum-guard": NEEDED,
                "deepgemm-sm12x-support": NOT_HERE,
                "e8m0-upcast": NEEDED,
            },
        ),
        (
            "deepseek-v4-l20/recipe.yaml",
            "v0.26.0",
            {"deepgemm-arch-guard": NEEDED, "deepgemm-fp8-einsum-guard": NEEDED, "e8m0-upcast-triton": NEEDED},
        ),
        ("deepseek-v4-l20/op.yaml", "v0.22.0", {"custom-op-functional": NEEDED}),
        ("deepseek-v4-l20/torch.yaml", "v0.22.0", {"torch-auto-functionalized-matcher": NEEDED}),
        ("deepseek-v3.2-moe/recipe.yaml", "v0.26.0", {"moe-config-check": NEEDED}),
        (
            "qwen3-moe-capture-ascend/vllm.yaml",
            "v0.26.0",
            {"routed-expert-capture-layout": NEEDED, "routed-expert-capture-reset": NOT_HERE},
        ),
        (
            "qwen3-moe-capture-ascend/vllm.yaml",
            "v0.30.0",
            {"routed-expert-capture-layout": NEEDED, "routed-expert-capture-reset": NEEDED},
        ),
    ],
)
def test_without_any_one_patch_an_issue_is_bad_again(recipe: str, release: str, expected: dict[str, str]) -> None:
    assert needs(ROOT / "recipes" / recipe, "--at", release) == expected


@pytest.mark.real
def test_the_patch_for_a_deepgemm_without_kernels_is_needed_with_such_a_one(tmp_path: Path) -> None:
    document: dict[str, Any] = yaml.safe_load((ROOT / "recipes/deepseek-v4-gb10/recipe.yaml").read_text())
    patch = "deepgemm-sm12x-support"
    document |= {"pins": {"deepgemm": "891d57b"}, "series": [patch], "issues": [patch]}
    path = tmp_path / "recipes" / "pinned" / "recipe.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(yaml.safe_dump(document))
    assert needs(path) == {patch: NEEDED}
