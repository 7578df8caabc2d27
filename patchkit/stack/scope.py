"""Which definition a line of Python stands in: the evidence that a change landed where it was meant to."""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from patchkit.tools.git.lines import Region, diff_lines

MODULE = "<module>"


@dataclass(frozen=True)
class Span:
    """A definition: its qualified name, and its lines (from 0, `end` is not in it; decorators are)."""

    name: str
    start: int
    end: int


@lru_cache(maxsize=64)
def find_spans(source: bytes) -> tuple[Span, ...] | None:
    """Return all functions and classes, outer ones first; None when the source does not parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tuple(_walk(tree, ""))


def _walk(node: ast.AST, prefix: str) -> Iterable[Span]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{child.name}"
            start = min([child.lineno, *(decorator.lineno for decorator in child.decorator_list)])
            yield Span(name, start - 1, child.end_lineno or child.lineno)
            yield from _walk(child, name + ".")
        elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from _walk(child, prefix)


def enclosing(spans: tuple[Span, ...], line: int) -> str:
    """Return the innermost definition that a line (from 0) stands in."""
    inside = [span for span in spans if span.start <= line < span.end]
    return inside[-1].name if inside else MODULE


def check_scope(image: tuple[bytes, bytes], result: tuple[bytes, bytes], python: bool = True) -> str:
    """Return what speaks against a change, '' when nothing: other definitions, or other lines, than the patch's.

    `image` is the file before and after the patch where it was made, `result` the same where it landed. What upstream
    has already may be missing from the result, nothing else.
    """
    if complaint := _check_lines(image, result):
        return complaint
    meant, landed = (_touched(*image), _touched(*result)) if python else (None, None)
    if meant is None or landed is None:
        return ""
    if astray := sorted(landed - meant):
        return f"changes {', '.join(astray)}, which the patch does not (it changes {', '.join(sorted(meant))})"
    return ""


def _check_lines(image: tuple[bytes, bytes], result: tuple[bytes, bytes]) -> str:
    (wanted, gone), (added, removed) = _net(*image), _net(*result)
    if (added, removed) == (wanted, gone):
        return ""
    if added - wanted or removed - gone:
        return "adds or removes other lines than the patch does"
    there = _count(result[0])
    missing, original = wanted - added, _count(image[0])
    if any(there[line] < number for line, number in missing.items()):
        return "lacks lines that the patch adds"
    if any(there[line] >= max(original[line], 1) for line in gone - removed):
        return "leaves lines that the patch removes"
    return ""


def _net(before: bytes, after: bytes) -> tuple[Counter[bytes], Counter[bytes]]:
    """Return the lines that a change adds and removes on balance, whatever a diff would make of moved ones."""
    old, new = _count(before), _count(after)
    return new - old, old - new


def _count(data: bytes) -> Counter[bytes]:
    return Counter(line for line in data.split(b"\n") if line.strip())


def _touched(before: bytes, after: bytes) -> set[str] | None:
    old, new = find_spans(before), find_spans(after)
    if old is None or new is None:
        return None
    regions = diff_lines(before, after)
    lines = (before.split(b"\n"), after.split(b"\n"))
    return {name for region in regions for name in _names(region, (old, new), lines)}


def _names(
    region: Region, spans: tuple[tuple[Span, ...], tuple[Span, ...]], lines: tuple[list[bytes], list[bytes]]
) -> set[str]:
    """Return the definitions of the lines of a region on both sides; blank lines belong to nobody."""
    old = range(region.old_start, region.old_start + region.old_count)
    new = range(region.new_start, region.new_start + region.new_count)
    return {
        enclosing(spans[side], line)
        for side, part in enumerate((old, new))
        for line in part
        if lines[side][line].strip()
    }
