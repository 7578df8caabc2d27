"""Calls that name something of the product in a string: `setattr`, `getattr`, `mock.patch`, `import_module`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from patchkit.stack.symbols.downstream.scope import IMPORTERS, Scope, is_inside
from patchkit.stack.symbols.downstream.use import Kind
from patchkit.stack.symbols.outline import dotted

SETTERS = frozenset({"setattr", "patch", "object"})  # also monkeypatch.setattr, mock.patch, patch.object


@dataclass(frozen=True)
class Called:
    """A name that a call reads or sets; `value` is what it is set to. `optional`: the call has a default."""

    symbol: str
    kind: Kind
    optional: bool = False
    value: ast.expr | None = None
    root: str = ""  # what an import brought in


def called(node: ast.Call, scope: Scope) -> Iterator[Called]:
    """Yield what a call names."""
    name = dotted(node.func) or ""
    leaf = name.rpartition(".")[2]
    if not node.args:
        return
    first, text = node.args[0], _text(node.args, 0)
    if name in IMPORTERS and is_inside(text, scope.package):
        yield Called(text, Kind.IMPORT)
    elif leaf in SETTERS and is_inside(text, scope.package):
        yield Called(text, Kind.REPLACES, value=node.args[1] if len(node.args) > 1 else None)
    elif member := _text(node.args, 1):
        targets = scope.targets(first)
        if targets and (leaf == "setattr" or name.endswith("patch.object")):
            value = node.args[2] if len(node.args) > 2 else None
            yield Called(f"{targets[0]}.{member}", Kind.REPLACES, value=value, root=targets[0])
        elif targets and name == "getattr":
            yield Called(f"{targets[0]}.{member}", Kind.ATTRIBUTE, len(node.args) > 2, root=targets[0])


def _text(arguments: list[ast.expr], at: int) -> str:
    one = arguments[at] if at < len(arguments) else None
    return one.value if isinstance(one, ast.Constant) and isinstance(one.value, str) else ""
