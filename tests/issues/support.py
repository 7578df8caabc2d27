"""Small trees that look like vLLM to a repro, written here: nothing of vLLM's text."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import yaml

ISSUES = Path(__file__).parents[2] / "issues"
GOOD, BAD, CANNOT_TELL = 0, 1, 125


@dataclass(frozen=True)
class Answer:
    code: int
    output: str


def plant(root: Path, files: dict[str, str]) -> Path:
    """A tree with these files, and the package every repro asks for."""
    for name, text in {"vllm/__init__.py": "", **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    return root


def ask(slug: str, tree: Path, script: str = "static.py") -> Answer:
    """Run a repro as the harness does: a process, the tree in the environment, the answer in the exit code."""
    paths = f"{ISSUES / 'shared'}:{tree}"
    env = {**os.environ, "PATCHKIT_TREE": str(tree), "PYTHONPATH": paths, "PATCHKIT_VERSION": "0.0.0"}
    done = subprocess.run(
        [sys.executable, str(ISSUES / slug / script)], env=env, capture_output=True, text=True, check=False
    )
    return Answer(done.returncode, done.stdout + done.stderr)


def issue(slug: str) -> dict[str, Any]:
    """What the issue's file says."""
    return yaml.safe_load((ISSUES / slug / "issue.yaml").read_text())


def signature(slug: str, repro: str) -> str:
    """The pattern without which a failure of this repro counts for nothing."""
    told = issue(slug)
    return next(item.get("signature", told["signature"]) for item in told["repros"] if item["name"] == repro)
