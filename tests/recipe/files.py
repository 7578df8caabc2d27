"""A library on disk for the tests: a valid recipe with a patch and an issue, to be broken one thing at a time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from patchkit.errors import InvalidFile
from patchkit.recipe.load import load_recipe

RECIPE = """format: 1
name: demo
upstream:
  vllm: {package: vllm, ref: v0.26.0}
series: [guard]
issues: [crash]
"""
PATCH = """format: 1
title: Guard the call
issue: [crash]
when: vllm >= 0.26
change:
  - {when: "vllm < 0.30", rewrite: guard.yaml}
  - {file: vllm/new.py, source: new.py}
"""
REWRITE = """- {file: vllm/a.py, inside: f, match: g($A), replace: h($A)}
- {file: vllm/b.py, create: new.py}
"""
ISSUE = """format: 1
title: It crashes
signature: "Unsupported architecture"
repros:
  - {name: static, fidelity: static, script: static.py}
  - {name: stubbed, fidelity: stubbed, script: static.py, environment: cpu}
"""
LIBRARY = {
    "recipes/demo/recipe.yaml": RECIPE,
    "recipes/environments/cpu.txt": "torch\n",
    "patches/guard/patch.yaml": PATCH,
    "patches/guard/guard.yaml": REWRITE,
    "patches/guard/new.py": "x = 1\n",
    "issues/crash/issue.yaml": ISSUE,
    "issues/crash/static.py": "print('ok')\n",
}
RECIPE_FILE = "recipes/demo/recipe.yaml"


def write_files(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files below a folder and return the folder."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def write_library(root: Path, changes: Mapping[str, str | bytes] | None = None) -> Path:
    """Write the valid library with some files changed, and return the path of its recipe."""
    write_files(root, {**LIBRARY, **(changes or {})})
    return root / RECIPE_FILE


def complaints_of(recipe: Path, root: Path) -> list[str]:
    """Return what loading a recipe complains of, with paths relative to the library; [] when it loads."""
    try:
        load_recipe(recipe)
    except InvalidFile as error:
        return [str(problem).replace(f"{root}/", "") for problem in error.problems]
    return []
