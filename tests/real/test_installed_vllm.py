"""The wheel of a real vLLM release, as pip installs it: a shipped recipe stands on it, and goes without a trace.

Small packages of our own (tests/workflows) cannot tell that vLLM's wheel carries what the patches are about, nor that
its RECORD, its size and its byte code are handled.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from patchkit.errors import RemoteUnavailable
from patchkit.source.installed.wheel import read_wheel
from patchkit.tools.cache import Cache
from patchkit.tools.toolkit import Toolkit
from patchkit.tools.web.wheels import download_wheel
from tests.support.wheels import snapshot

RECIPE = Path(__file__).parents[2] / "recipes" / "deepseek-v4-gb10" / "recipe.yaml"
CHANGED = "vllm/model_executor/kernels/linear/scaled_mm/cutlass.py"


def apply(*options: str) -> dict[str, object]:
    command = [sys.executable, "-m", "patchkit", "apply", str(RECIPE), *options, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (one,) = json.loads(done.stdout)["distributions"]
    assert isinstance(one, dict)
    return one


@pytest.mark.real
def test_a_recipe_stands_on_a_released_wheel_and_on_what_pip_makes_of_it(tmp_path: Path) -> None:
    toolkit = Toolkit(Cache(Path(os.environ["PATCHKIT_CACHE"])), env=dict(os.environ))
    (tmp_path / "out").mkdir()
    try:
        with download_wheel(toolkit, "vllm", "0.26.0") as wheel:
            packed = apply("--to-wheel", str(wheel), str(tmp_path / "out"))
            site = install(wheel, tmp_path / "venv")
    except RemoteUnavailable as error:
        pytest.skip(f"no wheel of vLLM for this machine: {error}")
    before = snapshot(site)
    installed = apply("--to-site-packages", str(site))
    assert (packed["state"], installed["state"]) == ("applied", "applied")
    assert (packed["base"], packed["tree"]) == (installed["base"], installed["tree"])
    patched = read_wheel(Path(str(packed["written"]))).contents  # compares every file with RECORD
    files = installed["files"]
    assert isinstance(files, list)
    assert CHANGED in files
    assert {path: (site / path).read_bytes() for path in files} == {path: patched[path] for path in files}
    assert apply("--to-site-packages", str(site))["state"] == "already-applied"
    assert apply("--to-site-packages", str(site), "--revert")["state"] == "reverted"
    assert snapshot(site) == before


def install(wheel: Path, venv: Path) -> Path:
    """Install a wheel alone into a new venv; return its site-packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(venv / "bin/python"), "--no-input"]
    subprocess.run([*pip, "install", "-q", "--no-deps", "--no-index", str(wheel)], check=True)
    return next(venv.glob("lib/python*/site-packages"))
