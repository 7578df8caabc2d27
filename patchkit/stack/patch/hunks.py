"""The bodies of a diff: hunks of text with their counts, and git's binary patches."""

from __future__ import annotations

import re
from itertools import pairwise

from patchkit.stack.patch.binary import Binary, BinaryHunk, decode_hunk
from patchkit.stack.patch.lines import Lines
from patchkit.stack.patch.model import ADDED, CONTEXT, REMOVED, Hunk, MalformedPatch

_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@[ \t]?([^\r\n]*)")
_UNNUMBERED = re.compile(rb"@@[^-+@]*(@@.*)?\s*", re.DOTALL)
_BINARY_HEAD = re.compile(rb"(literal|delta) (\d{1,12})\s*")
_BINARY_NOTE = re.compile(rb"(Binary )?[Ff]iles .* differ\s*")


def read_hunks(lines: Lines) -> list[Hunk]:
    """Return the hunks that come next, in order of their lines; none when none come. Raises `MalformedPatch`."""
    hunks = []
    while lines.peek().startswith(b"@@"):
        hunks.append(_read_hunk(lines))
    if hunks and lines.peek()[:1] in {b" ", b"+", b"-"} and not _ends_hunk(lines, lines.peek()):
        lines.fail("the hunk has more lines than its header says")
    hunks.sort(key=lambda hunk: hunk.old_start)
    for one, other in pairwise(hunks):
        if one.old_start + len(one.old) > other.old_start:
            lines.fail("this hunk overlaps another one", max(one.line, other.line))
    return hunks


def _ends_hunk(lines: Lines, line: bytes) -> bool:
    """Return whether a line that looks like part of a hunk is the next file's name or a mail's signature."""
    if line.startswith(b"--- "):
        return lines.peek(1).startswith(b"+++ ")
    return line.rstrip(b"\r\n") in {b"-- ", b"--"} or not line.strip()


def _read_hunk(lines: Lines) -> Hunk:
    found = _HUNK.match(lines.peek())
    if not found and _UNNUMBERED.fullmatch(lines.peek()):
        lines.fail(
            "a hunk header without line numbers, which git and patch do not read either; make the diff with git diff, "
            "or write the change as a rewrite (patchkit new patch)"
        )
    if not found:
        lines.fail("a hunk header that cannot be read")
    line = lines.number
    counts = tuple(1 if found[group] is None else int(found[group]) for group in (2, 4))
    lines.at += 1
    body = _plain_body(lines, *counts) or _read_body(lines, line, *counts)
    if all(text[0] == CONTEXT for text in body):
        lines.fail("a hunk that changes nothing", line)
    return Hunk(line, int(found[1]), int(found[3]), body, found[5])


def _plain_body(lines: Lines, old_left: int, new_left: int) -> tuple[bytes, ...]:
    """Take the lines of a hunk of which each is what its first byte says; of all others take nothing, return none."""
    start = lines.at
    for at in range(start, len(lines.lines)):
        tag = lines.lines[at][0]
        if tag == CONTEXT:
            old_left, new_left = old_left - 1, new_left - 1
        elif tag == ADDED:
            new_left -= 1
        elif tag == REMOVED:
            old_left -= 1
        else:
            return ()
        if old_left <= 0 >= new_left:
            if old_left or new_left or lines.peek(at + 1 - start).startswith(b"\\"):
                return ()
            lines.at = at + 1
            return tuple(lines.lines[start : at + 1])
    return ()


def _read_body(lines: Lines, line: int, old_left: int, new_left: int) -> tuple[bytes, ...]:
    """Take the lines of any hunk; `line` is where it begins."""
    body: list[bytes] = []
    while old_left or new_left:
        text = _hunk_line(lines)
        old_left -= text[0] != ADDED
        new_left -= text[0] != REMOVED
        if old_left < 0 or new_left < 0:
            lines.fail(f"the hunk of line {line} has other line counts than its header says")
        body.append(text)
        lines.at += 1
        if lines.peek().startswith(b"\\"):
            body[-1] = text[:-1] if text.endswith(b"\n") else text
            lines.at += 1
    return tuple(body)


def _hunk_line(lines: Lines) -> bytes:
    """Return the next line of a hunk; mailers drop the space of an empty line of context."""
    if lines.ended:
        lines.fail("the patch ends in the middle of a hunk")
    text = lines.peek()
    if text[0] in {CONTEXT, ADDED, REMOVED}:
        return text
    if text not in {b"\n", b"\r\n"}:
        lines.fail("the hunk has fewer lines than its header says")
    return b" " + text


def refuse_note(lines: Lines) -> None:
    """Raise `MalformedPatch` when the next line only says that binary files differ."""
    if _BINARY_NOTE.fullmatch(lines.peek()):
        lines.fail("a binary change without its content; make the patch with git diff --binary")


def read_binary(lines: Lines) -> Binary | None:
    """Return the binary change that comes next, None when none comes. Raises `MalformedPatch`."""
    refuse_note(lines)
    if not lines.peek().startswith(b"GIT binary patch"):
        return None
    lines.at += 1
    forward = _read_binary_hunk(lines)
    if forward is None:
        lines.fail("a binary patch without data")
    return Binary(forward, _read_binary_hunk(lines))


def _read_binary_hunk(lines: Lines) -> BinaryHunk | None:
    found = _BINARY_HEAD.fullmatch(lines.peek())
    if not found:
        return None
    line = lines.number
    lines.at += 1
    data = []
    while text := lines.peek().strip():
        data.append(text)
        lines.at += 1
    lines.at += 1
    try:
        return decode_hunk("literal" if found[1] == b"literal" else "delta", int(found[2]), data)
    except ValueError as error:
        raise MalformedPatch(line, str(error)) from error
