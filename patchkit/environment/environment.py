"""Something that runs a tree: an interpreter, the tree on disk, and variables that keep other trees' caches out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from patchkit.environment.native.make import Native

Launcher = Callable[[Sequence[str]], tuple[str, ...]]


class Renew(Protocol):
    """Makes the next run as the first; `torn` says that the last one met byte code that was cut short."""

    def __call__(self, torn: bool = False) -> None:
        """Renew."""


def _nothing(torn: bool = False) -> None:
    """Renew nothing."""


def _as_it_is(command: Sequence[str]) -> tuple[str, ...]:
    return tuple(command)


@dataclass(frozen=True)
class Environment:
    """Where a repro runs. `id` names interpreter and packages (not the tree); `tree` is the materialised folder."""

    id: str
    python: Path
    tree: Path
    tree_id: str
    variables: Mapping[str, str]  # the whole environment of the process; nothing is inherited
    versions: Mapping[str, str] = field(default_factory=dict)  # python, platform, and every installed package
    launcher: Launcher = field(default=_as_it_is, compare=False, repr=False)  # makes a command one that runs in here
    pair_tree: Path | None = None  # the materialised folder of the tree beside it, if there is one
    pair_tree_id: str = ""
    native: Native | None = None  # the compiled files beside the tree, where the recipe says how they are made
    renew: Renew = field(default=_nothing, compare=False, repr=False)  # call before each run

    @property
    def build(self) -> str | None:
        """Return the key of the compiled files, None where there are none."""
        return self.native.key if self.native else None

    @property
    def build_seconds(self) -> float:
        """Return what the compiled files cost to make just now; 0 where they were there."""
        return self.native.seconds if self.native and self.native.made else 0.0
