"""How a static repro ends: an exit code of its own, or 125 where the tree cannot be read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def run(answer: Callable[[Path], int]) -> int:
    """Ask a repro of the tree at `PATCHKIT_TREE`, else of the current folder. 0 good, 1 bad, 125 cannot tell."""
    tree = os.environ.get("PATCHKIT_TREE")
    root = Path(tree) if tree else Path.cwd()
    if not (root / "vllm" / "__init__.py").is_file():
        print(f"cannot tell: {root} holds no vllm package")
        return 125
    try:
        return answer(root)
    except (OSError, SyntaxError, UnicodeDecodeError, RecursionError) as error:
        print(f"cannot tell: {type(error).__name__}: {error}")
        return 125
