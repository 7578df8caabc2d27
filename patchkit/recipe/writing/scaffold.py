"""What `patchkit new` writes: files that are valid, do nothing, and say where a person has to fill them in."""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal["recipe", "patch", "issue"]
FOLDERS: dict[Kind, Literal["recipes", "patches", "issues"]] = {
    "recipe": "recipes",
    "patch": "patches",
    "issue": "issues",
}

RECIPE = """\
format: 1
name: "{name}"
description: FILL IN what it is for, in one line
upstream:
  vllm:
    git: https://github.com/vllm-project/vllm.git
    package: vllm             # where git cannot be reached: its releases on the package index
    ref: latest               # FILL IN the release, branch or commit that you run; `patchkit lock` holds it still
target: {{device: cuda}}        # FILL IN arch, python and torch where conditions ask for them
series: []                    # your patches, in order: `patchkit new patch NAME`, `patchkit import pull/N … --add`
issues: []                    # what they must heal: `patchkit new issue NAME`
image: {{base: none}}           # FILL IN the image that you start from; none holds the patched package alone
"""
PATCH = """\
format: 1
title: FILL IN what {name} changes, in one line
why: FILL IN what goes wrong without it, and for whom
upstream: vllm
upstream-status: Pending      # Submitted [URL], Backport [URL], "Inappropriate [reason]" …
# issue: [NAME]               # the issue that it heals
# when: "vllm >= 0.26"        # only where this holds
change:
  - {{rewrite: steps.yaml}}     # or a diff beside this file: {{patch: {name}.patch}}
"""
STEPS = """\
# FILL IN where and what, by meaning instead of line numbers; docs/how-to/write-a-rewrite.md tells how.
# Until then the patch is a conflict: no tree has such a file.
- file: vllm/FILL_IN.py
  inside: Class.function        # the enclosing function or class
  match: "call($$$ARGS)"        # an ast-grep pattern
  replace: "other($$$ARGS)"
  expect: 1                     # 0 or 2 matches is an error, never a guess
"""
ISSUE = """\
format: 1
title: FILL IN the symptom, in one line
links: []                     # reports and fixes
upstream: vllm
affects: []                   # where it is known to be, like ["vllm >= 0.26"]
signature: "{pattern}: bad"   # what the repro prints when it is bad; a failure without it is no evidence
repros:
  - {{name: static, fidelity: static, script: repro.py, timeout_seconds: 60}}
"""
REPRO = '''\
"""FILL IN what goes wrong, where, and what this repro looks at.

Answers by exit code: 0 good, 1 bad, 125 cannot tell. PATCHKIT_TREE is the tree under test, which is on PYTHONPATH too.
`patchkit repro RECIPE --issue {name}` runs it: without the series it must be bad, with it good.
"""

import os
import sys
from pathlib import Path

GOOD, BAD, CANNOT_TELL = 0, 1, 125
FILE = "vllm/FILL_IN.py"  # FILL IN the file that has the fault


def judge(text: str) -> int | None:
    """FILL IN: return GOOD or BAD for the file's text; None where it tells neither."""
    return None


def main() -> int:
    path = Path(os.environ["PATCHKIT_TREE"], FILE)
    answer = judge(path.read_text(encoding="utf-8")) if path.is_file() else None
    if answer is None:
        print("{name}: cannot tell; the repro is not filled in, or this tree is not what it was written for")
        return CANNOT_TELL
    print("{name}: " + ("bad" if answer == BAD else "good"))
    return answer


sys.exit(main())
'''
README = """\
# {name}

FILL IN who sees it, with which model and hardware, and the first line of the error.

- Cause: FILL IN the function and what it does wrong.
- What the repro proves: FILL IN, and what it does not.
- Healed by: FILL IN the patch, and the upstream commit or pull request if there is one.
"""


def scaffold(kind: Kind, name: str) -> dict[str, bytes]:
    """Return the files of a new folder of a library, by their names."""
    texts = {
        "recipe": {"recipe.yaml": RECIPE},
        "patch": {"patch.yaml": PATCH, "steps.yaml": STEPS},
        "issue": {"issue.yaml": ISSUE, "repro.py": REPRO, "README.md": README},
    }[kind]
    pattern = re.escape(name).replace("\\", "\\\\")
    whole = {"steps.yaml"}  # without a place for the name
    return {
        file: (text if file in whole else _fill(text, name, pattern)).encode("utf-8") for file, text in texts.items()
    }


def _fill(text: str, name: str, pattern: str) -> str:
    return text.replace("{name}", name).replace("{pattern}", pattern).replace("{{", "{").replace("}}", "}")
