"""Something that runs a tree: an interpreter, the tree on disk, and variables that keep other trees' caches out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Environment:
    """Where a repro runs. `id` names interpreter and packages (not the tree); `tree` is the materialised folder."""

    id: str
    python: Path
    tree: Path
    tree_id: str
    variables: Mapping[str, str]  # the whole environment of the process; nothing is inherited
