"""`include:`: one recipe merged into another. Every value keeps the place of the file that it is from."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from patchkit.recipe.document import Node
from patchkit.recipe.folder import find_file, read_tree, shown
from patchkit.recipe.library import Library
from patchkit.recipe.validate import Complaints

OWN_PATHS = (("series", None, "file"), ("environment", "requirements"))  # relative to the file that they stand in


def read_recipe_tree(file: Path, library: Library, complaints: Complaints) -> Node | None:
    """Return the tree of a recipe with what it includes merged in, or None when a file cannot be used at all."""
    return _read(file, (), library, complaints)


def _read(file: Path, chain: tuple[Path, ...], library: Library, complaints: Complaints) -> Node | None:
    root = read_tree(file, complaints)
    include = None if root is None else root.child("include")
    if root is None or include is None or not isinstance(include.content, str) or include.content.startswith("/"):
        return root  # the model complains of an include that is no relative path
    chain = (*chain, file.resolve())
    try:
        other = find_file(file.parent, include.content, library.root)
    except ValueError as error:
        complaints.add_at(include.place, ("include",), str(error))
        return root
    if other.resolve() in chain:
        circle = [*chain[chain.index(other.resolve()) :], other.resolve()]
        complaints.add_at(include.place, ("include",), f"goes in a circle: {' → '.join(map(shown, circle))}")
        return root
    base = _read(other, chain, library, complaints)
    return None if base is None else merge(rebase(base, other.parent, file.parent), root)


def merge(base: Node, over: Node) -> Node:
    """Return two trees as one: lists append, mappings merge, anything else of `over` replaces that of `base`."""
    if isinstance(base.content, tuple) and isinstance(over.content, tuple):
        return replace(over, content=(*base.content, *over.content))
    if isinstance(base.content, dict) and isinstance(over.content, dict):
        content = dict(base.content)
        for key, node in over.content.items():
            content[key] = merge(content[key], node) if key in content else node
        return replace(over, content=content, keys={**base.keys, **over.keys})
    return over


def rebase(base: Node, folder: Path, onto: Path) -> Node:
    """Return a tree whose relative paths, written in a file of `folder`, mean the same in a file of `onto`."""
    for pattern in OWN_PATHS:
        for path, node in base.select(*pattern):
            if isinstance(node.content, str) and node.content and not node.content.startswith("/"):
                moved = os.path.relpath(os.path.normpath(folder / node.content), onto)
                base = base.put(path, replace(node, content=moved))
    return base
