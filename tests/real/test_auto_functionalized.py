"""auto_functionalized on real vLLM and torch: each fix for its reason, and the popular one that computes nothing.

The torch-side patch is tried beside vLLM, as the recipe has it, and on a copy of the installed torch, as a user would.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from patchkit.environment.local import find_interpreter
from patchkit.environment.venv import make_venv
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
MATCHER = "torch/_inductor/pattern_matcher.py"
LOCATE = "import torch, pathlib; print(pathlib.Path(torch.__file__).parents[1])"
PROBE = """
import torch

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
        ("v0.22.0", "sm_89", "inductor-matcher-in-memory", "einsum"),
        ("v0.26.0", "sm_121", "inductor-matcher-in-memory", "cutlass"),
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
def test_the_patch_of_the_installed_torch_alone_turns_the_issue_good() -> None:
    """The shipped recipe, whose torch is a wheel: no patch of vLLM has a part in it, and no torch is changed."""
    found = answers(ROOT / "recipes" / "deepseek-v4-l20" / "torch.yaml")
    assert found["without"][0] == "bad"
    assert "was not removed" in found["without"][1]
    assert found["with"] == ("good", "")


@pytest.mark.real
def test_torch_is_patched_where_it_is_installed_and_taken_back_exactly(tmp_path: Path) -> None:
    """On a copy of the environment's torch: what the patch is to a user's machine, with compiled values checked."""
    python = Path(PYTHON or make_environment(tmp_path))
    found = subprocess.run([str(python), "-c", LOCATE], capture_output=True, text=True, check=True)
    site, copied = Path(found.stdout.strip()), tmp_path / "site-packages"
    copied.mkdir()
    for path in site.iterdir():
        if path.name in {"torch", "torchgen", "functorch"} or path.name.startswith("torch-"):
            shutil.copytree(path, copied / path.name, copy_function=link_or_copy, symlinks=True)
    before = compile_probe(python, tmp_path, copied, "before")
    assert before.returncode == 1
    assert "auto_functionalized_v2 was not removed" in before.stderr
    apply = [sys.executable, "-m", "patchkit", "apply", str(ROOT / "recipes/deepseek-v4-l20/torch.yaml")]
    original = (copied / MATCHER).read_bytes()
    for state in ("applied", "already-applied"):
        assert run_states([*apply, "--to-site-packages", str(copied)]) == [state]
    after = compile_probe(python, tmp_path, copied, "after")
    assert (after.returncode, after.stdout) == (0, "values are right\n"), after.stderr
    assert (site / MATCHER).read_bytes() == original, "the copy is of links: nothing may be written through them"
    assert run_states([*apply, "--to-site-packages", str(copied), "--revert"]) == ["reverted"]
    assert (copied / MATCHER).read_bytes() == original
    again = compile_probe(python, tmp_path, copied, "after")  # with the graphs of the patched one at hand
    assert "auto_functionalized_v2 was not removed" in again.stderr


def link_or_copy(source: str, target: str) -> None:
    """As installers do where the cache is on the same disk: patches must not reach through the link."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def run_states(command: list[str]) -> list[str]:
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [one["state"] for one in json.loads(done.stdout)["distributions"]]


def make_environment(tmp_path: Path) -> Path:
    store = Path(os.environ.get("PATCHKIT_CACHE", tmp_path / "store"))
    toolkit = Toolkit(Cache(store), env=dict(os.environ))
    return make_venv(toolkit, find_interpreter(toolkit, None), REQUIREMENTS)


def compile_probe(python: Path, tmp_path: Path, site: Path, name: str) -> subprocess.CompletedProcess[str]:
    """Compile with a cache of its own: a graph that another run compiled could be used again."""
    caches = {
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / f"inductor-{name}"),
        "PYTHONPYCACHEPREFIX": str(tmp_path / name),
    }
    env = {**os.environ, **caches, "PYTHONPATH": str(site)}
    return subprocess.run([str(python), "-c", PROBE], env=env, capture_output=True, text=True, check=False, timeout=900)
