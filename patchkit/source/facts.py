"""Answers what conditions ask about a commit, from its tree and history and from the recipe's target."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from patchkit.source.commit import Commit
from patchkit.source.source import FactSettings
from patchkit.tools.git.objects import Repository

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Symbols:
    """The definitions of Python files, by blob: releases share most of their files, so each is parsed once a run."""

    def __init__(self, repository: Repository) -> None:
        """Start with no file parsed."""
        self._repository = repository
        self._known: dict[str, frozenset[str] | None] = {}

    def defines(self, blob: str, path: str, symbol: str) -> bool:
        """Return whether a file defines a symbol, or, where it is not (this) Python, has it as a word."""
        if path.endswith((".py", ".pyi")):
            if blob not in self._known:
                self._known[blob] = parse_symbols(self._repository.read_blob(blob))
            names = self._known[blob]
            if names is not None:
                return symbol in names
        word = re.escape(symbol.encode())
        return (
            re.search(rb"(?<![A-Za-z0-9_])" + word + rb"(?![A-Za-z0-9_])", self._repository.read_blob(blob)) is not None
        )


@dataclass(frozen=True)
class TreeFacts:
    """The facts of one commit. `is_ancestor(commit)` is None where the source has no history."""

    commit: Commit
    settings: FactSettings
    symbols: Symbols = field(repr=False)
    repository: Repository = field(repr=False)
    is_ancestor: Callable[[str], bool | None] = field(repr=False)

    def version(self, name: str) -> str | None:
        """Return the version of the upstream itself, of torch or of python; None when nobody knows."""
        if name == self.commit.upstream:
            return self.commit.version
        return {"torch": self.settings.torch, "python": self.settings.python}.get(name)

    def arch(self) -> str | None:
        """Return the target architecture."""
        return self.settings.arch

    def pin(self, name: str) -> str | None:
        """Return a pin of the recipe."""
        return self.settings.pins.get(name)

    def contains(self, commit: str) -> bool | None:
        """Return whether a commit is an ancestor of (or is) the one at hand; None when that cannot be told."""
        return self.is_ancestor(commit)

    def has(self, path: str, symbol: str | None) -> bool:
        """Return whether the tree has a file or folder, and in it a definition of `symbol` (dotted when nested)."""
        path = path.rstrip("/")
        entry = self.repository.entry(self.commit.tree, path)
        if symbol is None:
            return entry is not None or bool(self.repository.list_folder(self.commit.tree, path))
        if entry is None or self.repository.read(self.commit.tree, path) is None:
            return False
        return self.symbols.defines(entry.blob, path, symbol)


def parse_symbols(text: bytes) -> frozenset[str] | None:
    """Return the dotted names that Python text defines: functions, classes, assigned names, at any depth.

    What stands under `if`, `try`, `with` or a loop counts as if it stood outside. None when the text does not parse.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in a file of the tree is not the user's business
            module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    return frozenset(_names(module.body, ""))


def _names(body: Iterable[ast.stmt], prefix: str) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, Definition):
            yield prefix + statement.name
            yield from _names(statement.body, f"{prefix}{statement.name}.")
        elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
            yield from (prefix + name for name in _assigned(statement))
        else:
            yield from _names(_inner(statement), prefix)


def _assigned(statement: ast.Assign | ast.AnnAssign | ast.AugAssign) -> Iterator[str]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
    for target in targets:
        yield from (
            node.id for node in ast.walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        )


def _inner(statement: ast.stmt) -> Iterator[ast.stmt]:
    """Yield the statements in all branches of a compound statement."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            yield from child.body
