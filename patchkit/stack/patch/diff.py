"""The text of a diff into `FilePatch` values: git's and the traditional unified format, read line by line.

Nothing is guessed: what is announced and not there, counts that are wrong, text that looks like a change where none can
be, are errors with their line. Prose around the diffs (mail text, `Index:` lines, signatures) is passed over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, NoReturn

from patchkit.stack.patch.binary import Binary, BinaryHunk, decode_hunk
from patchkit.stack.patch.model import ADDED, CONTEXT, REMOVED, FilePatch, Hunk, MalformedPatch
from patchkit.stack.patch.names import Naming, header_name, marker_name, unquote

_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_INDEX = re.compile(rb"index ([0-9a-f]{4,64})\.\.([0-9a-f]{4,64})")
_BINARY_HEAD = re.compile(rb"(literal|delta) (\d{1,12})\s*")
_BINARY_NOTE = re.compile(rb"(Binary )?[Ff]iles .* differ\s*")
_MODES = (
    (b"old mode ", "old"),
    (b"new mode ", "new"),
    (b"deleted file mode ", "deleted"),
    (b"new file mode ", "created"),
)
_MOVES: tuple[tuple[bytes, Literal["old", "new"]], ...] = (
    (b"copy from ", "old"),
    (b"copy to ", "new"),
    (b"rename from ", "old"),
    (b"rename to ", "new"),
)
_FOREIGN = (
    (b"diff --cc ", "a combined diff of a merge; make it against one parent"),
    (b"diff --combined ", "a combined diff of a merge; make it against one parent"),
    (b"***************", "a context diff; make a unified one (diff -u)"),
    (b"@@ -", "a hunk without the name of its file"),
    (b"GIT binary patch", "a binary change without the name of its file"),
)


def split_lines(data: bytes) -> list[bytes]:
    """Return the lines of a file with their ends; only LF ends a line (a lone CR is text)."""
    parts = data.split(b"\n")
    last = parts.pop()
    lines = [part + b"\n" for part in parts]
    return [*lines, last] if last else lines


def parse_diff(data: bytes, naming: Naming, first_line: int = 1, crlf: bool = False) -> tuple[FilePatch, ...]:
    """Return the changes of a diff; `first_line` is where `data` begins in the patch file, for messages.

    Raises `MalformedPatch`.
    """
    return tuple(_Reader(split_lines(data), naming, first_line, crlf).read())


@dataclass
class _Draft:
    """A file patch while its header is read. Names are as written, None for /dev/null."""

    line: int
    old: bytes | None
    new: bytes | None
    stripped: int = 0  # parts that rename and copy lines lack: git writes those without a/ and b/
    values: dict[str, int] = field(default_factory=dict)
    blobs: tuple[str, str] = ("", "")
    created: bool = False
    deleted: bool = False
    copies: bool = False
    moved: set[str] = field(default_factory=set)
    said: bool = False  # a header line that is a change by itself: mode, rename, empty new file


@dataclass
class _Reader:
    """Walks over the lines of a diff; `at` is the index of the next one."""

    lines: list[bytes]
    naming: Naming
    first_line: int
    crlf: bool
    at: int = 0

    def read(self) -> list[FilePatch]:
        """Return every file patch, in order."""
        found = []
        while self.at < len(self.lines):
            line = self._peek()
            if line.startswith(b"diff --git "):
                found.append(self._read_git())
            elif line.startswith(b"--- ") and self._peek(1).startswith(b"+++ "):
                found.append(self._read_traditional())
            else:
                self._refuse_foreign(line)
                self.at += 1
        return found

    def _peek(self, ahead: int = 0) -> bytes:
        index = self.at + ahead
        return self.lines[index] if index < len(self.lines) else b""

    @property
    def _line(self) -> int:
        return self.first_line + self.at

    def _fail(self, message: str, line: int | None = None) -> NoReturn:
        raise MalformedPatch(line or self._line, message)

    def _refuse_foreign(self, line: bytes) -> None:
        for start, message in _FOREIGN:
            if line.startswith(start):
                self._fail(message)
        if line.startswith(b"Binary files ") and _BINARY_NOTE.fullmatch(line):
            self._fail("a binary change without its content; make the patch with git diff --binary")

    # --- headers ---

    def _read_traditional(self) -> FilePatch:
        line = self._line
        old, new = marker_name(self._peek()[4:]), marker_name(self._peek(1)[4:])
        self.at += 2
        if old is not None and new is not None and old != new:  # x.py.orig and x.py, one of them in the tree
            old = new = min(new, old, key=len)
        draft = _Draft(line, old, new, created=old is None, deleted=new is None)
        if not self._peek().startswith(b"@@ -"):
            self._fail("a hunk must follow the names of a file")
        return self._finish(draft, self._read_hunks(), None, git=False)

    def _read_git(self) -> FilePatch:
        names = header_name(self._peek()[11:].rstrip(b"\r\n"))
        draft = _Draft(self._line, *(names or (None, None)))
        self.at += 1
        while self._read_header_line(draft, self._peek()):
            self.at += 1
        if self._peek().startswith(b"--- ") and self._peek(1).startswith(b"+++ "):
            self._read_markers(draft)
        hunks = self._read_hunks()
        binary = self._read_binary(draft)
        if not hunks and binary is None and not draft.said:
            self._fail("the header of a file, but no change to it", draft.line)
        if draft.old is None and draft.new is None:
            self._fail("a diff --git header whose names cannot be told", draft.line)
        if len(draft.moved) == 1:
            self._fail("a rename or copy needs both its names", draft.line)
        return self._finish(draft, hunks, binary, git=True)

    def _read_header_line(self, draft: _Draft, line: bytes) -> bool:
        """Take one line of git's extended header; return whether it was one."""
        text = line.rstrip(b"\r\n")
        if found := _INDEX.match(text):
            draft.blobs = (found[1].decode(), found[2].decode())
            return True
        for start, key in _MODES:
            if text.startswith(start):
                self._take_mode(draft, text[len(start) :], key)
                return True
        for start, side in _MOVES:
            if text.startswith(start):
                self._take_move(draft, text[len(start) :], side, copies=start.startswith(b"copy"))
                return True
        return text.startswith((b"similarity index ", b"dissimilarity index "))

    def _read_markers(self, draft: _Draft) -> None:
        old, new = marker_name(self._peek()[4:]), marker_name(self._peek(1)[4:])
        if (old is None) != draft.created or (new is None) != draft.deleted:
            self._fail("the header and the names of the file disagree on whether it is new or deleted")
        if not draft.stripped:
            draft.old, draft.new = old, new
        self.at += 2

    def _take_mode(self, draft: _Draft, text: bytes, key: str) -> None:
        if not re.fullmatch(rb"[0-7]{6}", text.strip()):
            self._fail("a file mode that is no octal number of six digits")
        draft.values[key] = int(text, 8)
        draft.created |= key == "created"
        draft.deleted |= key == "deleted"
        draft.said = True

    def _take_move(self, draft: _Draft, name: bytes, side: Literal["old", "new"], copies: bool) -> None:
        if side == "old":
            draft.old = unquote(name)
        else:
            draft.new = unquote(name)
        draft.copies = copies
        draft.moved.add(side)
        draft.stripped = 1
        draft.said = True

    def _finish(self, draft: _Draft, hunks: list[Hunk], binary: Binary | None, git: bool) -> FilePatch:
        old = None if draft.created or draft.old is None else self._path(draft, draft.old)
        new = None if draft.deleted or draft.new is None else self._path(draft, draft.new)
        if draft.created and any(hunk.old for hunk in hunks):
            self._fail("a new file cannot have lines before", hunks[0].line)
        if draft.deleted and any(hunk.new for hunk in hunks):
            self._fail("a deleted file cannot have lines left", hunks[0].line)
        return FilePatch(
            line=draft.line,
            old_path=old,
            new_path=new,
            hunks=tuple(hunks),
            old_mode=draft.values.get("old", draft.values.get("deleted")),
            new_mode=draft.values.get("new", draft.values.get("created")),
            copies=draft.copies,
            binary=binary,
            old_blob=draft.blobs[0],
            new_blob=draft.blobs[1],
            git=git,
            crlf=self.crlf,
        )

    def _path(self, draft: _Draft, name: bytes) -> str:
        return self.naming.path(name, draft.line, draft.stripped)

    # --- hunks ---

    def _read_hunks(self) -> list[Hunk]:
        hunks = []
        while self._peek().startswith(b"@@ -"):
            hunks.append(self._read_hunk())
        if hunks and self._peek()[:1] in {b" ", b"+", b"-"} and not self._ends_hunk(self._peek()):
            self._fail("the hunk has more lines than its header says")
        hunks.sort(key=lambda hunk: hunk.old_start)
        for one, other in pairwise(hunks):
            if one.old_start + len(one.old) > other.old_start:
                self._fail("this hunk overlaps another one", max(one.line, other.line))
        return hunks

    def _ends_hunk(self, line: bytes) -> bool:
        """Return whether a line that looks like part of a hunk is the next file's name or a mail's signature."""
        if line.startswith(b"--- "):
            return self._peek(1).startswith(b"+++ ")
        return line.rstrip(b"\r\n") in {b"-- ", b"--"} or not line.strip()

    def _read_hunk(self) -> Hunk:
        found = _HUNK.match(self._peek())
        if not found:
            self._fail("a hunk header that cannot be read")
        line = self._line
        old_left, new_left = (1 if found[group] is None else int(found[group]) for group in (2, 4))
        self.at += 1
        body: list[bytes] = []
        while old_left or new_left:
            text = self._hunk_line()
            old_left -= text[0] != ADDED
            new_left -= text[0] != REMOVED
            if old_left < 0 or new_left < 0:
                self._fail(f"the hunk of line {line} has other line counts than its header says")
            body.append(text)
            self.at += 1
            if self._peek().startswith(b"\\"):
                body[-1] = text[:-1] if text.endswith(b"\n") else text
                self.at += 1
        if all(text[0] == CONTEXT for text in body):
            self._fail("a hunk that changes nothing", line)
        return Hunk(line, int(found[1]), int(found[3]), tuple(body))

    def _hunk_line(self) -> bytes:
        """Return the next line of a hunk; mailers drop the space of an empty line of context."""
        if self.at >= len(self.lines):
            self._fail("the patch ends in the middle of a hunk")
        text = self.lines[self.at]
        if text[0] in {CONTEXT, ADDED, REMOVED}:
            return text
        if text not in {b"\n", b"\r\n"}:
            self._fail("the hunk has fewer lines than its header says")
        return b" " + text

    # --- binary ---

    def _read_binary(self, draft: _Draft) -> Binary | None:
        line = self._peek()
        if _BINARY_NOTE.fullmatch(line):
            self._fail("a binary change without its content; make the patch with git diff --binary")
        if not line.startswith(b"GIT binary patch"):
            return None
        self.at += 1
        forward = self._read_binary_hunk()
        if forward is None:
            self._fail("a binary patch without data", draft.line)
        return Binary(forward, self._read_binary_hunk())

    def _read_binary_hunk(self) -> BinaryHunk | None:
        found = _BINARY_HEAD.fullmatch(self._peek())
        if not found:
            return None
        line = self._line
        self.at += 1
        data = []
        while text := self._peek().strip():
            data.append(text)
            self.at += 1
        self.at += 1
        try:
            return decode_hunk("literal" if found[1] == b"literal" else "delta", int(found[2]), data)
        except ValueError as error:
            raise MalformedPatch(line, str(error)) from error
