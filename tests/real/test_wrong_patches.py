"""Patches that look right and are not, on real vLLM: each one must leave the repro bad, for the reason it is wrong.

A repro that a wrong patch satisfies is worse than none: it says "fixed" to whoever follows the advice.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "patches"
KERNELS = "vllm/model_executor/kernels/linear/scaled_mm"
UPCAST = """\
    def process_weights_after_loading(self, layer):
        from vllm.model_executor.layers.quantization.utils.fp8_utils import _upcast_e8m0_to_fp32
        from vllm.model_executor.utils import replace_parameter

        super().process_weights_after_loading(layer)
        for name in ("weight_scale_inv", "weight_scale"):
            scale = getattr(layer, name, None)
            if scale is not None and scale.dtype == torch.float8_e8m0fnu:
                replace_parameter(layer, name, _upcast_e8m0_to_fp32(scale.data).contiguous())
"""
IN_THE_BASE = f"""\
- file: {KERNELS}/BlockScaledMMLinearKernel.py
  inside: Fp8BlockScaledMMLinearKernel.process_weights_after_loading
  match: process_fp8_weight_block_strategy($WEIGHT, $SCALE)
  replace: process_fp8_weight_block_strategy($WEIGHT, $SCALE.to(torch.float32))
"""


def lay_out(folder: Path, issue: str, wrong: dict[str, str]) -> Path:
    """A library with one wrong patch; issues and environments are the shipped ones."""
    patch = folder / "patches" / "wrong"
    patch.mkdir(parents=True)
    head = 'format: 1\ntitle: A wrong patch\nwhy: Wrong.\nwhen: "vllm >= 0.20"\n'
    (patch / "patch.yaml").write_text(f"{head}change:\n  - {{rewrite: steps.yaml}}\n", encoding="utf-8")
    for name, text in wrong.items():
        (patch / name).write_text(text, encoding="utf-8")
    recipe = folder / "recipes" / "wrong" / "recipe.yaml"
    recipe.parent.mkdir(parents=True)
    upstream = "upstream: {vllm: {package: vllm, ref: v0.33.0}}\ntarget: {arch: sm_121}"
    environment = "environment: {env: {VLLM_TARGET_DEVICE: cpu}}"
    text = (
        f"format: 1\nname: wrong\n{upstream}\nseries: [deepgemm-arch-guard, wrong]\nissues: [{issue}]\n{environment}\n"
    )
    recipe.write_text(text, encoding="utf-8")
    return recipe


def ask(recipe: Path) -> tuple[str, str]:
    """The answer with the series, and what the repro said."""
    command = ["repro", str(recipe), "--series", "with", "--source", "package", "--json"]
    result = subprocess.run([sys.executable, "-m", "patchkit", *command], capture_output=True, text=True, check=False)
    (verdict,) = json.loads(result.stdout)["verdicts"]
    return verdict["answer"], verdict["detail"]


def steps(file: str, inside: str, text: str) -> str:
    body = "".join(f"    {line}\n" for line in text.splitlines())
    return f"- file: {file}\n  inside: {inside}\n  append: |\n{body}"


def guard(change: str = "") -> dict[str, str]:
    """The shipped guard of the output projection, with its fallback changed."""
    fallback = (SHIPPED / "deepgemm-fp8-einsum-guard" / "fallback.py").read_text(encoding="utf-8")
    before, _, after = change.partition(" -> ")
    assert before in fallback
    mega = (SHIPPED / "deepgemm-fp8-einsum-guard" / "mega-attention.yaml").read_text(encoding="utf-8")
    return {"steps.yaml": mega, "fallback.py": fallback.replace(before, after)}


def one_site_only() -> dict[str, str]:
    single = (SHIPPED / "deepgemm-fp8-einsum-guard" / "o-proj.yaml").read_text(encoding="utf-8")
    return {**guard(), "steps.yaml": single}


WRONG = {
    "the guard on one of two sites": ("deepgemm-fp8-einsum/static", one_site_only, "flash_mla_mega_attn.py"),
    "the guard on one of two sites, asked of the whole tree": (
        "deepgemm-unguarded-call/static",
        one_site_only,
        "flash_mla_mega_attn.py",
    ),
    "packed scales read highest byte first": (
        "deepgemm-fp8-einsum/stubbed",
        lambda: guard("scale.contiguous().view(torch.uint8) -> scale.contiguous().view(torch.uint8).flip(-1)"),
        "fallback is wrong",
    ),
    "the upcast in the base class, so that DeepGEMM gets float32 to pack": (
        "e8m0-scale-dtype/stubbed",
        lambda: {"steps.yaml": IN_THE_BASE},
        "packs E8M0 itself",
    ),
    "the exponents shifted, which loses both ends": (
        "e8m0-scale-dtype/stubbed",
        lambda: {"steps.yaml": steps(f"{KERNELS}/cutlass.py", "CutlassFp8BlockScaledMMKernel", UPCAST)},
        "exponent byte 0",
    ),
}


@pytest.mark.real
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_patch_is_caught(name: str, tmp_path: Path) -> None:
    issue, wrong, reason = WRONG[name]
    answer, detail = ask(lay_out(tmp_path, issue, wrong()))
    assert answer == "bad", detail
    assert reason in detail
