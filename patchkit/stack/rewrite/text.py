"""Text under the steps: lines and their indentation, templates filled in, edits that touch nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import dedent

from patchkit.stack.rewrite.syntax import METAVARIABLE, Match, RewriteError, Span, Syntax

Edit = tuple[int, int, str]  # from, to, what stands there instead, with \n as line end


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """Return the text with edits made, in the line ends of the file. Overlapping ones are refused."""
    newline = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
    pieces, at = [], 0
    for start, end, new in sorted(edits):
        if start < at:
            raise RewriteError(f"two matches overlap (line {text.count(chr(10), 0, start) + 1})")
        pieces += [text[at:start], new.replace("\r\n", "\n").replace("\n", newline)]
        at = end
    return "".join([*pieces, text[at:]])


def line_start(text: str, offset: int) -> int:
    """Return where the line of an offset begins."""
    return text.rfind("\n", 0, offset) + 1


def line_end(text: str, offset: int) -> int:
    """Return where the line of an offset ends, before its line end."""
    end = text.find("\n", offset)
    end = len(text) if end < 0 else end
    return end - 1 if end > offset and text[end - 1] == "\r" else end


def indentation(text: str, offset: int) -> str:
    """Return the white space that the line of an offset begins with."""
    line = text[line_start(text, offset) : line_end(text, offset)]
    return line[: len(line) - len(line.lstrip())]


def own_lines(syntax: Syntax, span: Span) -> Span:
    """Return the start of a statement and the end of its last line; it must share its lines with no other."""
    start, end = span
    last = line_end(syntax.text, end)
    if syntax.text[line_start(syntax.text, start) : start].strip() or syntax.shadow[end:last].strip().strip(";"):
        raise RewriteError(f"the statement shares its line with another (line {syntax.lines(iter([span]))})")
    return start, last


def block_of(text: str) -> list[str]:
    """Return the lines of a step's text without their common indentation and the blank lines around them."""
    return dedent(text.replace("\r\n", "\n")).rstrip().lstrip("\n").split("\n")


def indent_block(block: Sequence[str], indent: str) -> str:
    """Return lines with an indentation in front of each that is not blank."""
    return "\n".join(indent + line if line.strip() else "" for line in block)


def significant_lines(text: str) -> list[str]:
    """Return the lines that are not blank, for comparing text whatever the blank lines and line ends."""
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def render(syntax: Syntax, match: Match, template: str) -> Edit:
    """Return the edit that puts a filled-in template in the place of a match.

    Its lines are indented like the line that the match begins on. What a metavariable stands for comes in verbatim;
    its further lines move as far as its first one did. An empty template takes whole lines away.
    """
    start, end = match.span
    if not template.strip():
        alone = not syntax.text[line_start(syntax.text, start) : start].strip()
        last = line_end(syntax.text, end)
        if alone and not syntax.text[end:last].strip():
            following = re.compile(r"\r?\n").match(syntax.text, last)
            return line_start(syntax.text, start), following.end() if following else last, ""
        return start, end, ""
    filled = [_fill(syntax, match, line) for line in block_of(template)]
    indent = indentation(syntax.text, start)
    return start, end, "\n".join([filled[0], *(indent + line if line.strip() else "" for line in filled[1:])])


def _fill(syntax: Syntax, match: Match, line: str) -> str:
    """Fill in one line of a template."""
    here = len(line) - len(line.lstrip()) + len(indentation(syntax.text, match.span[0]))

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name not in match.bound:
            raise RewriteError(f"the replacement uses ${name}, which the pattern does not bind")
        span = match.bound[name]
        if span is None:
            return ""
        if (
            found[1]
            and line[: found.start()].endswith(("(", "[", "{"))
            and line[found.end() :].startswith(tuple(")]}"))
        ):
            span = _with_margins(syntax.shadow, span)
        return _moved(syntax, span, here - len(indentation(syntax.text, span[0])))

    return METAVARIABLE.sub(value, line)


def _with_margins(shadow: str, span: Span) -> Span:
    """The arguments of a call with the line breaks between them and their brackets."""
    start, end = span
    while shadow[start - 1].isspace():
        start -= 1
    while end < len(shadow) and shadow[end].isspace():
        end += 1
    return (start if shadow[start - 1] in "([{" else span[0]), (end if shadow[end : end + 1] in ")]}" else span[1])


def _moved(syntax: Syntax, span: Span, columns: int) -> str:
    """The text of a span, its further lines moved right (or left); lines that begin within a string stay."""
    lines = syntax.text[slice(*span)].split("\n")
    at = span[0]
    for number, line in enumerate(lines):
        within_string = any(start < at < end for start, end in syntax.string_spans)
        if number and not within_string and (line.strip() or number == len(lines) - 1):
            cut = min(max(-columns, 0), len(line) - len(line.lstrip()))
            lines[number] = " " * columns + line[cut:]
        at += len(line) + 1
    return "\n".join(lines)
