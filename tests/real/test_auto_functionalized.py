"""auto_functionalized on real vLLM and torch: each fix for its reason, and the popular one that computes nothing.

The torch-side patch is tried on a copy of the one file of the installed torch that it changes, put before the original
when it is imported: no torch is changed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from patchkit.environment.local import find_interpreter
from patchkit.environment.venv import make_venv
from patchkit.recipe.load import load_patch
from patchkit.stack.rewrite import rewrite_files
from patchkit.tools.cache import Cache
from patchkit.tools.toolkit import Toolkit

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "recipes" / "environments" / "vllm-cpu.txt"
# A folder with torch and the rest installed, for those who have one; else patchkit makes its own.
PYTHON = os.environ.get("PATCHKIT_TEST_TORCH_PYTHON")
WRONG = """
- file: vllm/models/deepseek_v4/attention.py
  match: |-
    direct_register_custom_op(
        op_name="deepseek_v4_fp8_einsum",
        op_func=$IMPLEMENTATION,
        mutates_args=["out"],
        fake_impl=$FAKE,
    )
  replace: |-
    direct_register_custom_op(
        op_name="deepseek_v4_fp8_einsum",
        op_func=$IMPLEMENTATION,
        mutates_args=[],
        fake_impl=$FAKE,
    )
"""
PROBE = """
import importlib.abc, importlib.util, pathlib, sys
import torch

class Overlay(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        file = pathlib.Path(sys.argv[1], name.replace(".", "/") + ".py")
        return importlib.util.spec_from_file_location(name, file) if file.is_file() else None

sys.meta_path.insert(0, Overlay())
library = torch.library.Library("probe", "FRAGMENT")
library.define("scale(Tensor(a!) out, Tensor x, Tensor scale) -> ()")
library.impl("scale", lambda out, x, scale: (out.copy_(x * scale.float()), None)[1], "CPU")
library._register_fake("scale", lambda out, x, scale: None)

def forward(x, scale):
    out = torch.empty_like(x)
    torch.ops.probe.scale(out, x, scale)
    return out + 1

compiled = torch.compile(forward, fullgraph=True)
exponents = torch.arange(120, 136, dtype=torch.uint8).view(4, 4).view(torch.float8_e8m0fnu)
for factor in (1.0, 3.0):
    x = torch.arange(16.0).view(4, 4) * factor
    wanted = x.double() * exponents.float().double() + 1
    assert torch.equal(compiled(x, exponents).double(), wanted.float().double()), "values are wrong"
print("values are right")
"""


def library_with(tmp_path: Path, *, ref: str, arch: str, series: list[str], repro: str) -> Path:
    """A recipe of our own beside the shipped library."""
    folder = tmp_path / "recipes" / "probe"
    folder.mkdir(parents=True)
    recipe = {
        "format": 1,
        "name": "probe",
        "upstream": {"vllm": {"package": "vllm", "ref": ref}},
        "target": {"device": "cuda", "arch": arch},
        "series": series,
        "issues": [f"auto-functionalized-e8m0/{repro}"],
        "environment": {"env": {"VLLM_TARGET_DEVICE": "cpu"}, **({"python": PYTHON} if PYTHON else {})},
    }
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe))
    return path


def answers(recipe: Path) -> dict[str, tuple[str, str]]:
    """Run the repro without and with the series; give (answer, detail) of each."""
    command = [sys.executable, "-m", "patchkit", "repro", str(recipe), "--source", "package", "--fresh", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    verdicts = json.loads(done.stdout)["verdicts"]
    return {item["series"]: (item["answer"], item["detail"]) for item in verdicts}


@pytest.mark.real
@pytest.mark.parametrize(
    ("ref", "arch", "patch", "repro"),
    [
        ("v0.22.0", "sm_89", "custom-op-functional", "einsum"),
        ("v0.26.0", "sm_121", "e8m0-upcast", "cutlass"),
    ],
)
def test_the_patch_removes_the_compile_error(tmp_path: Path, ref: str, arch: str, patch: str, repro: str) -> None:
    found = answers(library_with(tmp_path, ref=ref, arch=arch, series=[patch], repro=repro))
    assert found["without"][0] == "bad"
    assert "was not removed" in found["without"][1]
    assert found["with"] == ("good", "")


@pytest.mark.real
def test_declaring_no_write_where_the_op_writes_is_bad(tmp_path: Path) -> None:
    recipe = library_with(tmp_path, ref="v0.22.0", arch="sm_89", series=["wrong-declaration"], repro="einsum")
    folder = tmp_path / "patches" / "wrong-declaration"
    folder.mkdir(parents=True)
    (folder / "patch.yaml").write_text(
        dedent("""
        format: 1
        title: Declare that the einsum writes to nothing, which it does
        change:
          - {rewrite: wrong.yaml}
        """)
    )
    (folder / "wrong.yaml").write_text(WRONG)
    answer, detail = answers(recipe)["with"]
    assert answer == "bad"
    assert "compiled" in detail
    assert "values are wrong" in detail


@pytest.mark.real
def test_the_patch_of_torch_compiles_to_the_right_values(tmp_path: Path) -> None:
    python = Path(PYTHON or make_environment(tmp_path))
    found = subprocess.run(
        [str(python), "-c", "import torch, pathlib; print(pathlib.Path(torch.__file__).parents[1])"],
        capture_output=True,
        text=True,
        check=True,
    )
    site = Path(found.stdout.strip())
    patch = load_patch(ROOT / "patches" / "torch-auto-functionalized-matcher")
    result = rewrite_files(lambda path: (site / path).read_bytes(), patch.rewrites["matcher.yaml"], patch.folder)
    assert list(result.contents) == ["torch/_inductor/pattern_matcher.py"]
    overlay = tmp_path / "overlay"
    for path, data in result.contents.items():
        (overlay / path).parent.mkdir(parents=True)
        (overlay / path).write_bytes(data)
    before, after = (compile_probe(python, tmp_path, folder) for folder in (tmp_path / "nothing", overlay))
    assert before.returncode == 1
    assert "auto_functionalized_v2 was not removed" in before.stderr
    assert (after.returncode, after.stdout) == (0, "values are right\n"), after.stderr


def make_environment(tmp_path: Path) -> Path:
    store = Path(os.environ.get("PATCHKIT_CACHE", tmp_path / "store"))
    toolkit = Toolkit(Cache(store), env=dict(os.environ))
    return make_venv(toolkit, find_interpreter(toolkit, None), REQUIREMENTS)


def compile_probe(python: Path, tmp_path: Path, overlay: Path) -> subprocess.CompletedProcess[str]:
    """Compile with a cache of its own: a graph that another run compiled would be used again."""
    env = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / f"inductor-{overlay.name}")}
    return subprocess.run(
        [str(python), "-c", PROBE, str(overlay)], env=env, capture_output=True, text=True, check=False, timeout=600
    )
