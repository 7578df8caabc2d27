"""The kinds of values over which static repros interpret a tree, as far as they are the same for all."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any


class Marker:
    """A value of which only the identity matters."""

    def __init__(self, name: str) -> None:
        self.name = name


UNKNOWN = Marker("unknown")


@dataclass(frozen=True)
class Constant:
    """A value that is known."""

    value: Any


@dataclass
class Scope:
    """What names hold; one that is not there holds nobody knows what."""

    names: dict[str, Any]
    parent: Scope | None = None

    def get(self, name: str) -> Any:
        if name in self.names:
            return self.names[name]
        return self.parent.get(name) if self.parent else UNKNOWN

    def fork(self) -> Scope:
        return Scope(dict(self.names), self.parent)


def assigned_names(nodes: list[ast.stmt]) -> set[str]:
    """The names that statements set, at any depth."""
    found: set[str] = set()
    for node in nodes:
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                found.add(part.id)
    return found
