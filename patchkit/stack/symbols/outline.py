"""The outline of one Python file: which names it binds, without running it. Branches count as if all were taken."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from patchkit.stack.symbols.signature import Signature, read_signature

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Alias:
    """A name that stands for another: a dotted name, from the root or (`local`) from the module that binds it."""

    target: str
    local: bool = False


@dataclass(frozen=True)
class Definition:
    """A function or a value; of a function the signature, where it can be read off."""

    kind: Literal["function", "value"]
    signature: Signature | None = None


@dataclass(frozen=True)
class ClassOutline:
    """A class: its own names, and its bases as written. `is_open`: it may have names that nobody can read off."""

    names: Mapping[str, tuple[Binding, ...]]
    bases: tuple[str, ...]
    is_open: bool
    decorated: bool = False


Binding = Alias | Definition | ClassOutline


@dataclass(frozen=True)
class Outline:
    """The names of a module: at run time, and those that only type checkers see.

    `lazy` are the names that a module-level `__getattr__` answers for (None: no such function, or it is `is_open`).
    """

    names: Mapping[str, tuple[Binding, ...]] = field(default_factory=dict)
    typing_names: Mapping[str, tuple[Binding, ...]] = field(default_factory=dict)
    stars: tuple[str, ...] = ()
    exported: tuple[str, ...] | None = None
    lazy: Mapping[str, str] = field(default_factory=dict)  # by name the dotted target, or ''
    is_open: bool = False


def read_outline(text: bytes, module: str, is_package: bool) -> Outline:
    """Return the outline of a module's text; of one that does not parse all names are open."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in a file of the tree is not the user's business
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return Outline(is_open=True)
    reader = _Reader(module if is_package else module.rpartition(".")[0])
    reader.read(tree.body)
    lazy, is_open = _lazy_names(tree, reader.package)
    return Outline(reader.names, reader.typing_names, tuple(reader.stars), _exported(tree), lazy, is_open)


class _Reader:
    """Collects the bindings of a body."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.names: dict[str, tuple[Binding, ...]] = {}
        self.typing_names: dict[str, tuple[Binding, ...]] = {}
        self.stars: list[str] = []

    def read(self, body: Iterable[ast.stmt], typing_only: bool = False) -> None:
        into = self.typing_names if typing_only else self.names
        for statement in body:
            for name, binding in self._bindings(statement):
                into[name] = (*into.get(name, ()), binding)
            if isinstance(statement, ast.If) and is_type_checking(statement.test):
                self.read(statement.body, True)
                self.read(statement.orelse, typing_only)
            elif not isinstance(statement, Function | ast.ClassDef):
                self.read(inner_statements(statement), typing_only)

    def _bindings(self, statement: ast.stmt) -> Iterator[tuple[str, Binding]]:
        if isinstance(statement, Function):
            yield statement.name, Definition("function", read_signature(statement))
        elif isinstance(statement, ast.ClassDef):
            yield statement.name, self._class(statement)
        elif isinstance(statement, ast.Import | ast.ImportFrom):
            yield from self._imports(statement)
        else:
            yield from _values(statement)

    def _imports(self, statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Binding]]:
        for name, target in imported(statement, self.package):
            if name == "*":
                self.stars.append(target)
            else:
                yield name, Alias(target)

    def _class(self, node: ast.ClassDef) -> ClassOutline:
        inner = _Reader(self.package)
        inner.read(node.body)
        bases = tuple(dotted(base.value if isinstance(base, ast.Subscript) else base) or "?" for base in node.bases)
        is_open = bool(node.keywords) or "__getattr__" in inner.names
        return ClassOutline(inner.names, bases, is_open, bool(node.decorator_list))


def imported(statement: ast.Import | ast.ImportFrom, package: str) -> Iterator[tuple[str, str]]:
    """Yield what an import binds: the name (or `*`), and the dotted name that it stands for."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            yield (alias.asname, alias.name) if alias.asname else (alias.name.partition(".")[0],) * 2
        return
    module = statement.module or ""
    if statement.level:
        parts = package.split(".")
        above = parts[: len(parts) - statement.level + 1]
        module = ".".join([*above, *([module] if module else [])])
    for alias in statement.names:
        if alias.name == "*":
            yield "*", module
        else:
            yield alias.asname or alias.name, f"{module}.{alias.name}"


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all below it, as `ast.walk` in another order and at half its cost; constants are left out."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                waiting += [one for one in value if isinstance(one, ast.AST)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context | ast.Constant):
                waiting.append(value)


def dotted(node: ast.expr) -> str | None:
    """Return `a.b.c` of an expression that is such a chain, else None."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else None


def is_type_checking(test: ast.expr) -> bool:
    """Return whether a condition is `TYPE_CHECKING`."""
    return (dotted(test) or "").rpartition(".")[2] == "TYPE_CHECKING"


def inner_statements(statement: ast.stmt) -> Iterator[ast.stmt]:
    """Yield the statements in all branches of a compound statement."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            yield from child.body


def targets_of(statement: ast.stmt) -> list[ast.expr]:
    """Return what a statement itself sets; what expressions set (`:=`, comprehensions) is not looked for."""
    if isinstance(statement, ast.Assign | ast.Delete):
        return statement.targets
    if isinstance(statement, ast.AnnAssign | ast.AugAssign | ast.For | ast.AsyncFor):
        return [statement.target]
    if isinstance(statement, ast.With | ast.AsyncWith):
        return [item.optional_vars for item in statement.items if item.optional_vars]
    return []


def _values(statement: ast.stmt) -> Iterator[tuple[str, Binding]]:
    value = statement.value if isinstance(statement, ast.Assign) else None
    chain = dotted(value) if value is not None else None
    for target in targets_of(statement):
        alone = isinstance(target, ast.Name) and chain is not None and chain != target.id
        binding: Binding = Alias(chain, local=True) if alone and chain else Definition("value")
        yield from ((node.id, binding) for node in ast.walk(target) if isinstance(node, ast.Name))


def _exported(tree: ast.Module) -> tuple[str, ...] | None:
    """Return `__all__`; None where there is none or it is made by calls."""
    found: list[str] = []
    for statement in tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            value = getattr(statement, "value", None)
            if not isinstance(value, ast.List | ast.Tuple):
                return None
            found += [one.value for one in value.elts if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return tuple(found) or None


def _lazy_names(tree: ast.Module, package: str) -> tuple[dict[str, str], bool]:
    """Return the names that the module's `__getattr__` knows, and whether it may know others.

    Known are the keys of the dict literals that it looks into, and the strings that it compares with.
    """
    outside = [one for statement in tree.body for one in (statement, *inner_statements(statement))]
    function = next((one for one in outside if isinstance(one, Function) and one.name == "__getattr__"), None)
    if function is None:
        return {}, False
    used = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    names: dict[str, str] = {}
    for statement in tree.body:
        value = getattr(statement, "value", None)
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if isinstance(value, ast.Dict) and any(isinstance(one, ast.Name) and one.id in used for one in targets):
            names |= _entries(value, package)
    for node in ast.walk(function):
        if isinstance(node, ast.Compare):
            names |= {word: "" for side in node.comparators for word in _words(side) if word not in names}
        elif isinstance(node, ast.Dict):
            names |= _entries(node, package)
    return names, not names


def _entries(value: ast.Dict, package: str) -> dict[str, str]:
    found = {}
    for key, one in zip(value.keys, value.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            target = one.value if isinstance(one, ast.Constant) and isinstance(one.value, str) else ""
            module, colon, name = target.partition(":")
            found[key.value] = f"{package if module.startswith('.') else ''}{module}.{name}" if colon else ""
    return found


def _words(node: ast.expr) -> Iterator[str]:
    for one in node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]:
        if isinstance(one, ast.Constant) and isinstance(one.value, str):
            yield one.value
