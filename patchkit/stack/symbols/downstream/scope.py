"""Which local name stands for which name of the product, scope by scope."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from patchkit.stack.symbols.outline import dotted, imported, inner_statements, targets_of, walk

Function = ast.FunctionDef | ast.AsyncFunctionDef
STORES = (ast.Store, ast.Del)
IMPORTERS = frozenset({"importlib.import_module", "import_module", "__import__"})


@dataclass
class Scope:
    """The names of a module, class or function. A name maps to what it may stand for; to None when to anything else."""

    package: str
    parent: Scope | None = None
    names: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    functions: dict[str, Function | None] = field(default_factory=dict)  # None: defined more than once

    def find(self, name: str) -> tuple[str, ...]:
        """Return the names of the product that a local name may stand for."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name] or ()
            scope = scope.parent
        return ()

    def targets(self, node: ast.expr) -> tuple[str, ...]:
        """Return the names of the product that an expression may stand for."""
        if isinstance(node, ast.Call):
            return _loaded(node, self.package)
        chain = dotted(node)
        if chain is None:
            return ()
        first, dot, rest = chain.partition(".")
        return tuple(target + dot + rest for target in self.find(first))

    def find_function(self, name: str) -> Function | None:
        """Return the function that a local name stands for, where it stands for one only."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.functions:
                return scope.functions[name]
            scope = scope.parent
        return None


def open_scope(
    package: str, own: str, body: Iterable[ast.stmt], parent: Scope | None = None, taken: Iterable[str] = ()
) -> Scope:
    """Return the scope of a body. `own` is the package of its file, `taken` are the parameters."""
    scope = Scope(package, parent, dict.fromkeys(taken))
    for statement in _flat(body):
        for name, targets in _bound(statement, scope, own):
            if name not in scope.names:
                scope.names[name] = targets
            elif targets is None or scope.names[name] is None:
                scope.names[name] = None
            else:
                scope.names[name] = tuple(dict.fromkeys([*(scope.names[name] or ()), *targets]))
        if isinstance(statement, Function):
            scope.functions[statement.name] = None if statement.name in scope.functions else statement
    return scope


def parameters(node: Function | ast.Lambda) -> list[str]:
    """Return the names of all parameters."""
    arguments = node.args
    more = [one for one in (arguments.vararg, arguments.kwarg) if one]
    return [one.arg for one in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *more]]


def _flat(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        if not isinstance(statement, Function | ast.ClassDef):
            yield from _flat(inner_statements(statement))


def _bound(statement: ast.stmt, scope: Scope, own: str) -> Iterator[tuple[str, tuple[str, ...] | None]]:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        for name, target in imported(statement, own):
            if name != "*":
                yield name, (target,) if is_inside(target, scope.package) else None
    elif isinstance(statement, Function | ast.ClassDef):
        yield statement.name, None
    else:
        targets = scope.targets(statement.value) if isinstance(statement, ast.Assign) else ()
        for name in _stored(statement):
            yield name, targets or None


def _stored(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement itself sets, not those in the statements below it."""
    for target in targets_of(statement):
        yield from (node.id for node in walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, STORES))
    yield from (handler.name for handler in getattr(statement, "handlers", ()) if handler.name)


def is_inside(name: str, package: str) -> bool:
    """Return whether a dotted name is the package or lies in it."""
    return name == package or name.startswith(f"{package}.")


def _loaded(node: ast.Call, package: str) -> tuple[str, ...]:
    """Return the module that `import_module("…")` loads."""
    if dotted(node.func) not in IMPORTERS or not node.args or not isinstance(node.args[0], ast.Constant):
        return ()
    name = str(node.args[0].value)
    return (name,) if is_inside(name, package) else ()
