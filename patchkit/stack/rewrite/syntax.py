"""One file as syntax: its definitions by qualified name, the matches of a pattern, the statements around them.

Matching works on a shadow of the text, of the same length: comments are blanks there (a comment that upstream adds
must not hide a match) and a CUDA launch `k<<<g, b>>>(x)` is spelled `k  (g, b)  (x)`, which the C++ grammar knows.
Every offset counts characters and holds for the text as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property, lru_cache
from pathlib import PurePosixPath
from textwrap import dedent

from ast_grep_py import Rule, SgNode, SgRoot

_CPP = (".cu", ".cuh", ".cpp", ".cc", ".cxx", ".hpp", ".hh", ".hxx", ".h")
LANGUAGES: Mapping[str, str] = {".py": "python", ".pyi": "python"} | dict.fromkeys(_CPP, "cpp")
METAVARIABLE = re.compile(r"\$\$\$([A-Z_][A-Z0-9_]*)|\$([A-Z_][A-Z0-9_]*)")
_LAUNCH = re.compile(r"<<<(.*?)>>>(?=\s*\()", re.DOTALL)
_HEADER = re.compile(r"(async\s+)?(def|class)\s+[\w$]+\s*(\(.*\))?", re.DOTALL)  # the head of a definition alone
# The nodes whose children are statements.
_BLOCKS = {"module", "block", "translation_unit", "compound_statement", "declaration_list", "field_declaration_list"}
_DEFINITIONS = {
    "python": [Rule(kind=kind) for kind in ("function_definition", "class_definition")],
    "cpp": [
        Rule(kind=kind)
        for kind in ("function_definition", "class_specifier", "struct_specifier", "namespace_definition")
    ],
}

Span = tuple[int, int]


class RewriteError(Exception):
    """A step that does not fit the tree: names the file, the step and what was found instead."""


@dataclass(frozen=True)
class Definition:
    """A function, class or namespace. `name` is dotted, also in C++; `body` is None where there is none."""

    name: str
    span: Span
    body: SgNode | None


@dataclass(frozen=True)
class Match:
    """Where a pattern was found, the statement around it, and what each metavariable stands for (None: nothing)."""

    span: Span
    statement: SgNode
    bound: Mapping[str, Span | None]


def span_of(node: SgNode) -> Span:
    """Return the offsets of a node."""
    where = node.range()
    return where.start.index, where.end.index


def holds(outer: Span, inner: Span) -> bool:
    """Return whether a span lies within another."""
    return outer[0] <= inner[0] and inner[1] <= outer[1]


class Syntax:
    """One file, parsed once. Raises `RewriteError` where a question needs a grammar that there is not."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.suffix = PurePosixPath(path).suffix
        self.language = LANGUAGES.get(self.suffix, "")

    @cached_property
    def shadow(self) -> str:
        """Return the text as it is matched."""
        return _shadow(self.text, self.suffix)

    @cached_property
    def root(self) -> SgNode:
        """Return the syntax tree of the shadow."""
        if not self.language:
            raise RewriteError(f"no grammar for files named *{self.suffix or self.path}: use append or create")
        return SgRoot(self.shadow, self.language).root()

    @cached_property
    def definitions(self) -> tuple[Definition, ...]:
        """Return every definition, outermost first, in file order."""
        found: list[Definition] = []
        around: list[Definition] = []
        for node in self.root.find_all(any=_DEFINITIONS[self.language]):
            span, own = span_of(node), _name_of(node)
            while around and not holds(around[-1].span, span):
                around.pop()
            name = f"{around[-1].name}.{own}" if around else own
            around.append(Definition(name, span, node.field("body")))
            found.append(around[-1])
        return tuple(found)

    def definition(self, name: str) -> Definition:
        """Return the one definition of that qualified name (in C++ the last parts of it are enough)."""
        wanted = name.replace("::", ".")
        found = [known for known in self.definitions if known.name == wanted]
        if not found and self.language == "cpp":
            found = [known for known in self.definitions if known.name.endswith("." + wanted)]
        if len(found) == 1:
            return found[0]
        if found:
            raise RewriteError(f"{len(found)} definitions are named {name} (lines {self.lines(d.span for d in found)})")
        near = get_close_matches(wanted, [known.name for known in self.definitions], n=3)
        raise RewriteError(f"no definition named {name}" + (f"; nearest: {', '.join(near)}" if near else ""))

    def enclosing(self, offset: int) -> str:
        """Return the qualified name of the innermost definition around an offset, "" for the file itself."""
        around = [known for known in self.definitions if known.span[0] < offset < known.span[1]]
        return around[-1].name if around else ""

    def find(self, pattern: str, scope: Span) -> tuple[Match, ...]:
        """Return the places where a pattern, or a run of statements, is found within a span, in file order."""
        parts = split_pattern(pattern, self.suffix)
        try:
            nodes = [node for node in self.root.find_all(pattern=parts[0]) if holds(scope, span_of(node))]
            return tuple(found for node in nodes if (found := self._follow(node, parts)) is not None)
        except RuntimeError as error:  # what ast-grep raises for a pattern that is no one piece of syntax to it
            raise RewriteError(f"ast-grep does not take the pattern {pattern.strip()!r}") from error

    def _follow(self, node: SgNode, parts: tuple[str, ...]) -> Match | None:
        """Read on from the first statement of a run; None when the next ones are others or bind other things."""
        current: SgNode | None = statement_of(node)
        bound = _bound(node, parts[0])
        start, end = span_of(node)
        if current is None or (len(parts) > 1 and span_of(current) != (start, end)):
            return None
        statement = current
        for part in parts[1:]:
            current = _next_statement(current)
            found = current.find(pattern=part) if current is not None else None
            if current is None or found is None or span_of(found) != span_of(current):
                return None
            more = _bound(found, part)
            if any(self._matched(bound[name]) != self._matched(more[name]) for name in bound.keys() & more.keys()):
                return None
            bound = bound | more
            end = span_of(found)[1]
        return Match((start, end), statement, bound)

    def _matched(self, span: Span | None) -> str:
        return self.shadow[slice(*span)] if span else ""

    @cached_property
    def string_spans(self) -> tuple[Span, ...]:
        """Return the strings that go over several lines: what is in them is never shifted."""
        kinds = ("string",) if self.language == "python" else ("raw_string_literal", "string_literal")
        spans = [span_of(node) for node in self.root.find_all(any=[Rule(kind=kind) for kind in kinds])]
        return tuple((start, end) for start, end in spans if "\n" in self.text[start:end])

    def error_count(self) -> int:
        """Return how many places the grammar does not understand."""
        return len(self.root.find_all(kind="ERROR"))

    def lines(self, spans: Iterator[Span]) -> str:
        """Return the lines on which spans begin, for a message."""
        return ", ".join(str(self.text.count("\n", 0, start) + 1) for start, _ in spans) or "none"


def statement_of(node: SgNode) -> SgNode:
    """Return the statement that a node is part of."""
    parent = node.parent()
    while parent is not None and parent.kind() not in _BLOCKS:
        node, parent = parent, parent.parent()
    return node


@lru_cache(maxsize=256)
def split_pattern(pattern: str, suffix: str) -> tuple[str, ...]:
    """Return the statements of a pattern, without comments. Raises `RewriteError` when it does not parse."""
    text = dedent(pattern).strip()
    probe = text.replace("$", "_")  # one for one, so that offsets stay
    language = LANGUAGES.get(suffix, "")
    if not language:
        raise RewriteError(f"no grammar for files named *{suffix}: use append or create")
    shadow = _shadow(text, suffix, comments_of=probe)
    if language == "python" and _HEADER.fullmatch(shadow.strip()):
        return (shadow.strip(),)
    probe = _shadow(probe, suffix)
    for before, after in (("", ""), ("", ";"), ("void f() {", ";}")) if language == "cpp" else (("", ""),):
        parsed = SgRoot(before + probe + after, language).root()
        if parsed.find(kind="ERROR") is None:
            spans = [span_of(node) for node in _statements(parsed, inside=bool(before))]
            parts = [shadow[start - len(before) : end - len(before)].strip() for start, end in spans]
            if parts:
                return tuple(parts) if len(parts) > 1 else (shadow.strip(),)
    raise RewriteError(f"the pattern does not parse: {pattern.strip()!r}")


def _statements(root: SgNode, inside: bool) -> list[SgNode]:
    """The statements of a parsed pattern, those of its body where it had to be put into a function."""
    body = root.find(kind="compound_statement") if inside else None
    children = (body or root).children()
    return [node for node in children if node.is_named() and node.kind() != "comment" and node.text() != ";"]


def _next_statement(node: SgNode | None) -> SgNode | None:
    node = node.next() if node is not None else None
    while node is not None and not node.is_named():
        node = node.next()
    return node


def _bound(node: SgNode, pattern: str) -> dict[str, Span | None]:
    bound: dict[str, Span | None] = {}
    for many, one in METAVARIABLE.findall(pattern):
        nodes = node.get_multiple_matches(many) if many else [match for match in [node.get_match(one)] if match]
        spans = [span_of(match) for match in nodes]
        bound[many or one] = (spans[0][0], spans[-1][1]) if spans else None
    return bound


def _name_of(node: SgNode) -> str:
    """The name of a definition; in C++ it stands inside declarators (`T* ns::f(int)`)."""
    name = node.field("name")
    inner = node.field("declarator")
    while name is None and inner is not None:
        name, inner = inner, inner.field("declarator")
        while inner is not None:
            name, inner = inner, inner.field("declarator")
    return name.text().replace("::", ".") if name is not None else "<anonymous>"


def _shadow(text: str, suffix: str, comments_of: str = "") -> str:
    """Blank the comments, found in `comments_of` where the text itself is a pattern; spell launches as calls."""
    language = LANGUAGES.get(suffix, "")
    comments = SgRoot(comments_of or text, language).root().find_all(kind="comment") if language else []
    pieces, at = [], 0
    for start, end in map(span_of, comments):
        pieces += [text[at:start], re.sub(r"[^\r\n]", " ", text[start:end])]
        at = end
    shadow = "".join([*pieces, text[at:]])
    return _LAUNCH.sub(r"  (\1)  ", shadow) if suffix in (".cu", ".cuh") else shadow
