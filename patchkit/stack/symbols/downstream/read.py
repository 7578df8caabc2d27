"""Reads a downstream file: every name of the product in it, and on which condition the line runs."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from patchkit.stack.symbols.downstream.calls import called
from patchkit.stack.symbols.downstream.guards import ExistsGuard, Guard, NotGuard, read_guard
from patchkit.stack.symbols.downstream.scope import Function, Scope, is_inside, open_scope, parameters
from patchkit.stack.symbols.downstream.use import Kind, Need, Use
from patchkit.stack.symbols.outline import dotted, imported, is_type_checking, walk
from patchkit.stack.symbols.signature import Signature, read_signature

IMPORT_ERRORS = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException", ""})
ATTRIBUTE_ERRORS = frozenset({"AttributeError", "Exception", "BaseException", ""})
LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True)
class _Place:
    """Where a statement stands: its scope, what is caught around it, what must hold for it to run."""

    scope: Scope
    guards: tuple[Guard, ...] = ()
    catches: frozenset[str] = frozenset()
    typing: bool = False

    def under(self, guard: Guard | None) -> _Place:
        return self if guard is None else replace(self, guards=(*self.guards, guard))

    def need(self, kind: Kind) -> Need:
        if self.typing:
            return Need.TYPING
        errors = IMPORT_ERRORS if kind is Kind.IMPORT else ATTRIBUTE_ERRORS
        return Need.OPTIONAL if self.catches & errors else Need.REQUIRED


@dataclass(frozen=True)
class _Name:
    """A name as a line uses it, whatever stands around."""

    symbol: str
    kind: Kind
    optional: bool = False
    alternatives: tuple[str, ...] = ()
    root: str = ""
    signature: Signature | None = None


def read_uses(text: bytes, file: str, package: str, own: str) -> tuple[Use, ...]:
    """Return the uses of a package's names in a file. `own` is the dotted package that the file lies in.

    Raises `SyntaxError` for a file that does not parse.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text)
    reader = _Reader(file, package, own)
    reader.has_lazy_annotations = any(
        isinstance(one, ast.ImportFrom) and one.module == "__future__" and one.names[0].name == "annotations"
        for one in tree.body
    )
    place = _Place(open_scope(package, own, tree.body))
    reader.body(tree.body, place)
    reader.read_deferred(place, text)
    return tuple(reader.uses)


class _Reader:
    def __init__(self, file: str, package: str, own: str) -> None:
        self.file, self.package, self.own = file, package, own
        self.uses: list[Use] = []
        self.has_lazy_annotations = False
        self._deferred: list[Function] = []  # functions of the module, read when it is known who calls them
        self._calls: dict[str, list[_Place]] = {}

    def read_deferred(self, place: _Place, text: bytes) -> None:
        """Read the module's functions; one that is called from a single place, at import, runs on its conditions."""
        for node in self._deferred:
            places = self._calls.get(node.name, [])
            called_once = len(places) == 1 and len(re.findall(rf"\b{node.name}\b".encode(), text)) == 2
            around = places[0] if called_once and node.name in place.scope.functions else place
            self._body_of(node, replace(around, scope=place.scope))

    def body(self, statements: Sequence[ast.stmt], place: _Place) -> None:
        """Read statements in a row; what comes after `if guard: return` runs only where the guard does not hold."""
        for statement in statements:
            self._statement(statement, place)
            if isinstance(statement, ast.If) and not statement.orelse and isinstance(statement.body[-1], LEAVING):
                guard = read_guard(statement.test, place.scope.targets)
                place = place.under(guard and NotGuard(guard))

    def _statement(self, statement: ast.stmt, place: _Place) -> None:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            self._import(statement, place)
        elif isinstance(statement, ast.If):
            self._if(statement, place)
        elif isinstance(statement, ast.Try | ast.TryStar):
            self._try(statement, place)
        elif isinstance(statement, Function):
            self._function(statement, place)
        elif isinstance(statement, ast.ClassDef):
            self._class(statement, place)
        else:
            self._other(statement, place)

    def _import(self, statement: ast.Import | ast.ImportFrom, place: _Place) -> None:
        whole = isinstance(statement, ast.Import)
        for _, target in imported(statement, self.own):
            if is_inside(target, self.package):
                self._add(place, statement, _Name(target, Kind.IMPORT))
        for alias in statement.names if whole else ():  # `import a.b.c` binds a alone, and needs all of it
            if not alias.asname and "." in alias.name and is_inside(alias.name, self.package):
                self._add(place, statement, _Name(alias.name, Kind.IMPORT))

    def _if(self, statement: ast.If, place: _Place) -> None:
        self._expression(statement.test, place)
        if is_type_checking(statement.test):
            self.body(statement.body, replace(place, typing=True))
            self.body(statement.orelse, place)
            return
        guard = read_guard(statement.test, place.scope.targets)
        self.body(statement.body, place.under(guard))
        self.body(statement.orelse, place.under(guard and NotGuard(guard)))

    def _try(self, statement: ast.Try | ast.TryStar, place: _Place) -> None:
        """Read a try: its handler runs only where one of its imports fails, and then what it uses must be there."""
        caught = frozenset(name for handler in statement.handlers if not _raises(handler) for name in _errors(handler))
        before = len(self.uses)
        self.body(statement.body, replace(place, catches=place.catches | caught))
        tried = tuple(dict.fromkeys(use.symbol for use in self.uses[before:] if use.kind is Kind.IMPORT))
        for handler in statement.handlers:
            asks = tried and _errors(handler) & IMPORT_ERRORS
            self.body(handler.body, place.under(NotGuard(ExistsGuard(tried)) if asks else None))
        self.body(statement.orelse, place)
        self.body(statement.finalbody, place)

    def _function(self, node: Function, place: _Place) -> None:
        for one in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)):
            self._expression(one, place)
        hints = [one.annotation for one in ast.walk(node.args) if isinstance(one, ast.arg) and one.annotation]
        for one in (*hints, *([node.returns] if node.returns else [])):
            self._expression(one, replace(place, typing=place.typing or self.has_lazy_annotations))
        if place.scope.parent is None and not place.guards and not place.catches and not place.typing:
            self._deferred.append(node)
        else:
            self._body_of(node, replace(place, catches=frozenset()))

    def _body_of(self, node: Function, place: _Place) -> None:
        scope = open_scope(self.package, self.own, node.body, place.scope, parameters(node))
        self.body(node.body, replace(place, scope=scope))

    def _class(self, node: ast.ClassDef, place: _Place) -> None:
        for one in (*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)):
            self._expression(one, place)
        methods = [one for one in node.body if isinstance(one, Function) and not one.name.startswith("__")]
        for base in [target for one in node.bases for target in place.scope.targets(one)[:1]]:
            for method in methods:
                name = _Name(f"{base}.{method.name}", Kind.OVERRIDES, root=base, signature=read_signature(method))
                self._add(place, method, name)
        scope = open_scope(self.package, self.own, node.body, place.scope)
        for statement in node.body:
            inner = replace(place, scope=place.scope if isinstance(statement, Function) else scope)
            self._statement(statement, inner)

    def _other(self, statement: ast.stmt, place: _Place) -> None:
        if isinstance(statement, ast.With | ast.AsyncWith):
            place = replace(place, catches=place.catches | _suppressed(statement))
        value = getattr(statement, "value", None)
        for child in ast.iter_child_nodes(statement):
            if isinstance(child, ast.expr):
                hint = isinstance(statement, ast.AnnAssign) and child is statement.annotation
                self._expression(
                    child, replace(place, typing=place.typing or (hint and self.has_lazy_annotations)), value
                )
            elif isinstance(child, ast.stmt):
                self._statement(child, place)
            elif isinstance(child, ast.withitem):
                self._expression(child.context_expr, place)
            elif isinstance(child, ast.match_case):
                self.body(child.body, place)

    def _expression(self, node: ast.expr, place: _Place, value: ast.expr | None = None) -> None:
        seen: set[int] = set()
        for one in walk(node):
            if isinstance(one, ast.Call):
                if isinstance(one.func, ast.Name) and place.scope.parent is None:
                    self._calls.setdefault(one.func.id, []).append(place)
                for call in called(one, place.scope):
                    signature = self._signature(call.value, place)
                    self._add(
                        place, one, _Name(call.symbol, call.kind, call.optional, root=call.root, signature=signature)
                    )
            elif isinstance(one, ast.Subscript):
                if module := self._replaced_module(one):
                    self._add(place, one, _Name(module, Kind.REPLACES))
            elif isinstance(one, ast.Attribute) and id(one) not in seen:
                self._attribute(one, place, value, seen)

    def _attribute(self, node: ast.Attribute, place: _Place, value: ast.expr | None, seen: set[int]) -> None:
        seen |= {id(one) for one in _chain(node)}
        targets = place.scope.targets(node)
        if not targets:
            return
        is_set = not isinstance(node.ctx, ast.Load)
        signature = self._signature(value, place) if is_set else None
        kind = Kind.REPLACES if is_set else Kind.ATTRIBUTE
        inner = dotted(node)
        root = targets[0].removesuffix((inner or "").partition(".")[2]).rstrip(".")
        self._add(place, node, _Name(targets[0], kind, False, targets[1:], root, signature))

    def _replaced_module(self, node: ast.Subscript) -> str:
        """Return the module that `sys.modules["…"] = …` puts in place, else ''."""
        is_set = isinstance(node.ctx, ast.Store) and dotted(node.value) == "sys.modules"
        name = node.slice.value if is_set and isinstance(node.slice, ast.Constant) else None
        return name if isinstance(name, str) and is_inside(name, self.package) else ""

    def _signature(self, value: ast.expr | None, place: _Place) -> Signature | None:
        if isinstance(value, ast.Lambda):
            return read_signature(value)
        function = place.scope.find_function(value.id) if isinstance(value, ast.Name) else None
        return read_signature(function) if function else None

    def _add(self, place: _Place, node: ast.stmt | ast.expr, name: _Name) -> None:
        need = Need.OPTIONAL if name.optional and not place.typing else place.need(name.kind)
        where = (self.file, node.lineno, place.guards)
        self.uses.append(Use(name.symbol, name.kind, need, *where, name.alternatives, name.root, name.signature))


def _chain(node: ast.expr) -> Iterator[ast.expr]:
    while isinstance(node, ast.Attribute):
        yield node
        node = node.value


def _errors(handler: ast.ExceptHandler) -> frozenset[str]:
    """Return the names of the errors that a handler takes, '' for all."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return frozenset((dotted(one) or "?").rpartition(".")[2] if one else "" for one in kinds)


def _raises(handler: ast.ExceptHandler) -> bool:
    return isinstance(handler.body[-1], ast.Raise)


def _suppressed(statement: ast.With | ast.AsyncWith) -> frozenset[str]:
    calls = [item.context_expr for item in statement.items if isinstance(item.context_expr, ast.Call)]
    return frozenset(
        (dotted(one) or "?").rpartition(".")[2]
        for call in calls
        if (dotted(call.func) or "").rpartition(".")[2] == "suppress"
        for one in call.args
    )
