"""What patchkit needs from outside, as one frozen value made in `cli` and handed down.

No room below `cli` reads the environment or asks for a global: a test passes a Toolkit of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from patchkit.tools.cache import Cache


class Progress(Protocol):
    """What people see of long work; on stderr in the terminal, nothing in tests."""

    def step(self, message: str) -> None:
        """Tell that a stage begins ("fetch vllm 0.26.0")."""

    def advance(self, message: str, done: int, total: int | None) -> None:
        """Tell how far a long stage is, in bytes or objects. Called often: must be cheap."""

    def warn(self, message: str, hint: str = "") -> None:
        """Tell what the user should know although the work goes on."""


class Silence:
    """Progress for tests and for `-q`."""

    def step(self, message: str) -> None:
        """Ignore it."""

    def advance(self, message: str, done: int, total: int | None) -> None:
        """Ignore it."""

    def warn(self, message: str, hint: str = "") -> None:
        """Ignore it."""


@dataclass(frozen=True)
class Toolkit:
    """The outside world: a store, a way to tell progress, and the caller's environment variables."""

    cache: Cache
    progress: Progress = field(default_factory=Silence)
    env: Mapping[str, str] = field(default_factory=dict)
    offline: bool = False
