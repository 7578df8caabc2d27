"""YAML text → a tree of values that know where they stand.

Only what JSON can say comes out. YAML 1.1 reads `0123456` as 42798 and `no` as False, so a scalar also keeps how it was
written: the model then decides whether that was meant. The text is other people's, so size, depth and what aliases
unfold to are bounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import yaml
from yaml.constructor import SafeConstructor

from patchkit.errors import Problem

MAX_BYTES = 262_144  # a recipe has a few kB; PyYAML reads about 100 kB a second
MAX_UNFOLDED = 4 * MAX_BYTES  # letters after aliases are unfolded, each value counted as VALUE_COST more
VALUE_COST = 16
MAX_DEPTH = 40  # keeps PyYAML and our own walk off Python's recursion limit
MAX_INTEGER = 2**63

YamlPath = tuple[str | int, ...]
TOO_MUCH = "unfolds to more than a recipe can need"
TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True)
class Place:
    """A position in a file; line and column count from 1."""

    file: str
    line: int
    column: int


@dataclass(frozen=True)
class Node:
    """A value at a place. `content` is a scalar, a tuple of nodes, or a dict of nodes.

    `plain` is how a scalar is written where YAML read something else than text; `keys` are the places of mapping keys.
    """

    content: Any
    place: Place
    plain: str | None = None
    keys: Mapping[str, Place] = field(default_factory=dict)

    def value(self) -> Any:
        """Return the value as JSON knows it."""
        if isinstance(self.content, dict):
            return {key: node.value() for key, node in self.content.items()}
        if isinstance(self.content, tuple):
            return [node.value() for node in self.content]
        return self.content

    def child(self, part: str | int) -> Node | None:
        """Return the value of a key or an index, or None."""
        if isinstance(self.content, dict) and isinstance(part, str):
            found = self.content.get(part)
            return found if isinstance(found, Node) else None
        if isinstance(self.content, tuple) and isinstance(part, int) and 0 <= part < len(self.content):
            node = self.content[part]
            return node if isinstance(node, Node) else None
        return None

    def at(self, path: YamlPath) -> Node:
        """Return the value at a path, or the innermost one on the way there."""
        child = self.child(path[0]) if path else None
        return self if child is None else child.at(path[1:])

    def put(self, path: YamlPath, node: Node) -> Node:
        """Return this tree with another value at a path that it has."""
        if not path:
            return node
        below = self.at(path[:1]).put(path[1:], node)
        if isinstance(self.content, dict):
            return replace(self, content={**self.content, path[0]: below})
        return replace(self, content=tuple(below if at == path[0] else one for at, one in enumerate(self.content)))

    def select(self, *pattern: str | None, path: YamlPath = ()) -> Iterator[tuple[YamlPath, Node]]:
        """Yield what stands at a path, with its path; None in the pattern is every entry of a list or mapping."""
        if not pattern:
            yield path, self
            return
        head, *rest = pattern
        parts: list[str | int] = [head] if head is not None else []
        if head is None and isinstance(self.content, dict | tuple):
            parts = list(self.content) if isinstance(self.content, dict) else list(range(len(self.content)))
        for part in parts:
            child = self.child(part)
            if child is not None:
                yield from child.select(*rest, path=(*path, part))


@dataclass(frozen=True)
class Document:
    """A parsed file. `root` is None when the text is not YAML at all."""

    root: Node | None
    problems: tuple[Problem, ...]


def path_text(path: YamlPath) -> str:
    """Return a path as messages say it: `series[2].when`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def parse_document(data: bytes, file: str) -> Document:
    """Return the tree of one YAML document and everything that is wrong with it as YAML. Never raises for any bytes."""
    text, problem = _decode(data, file)
    node = None
    if problem is None:
        node, problem = _compose(text, file)
    if node is None:
        return Document(None, (problem or Problem(file, 1, 1, "", "is empty"),))
    walk = _Walk(file)
    return Document(walk.visit(node, ()), tuple(walk.problems))


def _decode(data: bytes, file: str) -> tuple[str, Problem | None]:
    if len(data) > MAX_BYTES:
        return "", Problem(file, 0, 0, "", f"is larger than {MAX_BYTES} bytes")
    try:
        return data.decode("utf-8-sig"), None
    except UnicodeDecodeError as error:
        place = _line_and_column(data[: error.start].decode("utf-8", "replace"))
        return "", Problem(file, *place, "", "is not UTF-8", "save the file in the UTF-8 encoding")


def _compose(text: str, file: str) -> tuple[yaml.Node | None, Problem | None]:
    try:
        return yaml.compose(text, Loader=_BoundedLoader), None
    except yaml.reader.ReaderError as error:
        message = f"holds the character U+{error.character:04X}, which YAML does not allow"
        return None, Problem(file, *_line_and_column(text[: error.position]), "", message)
    except yaml.MarkedYAMLError as error:
        return None, _explain(error, file)
    except (ValueError, OverflowError) as error:  # an escape such as "\UFFFFFFFF" that is no character
        return None, Problem(file, 0, 0, "", f"is not YAML: {error}")


def _line_and_column(before: str) -> tuple[int, int]:
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


class _BoundedLoader(yaml.SafeLoader):
    """PyYAML's safe loader with a limit on nesting; it only composes, it never constructs."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose one node, unless it is nested too deep."""
        if self.depth >= MAX_DEPTH:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]  # PyYAML's stubs leave it out
            raise yaml.composer.ComposerError(None, None, f"nested deeper than {MAX_DEPTH}", mark)
        self.depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


def _explain(error: yaml.MarkedYAMLError, file: str) -> Problem:
    """Say in our words what PyYAML complains of."""
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    problem = error.problem or ""
    if r"'\t'" in problem:
        return Problem(file, line, column, "", "a tab: YAML is indented with spaces", "replace the tab by spaces")
    if "another document" in problem:
        hint = "a file holds one document: remove the line ---"
        return Problem(file, line, column, "", "a second document begins here", hint)
    hint = 'a value with ": " in it must be quoted' if "mapping values" in problem else ""
    context = f", {error.context}" if error.context and "expected" not in error.context else ""
    return Problem(file, line, column, "", f"is not YAML: {problem}{context}", hint)


class _Walk:
    """Turns PyYAML's nodes into ours, and collects what is wrong on the way."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[Problem] = []
        self.unfolded = 0
        self.open: set[int] = set()

    def complain(self, node: yaml.Node, path: YamlPath, message: str, hint: str = "") -> None:
        place = self.place(node)
        self.problems.append(Problem(place.file, place.line, place.column, path_text(path), message, hint))

    def place(self, node: yaml.Node) -> Place:
        return Place(self.file, node.start_mark.line + 1, node.start_mark.column + 1)

    def visit(self, node: yaml.Node, path: YamlPath) -> Node:
        """Return our node; in place of what cannot be used stands null."""
        self.unfolded += VALUE_COST + (len(node.value) if isinstance(node, yaml.ScalarNode) else 0)
        if id(node) in self.open:
            self.complain(node, path, "holds itself: an alias inside its own anchor")
            return Node(None, self.place(node))
        if self.unfolded > MAX_UNFOLDED:
            if not any(problem.message == TOO_MUCH for problem in self.problems):
                self.complain(node, path, TOO_MUCH)
            return Node(None, self.place(node))
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if node.tag not in (f"{TAG}map", f"{TAG}seq"):
            self.complain(node, path, f"the tag {node.tag} is not known here")
        self.open.add(id(node))
        found = self._mapping(node, path) if isinstance(node, yaml.MappingNode) else self._sequence(node, path)
        self.open.discard(id(node))
        return found

    def _sequence(self, node: yaml.Node, path: YamlPath) -> Node:
        return Node(tuple(self.visit(one, (*path, at)) for at, one in enumerate(node.value)), self.place(node))

    def _mapping(self, node: yaml.MappingNode, path: YamlPath) -> Node:
        content: dict[str, Node] = {}
        keys: dict[str, Place] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node, path)
            if key is None:
                continue
            if key in keys:
                message = f"stands twice; the first is at {keys[key].line}:{keys[key].column}"
                self.complain(key_node, (*path, key), message, "remove one of them")
                continue
            keys[key] = self.place(key_node)
            content[key] = self.visit(value_node, (*path, key))
        return Node(content, self.place(node), keys=keys)

    def _key(self, node: yaml.Node, path: YamlPath) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            self.complain(node, path, "a key must be text")
            return None
        if node.tag == f"{TAG}merge":
            self.complain(node, path, "merge keys (<<) are not known here", "write the keys out, or use include")
            return None
        scalar = self._scalar(node, path)
        if scalar.plain is not None:
            message = f"YAML reads the key {scalar.plain} as {describe_scalar(scalar)}"
            self.complain(node, path, message, f'quote it: "{scalar.plain}"')
        return str(node.value)

    def _scalar(self, node: yaml.ScalarNode, path: YamlPath) -> Node:
        place, text, kind = self.place(node), str(node.value), node.tag.removeprefix(TAG)
        if any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in text):
            self.complain(node, path, "holds a character that no text can hold (NUL or half of a pair)")
            return Node("", place)
        if kind == "str":
            return Node(text, place)
        if kind in ("timestamp", "value", "merge"):
            what = "a date" if kind == "timestamp" else "a sign of its own"
            self.complain(node, path, f"YAML reads {text} as {what}", f'quote it: "{text}"')
            return Node(text, place)
        if kind not in _READERS:
            self.complain(node, path, f"the tag {node.tag} is not known here")
            return Node(text, place)
        try:
            return Node(_READERS[kind](node), place, plain=text)
        except (ValueError, KeyError, OverflowError):
            self.complain(node, path, f"YAML cannot read {text[:40]} as {kind}", f'quote it: "{text[:40]}"')
            return Node(text, place)


def describe_scalar(node: Node) -> str:
    """Return what YAML made of a scalar, as people know it."""
    names = {True: "true", False: "false", None: "nothing (null)"}
    if isinstance(node.content, bool | None):
        name = names[node.content]
        return "true or false, not as text" if name == (node.plain or "").lower() else name
    return "a number" if str(node.content) == node.plain else str(node.content)


def _read_integer(node: yaml.ScalarNode) -> int:
    number = int(SafeConstructor().construct_yaml_int(node))
    if abs(number) >= MAX_INTEGER:
        raise ValueError(number.bit_length())
    return number


def _read_float(node: yaml.ScalarNode) -> float:
    number = float(SafeConstructor().construct_yaml_float(node))
    if not math.isfinite(number):  # JSON has no such number
        raise ValueError(node.value)
    return number


_READERS: Mapping[str, Any] = {
    "null": lambda _node: None,
    "bool": lambda node: SafeConstructor.bool_values[node.value.lower()],
    "int": _read_integer,
    "float": _read_float,
}
