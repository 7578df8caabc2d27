"""Small products as git trees, and packages on disk that use them."""

from __future__ import annotations

import textwrap
from pathlib import Path

from patchkit.stack.symbols.downstream.read import read_uses
from patchkit.stack.symbols.downstream.use import Use
from patchkit.stack.symbols.tree import Outlines, SymbolTree
from tests.support.repositories import GitRepository


def tree_of(folder: Path, files: dict[str, str]) -> SymbolTree:
    """A product `vllm` with these files; `vllm/__init__.py` is there in any case."""
    repository = GitRepository(folder / "product.git")
    texts = {path: textwrap.dedent(text) for path, text in {"vllm/__init__.py": "", **files}.items()}
    commit = repository.commit(texts)
    return SymbolTree(Outlines(repository.objects), repository.tree_of(commit), "vllm")


def uses_of(text: str, file: str = "plugin/a.py") -> tuple[Use, ...]:
    """What a file of a package `plugin` uses."""
    return read_uses(textwrap.dedent(text).encode(), file, "vllm", "plugin")
