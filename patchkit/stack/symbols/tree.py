"""A tree of the product as names: what a dotted name stands for there. Files are parsed when a name leads to them."""

from __future__ import annotations

import builtins
import importlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from patchkit.stack.symbols.outline import Alias, Binding, ClassOutline, Definition, Outline, read_outline
from patchkit.tools.git.objects import Repository

DEEPEST = 40  # aliases in a row: more is a circle
BUILD_FILES = ("setup.py", "pyproject.toml", "CMakeLists.txt")
PLAIN_BASES = frozenset({"abc", "builtins", "collections", "contextlib", "enum", "threading", "typing"})


class State(StrEnum):
    """Whether a dotted name is in a tree. `OPEN`: it may be, nobody can read it off; `TYPING`: for type checkers."""

    FOUND = "found"
    OPEN = "open"
    TYPING = "typing"
    GONE = "gone"


@dataclass(frozen=True)
class Resolution:
    """What became of a dotted name: `missing` is the shortest part of it that is not there, '' when all is."""

    state: State
    missing: str = ""
    what: Any = None  # the last thing on the way: _Module, _Class, Definition


@dataclass(frozen=True)
class _Module:
    name: str


@dataclass(frozen=True)
class _Class:
    module: str
    outline: ClassOutline


@dataclass(frozen=True)
class _Outside:
    """Something of another package: `name` is dotted."""

    name: str


Thing = _Module | _Class | _Outside | Definition


class SymbolTree:
    """The names of one package in one git tree. Outlines are shared by blob between the trees of one `Outlines`."""

    def __init__(self, outlines: Outlines, tree: str, package: str) -> None:
        """List the files of a tree that belong to the package."""
        self.package = package
        self._outlines = outlines
        self.files = outlines.files(tree, package)
        self._folders = {path.rpartition("/")[0] for path in self.files}
        self._folders |= {one[:at] for one in self._folders for at in range(len(one)) if one[at] == "/"}
        self._built = outlines.built_names(tree, package)
        self._known: dict[tuple[str, bool], Resolution] = {}

    def resolve(self, name: str, typing: bool = False) -> Resolution:
        """Return what a dotted name of the package stands for; with `typing` also names for type checkers count."""
        key = (name, typing)
        if key not in self._known:
            self._known[key] = self._walk(name, typing)
        return self._known[key]

    def _walk(self, name: str, typing: bool) -> Resolution:
        parts = name.split(".")
        things: list[Thing] = [_Module(parts[0])]
        for at, part in enumerate(parts[1:], 1):
            found = [one for thing in things for one in self._member(thing, part, typing, 0)]
            if not found:
                prefix = ".".join(parts[: at + 1])
                typed = not typing and any(self._member(thing, part, True, 0) for thing in things)
                return Resolution(State.TYPING if typed else State.GONE, prefix)
            if None in found:
                return Resolution(State.OPEN)
            things = [one for one in found if one is not None]
        return Resolution(State.FOUND, "", things[-1])

    def _member(self, thing: Thing, name: str, typing: bool, depth: int) -> list[Thing | None]:
        """Return what a member may be: nothing when there is none, None for what nobody can read off."""
        if isinstance(thing, _Module):
            return self._of_module(thing.name, name, typing, depth)
        if isinstance(thing, _Class):
            return self._of_class(thing, name, depth)
        return [None]

    def _of_module(self, module: str, name: str, typing: bool, depth: int) -> list[Thing | None]:
        outline = self.outline(module)
        below = f"{module}.{name}"
        if depth > DEEPEST:
            return [None]
        bindings = outline.names.get(name, ()) + (outline.typing_names.get(name, ()) if typing else ())
        found = [one for binding in bindings for one in self._bound(binding, module, below, depth)]
        if found:
            return found
        if self.is_module(below):
            return [_Module(below)]
        if found := self._of_stars(outline, name, typing, depth):
            return found
        if name in outline.lazy:
            target = outline.lazy[name]
            return self._of_name(target, depth) if target else [None]
        return [None] if outline.is_open or name in MODULE_NAMES or self._is_built(below) else []

    def _of_stars(self, outline: Outline, name: str, typing: bool, depth: int) -> list[Thing | None]:
        """Return what `from … import *` brings in under a name."""
        for star in outline.stars:
            if star.partition(".")[0] != self.package:
                return [None]
            exported = self.outline(star).exported
            brought = not name.startswith("_") if exported is None else name in exported
            found = self._of_module(star, name, typing, depth + 1) if brought else []
            if found:
                return found
        return []

    def _bound(self, binding: Binding, module: str, name: str, depth: int) -> list[Thing | None]:
        if isinstance(binding, ClassOutline):
            return [_Class(module, binding)]
        if isinstance(binding, Definition):
            return [binding]
        if binding.target == name:  # from . import x, of the package itself
            return [_Module(name)] if self.is_module(name) else [None]
        found = self._of_name(f"{module}.{binding.target}" if binding.local else binding.target, depth + 1)
        return found or [None]  # their own import fails: not for us to tell

    def _of_name(self, name: str, depth: int) -> list[Thing | None]:
        """Return what a dotted name from anywhere stands for."""
        first, *rest = name.split(".")
        if first != self.package:
            return [_Outside(name)]
        things: list[Thing | None] = [_Module(first)]
        for part in rest:
            if depth > DEEPEST:
                return [None]
            things = [one for thing in things for one in self._below(thing, part, depth + 1)]
        return things

    def _below(self, thing: Thing | None, name: str, depth: int) -> list[Thing | None]:
        if isinstance(thing, _Outside):
            return [_Outside(f"{thing.name}.{name}")]
        return [None] if thing is None else self._member(thing, name, False, depth)

    def _of_class(self, thing: _Class, name: str, depth: int) -> list[Thing | None]:
        outline = thing.outline
        if name in outline.names:
            below = f"{thing.module}.{name}"
            return [one for binding in outline.names[name] for one in self._in_class(binding, thing, below, depth)]
        is_open = outline.is_open or depth > DEEPEST
        for base in self._bases(thing, depth):
            if base is None:
                is_open = True
            elif isinstance(base, _Class):
                if found := self._of_class(base, name, depth + 1):
                    return found
            elif not isinstance(base, _Outside) or (plain := _plain_base(base.name)) is None or hasattr(plain, name):
                is_open = True
        return [None] if is_open or hasattr(type, name) or name in CLASS_NAMES else []

    def _in_class(self, binding: Binding, thing: _Class, name: str, depth: int) -> list[Thing | None]:
        if isinstance(binding, Alias) and binding.local:
            return [Definition("value")]
        return self._bound(binding, thing.module, name, depth)

    def _bases(self, thing: _Class, depth: int) -> Iterator[Thing | None]:
        for base in thing.outline.bases:
            first = base.partition(".")[0]
            known = base == "?" or depth > DEEPEST
            if known:
                yield None
            elif hasattr(builtins, first) and first not in self.outline(thing.module).names:
                yield _Outside(f"builtins.{base}")
            else:
                yield from self._of_name(f"{thing.module}.{base}", depth + 1) or [None]

    def is_class(self, name: str) -> bool:
        """Return whether a dotted name is a class."""
        return isinstance(self.resolve(name).what, _Class)

    def is_module(self, name: str) -> bool:
        """Return whether a dotted name is a file or folder of the package."""
        path = name.replace(".", "/")
        return f"{path}.py" in self.files or path in self._folders

    def outline(self, module: str) -> Outline:
        """Return the outline of a module; a folder without `__init__.py` binds nothing."""
        path = module.replace(".", "/")
        for file, is_package in ((f"{path}/__init__.py", True), (f"{path}.py", False)):
            if file in self.files:
                return self._outlines.outline(self.files[file], module, is_package)
        return Outline()

    def mentions(self, word: str) -> bool:
        """Return whether a file of the package has a word, as the group of its plugins."""
        plugins = [blob for path, blob in self.files.items() if "/plugins/" in path]
        return any(word.encode() in self._outlines.read(blob) for blob in plugins)

    def _is_built(self, name: str) -> bool:
        return any(name == one or name.startswith(f"{one}.") for one in self._built)

    def defining(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Return for each name the modules that define it at their top level, or bear it."""
        found: dict[str, list[str]] = {name: [] for name in names}
        if not found:
            return {}
        words = b"|".join(re.escape(name.encode()) for name in found)
        pattern = re.compile(
            rb"^(?:(?:class|def|async def) (" + words + rb")\b|(" + words + rb")(?:: [^\n]+)? = )", re.M
        )
        for path, blob in self.files.items():
            module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            if (leaf := module.rpartition(".")[2]) in found:
                found[leaf].append(module)
            for match in pattern.finditer(self._outlines.read(blob)):
                name = (match[1] or match[2]).decode()
                if f"{module}.{name}" not in found[name]:
                    found[name].append(f"{module}.{name}")
        return found


class Outlines:
    """The outlines of files by blob: trees share most of their files, so each is parsed once a run."""

    def __init__(self, repository: Repository) -> None:
        """Start with no file parsed."""
        self._repository = repository
        self._known: dict[tuple[str, str], Outline] = {}

    def files(self, tree: str, package: str) -> dict[str, str]:
        """Return the blobs of the package's Python files in a tree by their path."""
        inside = f"{package}/"
        return {
            path: entry.blob
            for path, entry in self._repository.walk(tree)
            if path.startswith(inside) and path.endswith(".py") and entry.mode != SUBMODULE
        }

    def outline(self, blob: str, module: str, is_package: bool) -> Outline:
        """Return the outline of a blob."""
        key = (blob, module)
        if key not in self._known:
            self._known[key] = read_outline(self.read(blob), module, is_package)
        return self._known[key]

    def read(self, blob: str) -> bytes:
        """Return the text of a blob."""
        return self._repository.read_blob(blob)

    def built_names(self, tree: str, package: str) -> frozenset[str]:
        """Return the dotted names of the package that its build files mention: the build may make them."""
        pattern = re.compile(rf"(?<![\w./]){package}(?:[./]\w+)+")
        texts = [(self._repository.read(tree, name) or b"").decode("utf-8", "replace") for name in BUILD_FILES]
        names = {match[0].replace("/", ".").removesuffix(".py") for text in texts for match in pattern.finditer(text)}
        return frozenset(names)


SUBMODULE = 0o160000
MODULE_NAMES = frozenset({"__name__", "__file__", "__doc__", "__dict__", "__path__", "__spec__", "__package__"})
CLASS_NAMES = frozenset({"__annotations__", "__dict__", "__members__"})


def _plain_base(name: str) -> Any:
    """Return a class of the standard library that says all of its names, else None."""
    module, _, attribute = name.rpartition(".")
    if module not in PLAIN_BASES:
        return None
    return getattr(importlib.import_module(module), attribute, None)
