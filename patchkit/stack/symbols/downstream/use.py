"""One use of a name of the product in a downstream package."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from patchkit.stack.symbols.downstream.guards import Guard
from patchkit.stack.symbols.signature import Signature


class Kind(StrEnum):
    """What a use does with the name."""

    IMPORT = "import"
    ATTRIBUTE = "attribute"
    REPLACES = "replaces"  # a monkeypatch: the name is set
    PATCHES = "patches"  # by what raises where the name is not there: mock.patch, pytest's monkeypatch
    OVERRIDES = "overrides"  # a method of a subclass
    PLUGIN = "plugin"  # an entry point's group


class Need(StrEnum):
    """What happens where the name is missing: an error; nothing, since it is caught; nothing but for type checkers."""

    REQUIRED = "required"
    OPTIONAL = "optional"
    TYPING = "typing"


@dataclass(frozen=True)
class Use:
    """A name, where it is used (file relative to the package's parent), and what must hold for the line to run.

    `alternatives` are other names that the same expression may mean: one import for each branch. `root` is the part of
    the name that an import brought in, so that fails first. `signature` is that of the function which replaces or
    overrides the name.
    """

    symbol: str
    kind: Kind
    need: Need
    file: str
    line: int
    guards: tuple[Guard, ...] = ()
    alternatives: tuple[str, ...] = ()
    root: str = ""
    signature: Signature | None = None
