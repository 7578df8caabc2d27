"""check: are these files valid?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from patchkit.errors import Problem
from patchkit.recipe.load import check_files


def check_paths(paths: Sequence[Path]) -> tuple[Problem, ...]:
    """Return all problems of recipe, patch, issue, rewrite and lock files, and of all such files below folders.

    Raises `RequestError` for a path that is not there or a folder that holds nothing to check.
    """
    return check_files(tuple(paths))
