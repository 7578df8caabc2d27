"""What a condition asks (facts), what it answers (a decision with its reason), and what all of them have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
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


@dataclass(frozen=True)
class Truth:
    """True, False or None (cannot be told), and why."""

    value: bool | None
    reason: str


def cannot_tell(why: str) -> Truth:
    """Return the truth of what cannot be told, and why."""
    return Truth(None, f"cannot be told: {why}")


class Condition(ABC):
    """A parsed condition. `str()` gives text that parses to an equal condition."""

    @abstractmethod
    def judge(self, facts: Facts) -> Truth:
        """Return what the condition is worth at a commit."""

    def decide(self, facts: Facts) -> Decision:
        """Return whether the condition holds at a commit, and why."""
        truth = self.judge(facts)
        return Decision(truth.value is True, truth.reason)

    @property
    def parts(self) -> tuple[Condition, ...]:
        """Return the conditions that this one is made of."""
        return ()

    @property
    def version_names(self) -> frozenset[str]:
        """Return the names whose versions are asked for."""
        return frozenset[str]().union(*(part.version_names for part in self.parts))
