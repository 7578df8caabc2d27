"""Calls that name something of the product in a string: `setattr`, `getattr`, `mock.patch`, `import_module`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from patchkit.stack.symbols.downstream.scope import IMPORTERS, Scope, is_inside
from patchkit.stack.symbols.downstream.use import Kind
from patchkit.stack.symbols.outline import dotted

SETTERS = frozenset({"setattr", "patch"})  # with a name in a string: monkeypatch.setattr, mock.patch
STRICT = {"create": False, "raising": True}  # what mock.patch and monkeypatch.setattr do unless they are told otherwise
SETTINGS = frozenset({"spec", "create", "spec_set", "autospec", "new_callable"})  # of patch.multiple: no names


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
    if not node.args:
        return
    text = _text(node.args, 0)
    yield from _named(node, name, text) if is_inside(text, scope.package) else _of_object(node, name, scope)


def _named(node: ast.Call, name: str, text: str) -> Iterator[Called]:
    """Yield what a call does with a name that its first argument is."""
    if name in IMPORTERS:
        yield Called(text, Kind.IMPORT)
    elif name.rpartition(".")[2] in SETTERS:
        yield Called(text, _setting(node), value=node.args[1] if len(node.args) > 1 else None)
    elif name.endswith("patch.dict"):
        yield Called(text, Kind.ATTRIBUTE)
    elif name.endswith("patch.multiple"):
        for one in node.keywords:
            if one.arg and one.arg not in SETTINGS:
                yield Called(f"{text}.{one.arg}", _setting(node), value=one.value, root=text)


def _of_object(node: ast.Call, name: str, scope: Scope) -> Iterator[Called]:
    """Yield what a call does with an attribute that its second argument names."""
    member = _text(node.args, 1)
    targets = scope.targets(node.args[0]) if member else ()
    if not targets:
        return
    symbol, more = f"{targets[0]}.{member}", node.args[2:]
    if name == "getattr":
        yield Called(symbol, Kind.ATTRIBUTE, bool(more), root=targets[0])
    elif name.rpartition(".")[2] == "setattr" or name.endswith("patch.object"):
        kind = Kind.REPLACES if name == "setattr" else _setting(node)
        yield Called(symbol, kind, value=more[0] if more else None, root=targets[0])


def _setting(node: ast.Call) -> Kind:
    """Return whether a call of mock or monkeypatch needs the name to be there."""
    for one in node.keywords:
        if one.arg in STRICT and not (isinstance(one.value, ast.Constant) and one.value.value is STRICT[one.arg]):
            return Kind.REPLACES
    return Kind.PATCHES


def _text(arguments: list[ast.expr], at: int) -> str:
    one = arguments[at] if at < len(arguments) else None
    return one.value if isinstance(one, ast.Constant) and isinstance(one.value, str) else ""
