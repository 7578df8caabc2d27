"""Conditions (`when:`): parsed once, decided with the facts of the commit that is patched.

Grammar: or / and / not, parentheses, and the atoms
`vllm >= 0.26, < 0.30` (PEP 440, pre-releases count) for vllm, vllm-ascend, torch, python; `arch in [sm_120, sm_121]`;
`pins.deepgemm >= "2.5"` / `pins.deepgemm == "abc"`; `contains(<commit>)`; `has(path)`; `has(path:symbol)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Facts(Protocol):
    """What a condition can ask; `source` answers."""

    def version(self, name: str) -> str | None:
        """Return the version of an upstream, of torch or of python; None when nobody knows."""

    def arch(self) -> str | None:
        """Return the target architecture."""

    def pin(self, name: str) -> str | None:
        """Return a pin of the recipe."""

    def contains(self, commit: str) -> bool | None:
        """Return whether a commit is an ancestor of (or is) the one at hand; None when that cannot be told."""

    def has(self, path: str, symbol: str | None) -> bool:
        """Return whether the tree has a path, and in it a definition of `symbol` (dotted for nested ones)."""


@dataclass(frozen=True)
class Decision:
    """Whether a condition holds, and why (`vllm 0.25.1 is not >= 0.26`), for reports."""

    holds: bool
    reason: str
