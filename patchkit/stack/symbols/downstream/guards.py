"""What a downstream package asks of the product before it uses a name: its version, or whether a name exists."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from packaging.version import InvalidVersion, Version

from patchkit.stack.symbols.outline import dotted

IS_VERSION = re.compile(r"(^|[._])vllm_version_is$")  # vLLM-Ascend's helper: is the installed release this one?
ORDER: dict[type[ast.cmpop], Callable[[Version, Version], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


@dataclass(frozen=True)
class VersionGuard:
    """Holds where the product's version compares so. Commits between releases equal no release."""

    compare: type[ast.cmpop]
    version: str


@dataclass(frozen=True)
class ExistsGuard:
    """Holds where all of the names exist."""

    symbols: tuple[str, ...]


@dataclass(frozen=True)
class NotGuard:
    """Holds where the other does not."""

    guard: Guard


@dataclass(frozen=True)
class JoinedGuard:
    """Holds where all, or any, of the others hold; None is a condition that nobody here can tell."""

    how: Literal["all", "any"]
    guards: tuple[Guard | None, ...]


Guard = VersionGuard | ExistsGuard | NotGuard | JoinedGuard
Exists = Callable[[str], bool | None]
Lookup = Callable[[ast.expr], Sequence[str]]


def holds(guard: Guard | None, version: str | None, exists: Exists) -> bool | None:
    """Return whether a guard holds at a version of the product; None where that cannot be told."""
    if isinstance(guard, NotGuard):
        inner = holds(guard.guard, version, exists)
        return None if inner is None else not inner
    if isinstance(guard, ExistsGuard):
        return _join([exists(symbol) for symbol in guard.symbols], all)
    if isinstance(guard, JoinedGuard):
        parts = [holds(one, version, exists) for one in guard.guards]
        return _join(parts, all if guard.how == "all" else any)
    return None if guard is None else _compares(guard, version)


def _join(parts: Sequence[bool | None], how: Callable[[Sequence[bool]], bool]) -> bool | None:
    """Return what all (any) of some answers come to, None where an unknown one decides."""
    low, high = (how([default if part is None else part for part in parts]) for default in (False, True))
    return low if low == high else None


def _compares(guard: VersionGuard, version: str | None) -> bool | None:
    if version is None:
        return {ast.Eq: False, ast.NotEq: True}.get(guard.compare)
    try:
        return ORDER[guard.compare](Version(version), Version(guard.version))
    except InvalidVersion:
        return None


def read_guard(test: ast.expr, lookup: Lookup) -> Guard | None:
    """Return the guard that a condition is, None for a condition that does not ask about the product."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = read_guard(test.operand, lookup)
        return None if inner is None else NotGuard(inner)
    if isinstance(test, ast.BoolOp):
        parts = tuple(read_guard(one, lookup) for one in test.values)
        return JoinedGuard("all" if isinstance(test.op, ast.And) else "any", parts) if any(parts) else None
    if isinstance(test, ast.Compare):
        return _read_compare(test, lookup)
    return _read_call(test, lookup) if isinstance(test, ast.Call) else None


def _read_call(test: ast.Call, lookup: Lookup) -> Guard | None:
    name = dotted(test.func) or ""
    words = [one.value for one in test.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    if IS_VERSION.search(name) and words:
        return VersionGuard(ast.Eq, words[0])
    if name == "hasattr" and words:
        targets = lookup(test.args[0])
        return ExistsGuard((f"{targets[0]}.{words[0]}",)) if targets else None
    if name.rpartition(".")[2] == "find_spec" and words:
        return ExistsGuard((words[0],))
    return None


def _read_compare(test: ast.Compare, lookup: Lookup) -> Guard | None:
    if len(test.ops) != 1:
        return None
    left, right, kind = test.left, test.comparators[0], type(test.ops[0])
    if isinstance(right, ast.Constant) and right.value is None and isinstance(left, ast.Call):
        guard = _read_call(left, lookup)
        return NotGuard(guard) if guard and kind is ast.Is else guard
    version = _version_text(right)
    if kind in ORDER and version and any(name.endswith(".__version__") for name in lookup(_unwrapped(left))):
        return VersionGuard(kind, version)
    return None


def _unwrapped(node: ast.expr) -> ast.expr:
    """Return what stands in `Version(…)` or `version.parse(…)`."""
    return node.args[0] if isinstance(node, ast.Call) and len(node.args) == 1 else node


def _version_text(node: ast.expr) -> str:
    inner = _unwrapped(node)
    return inner.value if isinstance(inner, ast.Constant) and isinstance(inner.value, str) else ""
