"""The text of a diff into `FilePatch` values: git's and the traditional unified format, read line by line.

Nothing is guessed: what is announced and not there, counts that are wrong, text that looks like a change where none can
be, are errors with their line. Prose around the diffs (mail text, `Index:` lines, signatures) is passed over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from patchkit.stack.patch.binary import Binary
from patchkit.stack.patch.hunks import read_binary, read_hunks, refuse_note
from patchkit.stack.patch.lines import Lines, split_lines
from patchkit.stack.patch.model import FilePatch, Hunk
from patchkit.stack.patch.names import Naming, header_name, marker_name, unquote

_INDEX = re.compile(rb"index ([0-9a-f]{4,64})\.\.([0-9a-f]{4,64})")
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
EMPTY_BLOB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"  # git's id of an empty file
_FOREIGN = (
    (b"diff --cc ", "a combined diff of a merge; make it against one parent"),
    (b"diff --combined ", "a combined diff of a merge; make it against one parent"),
    (b"***************", "a context diff; make a unified one (diff -u)"),
    (b"@@ -", "a hunk without the name of its file"),
    (b"GIT binary patch", "a binary change without the name of its file"),
)


def parse_diff(data: bytes, naming: Naming, first_line: int = 1, crlf: bool = False) -> tuple[FilePatch, ...]:
    """Return the changes of a diff; `first_line` is where `data` begins in the patch file, for messages.

    Raises `MalformedPatch`.
    """
    return tuple(_Reader(Lines(split_lines(data), first_line), naming, crlf).read())


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

    @property
    def lacks_content(self) -> bool:
        """Return whether the ids say that the content changes: then hunks must follow, or the patch was cut off."""
        old, new = self.blobs
        empties = (self.created and EMPTY_BLOB.startswith(new)) or (self.deleted and EMPTY_BLOB.startswith(old))
        return old != new and not empties


@dataclass
class _Reader:
    """Walks over the lines of a diff."""

    lines: Lines
    naming: Naming
    crlf: bool

    def read(self) -> list[FilePatch]:
        """Return every file patch, in order."""
        found = []
        while not self.lines.ended:
            line = self.lines.peek()
            if line.startswith(b"diff --git "):
                found.append(self._read_git())
            elif line.startswith(b"--- ") and self.lines.peek(1).startswith(b"+++ "):
                found.append(self._read_traditional())
            else:
                self._refuse_foreign(line)
                self.lines.at += 1
        return found

    def _refuse_foreign(self, line: bytes) -> None:
        for start, message in _FOREIGN:
            if line.startswith(start):
                self.lines.fail(message)
        if line.startswith(b"Binary files "):
            refuse_note(self.lines)
        after = self.lines.peek(1)
        if line.startswith(b"--- ") and after and b"+++ ".startswith(after):  # no line end: it was cut off
            self.lines.fail("the patch ends in the names of a file")

    # --- headers ---

    def _read_traditional(self) -> FilePatch:
        line = self.lines.number
        old, new = marker_name(self.lines.peek()[4:]), marker_name(self.lines.peek(1)[4:])
        self.lines.at += 2
        if old is not None and new is not None and old != new:  # x.py.orig and x.py, one of them in the tree
            old = new = min(new, old, key=len)
        draft = _Draft(line, old, new, created=old is None, deleted=new is None)
        if not self.lines.peek().startswith(b"@@"):
            self.lines.fail("a hunk must follow the names of a file")
        return self._finish(draft, read_hunks(self.lines), None, git=False)

    def _read_git(self) -> FilePatch:
        names = header_name(self.lines.peek()[11:].rstrip(b"\r\n"))
        draft = _Draft(self.lines.number, *(names or (None, None)))
        self.lines.at += 1
        while self._read_header_line(draft, self.lines.peek()):
            self.lines.at += 1
        if self.lines.peek().startswith(b"--- ") and self.lines.peek(1).startswith(b"+++ "):
            self._read_markers(draft)
        hunks = read_hunks(self.lines)
        binary = read_binary(self.lines)
        if not hunks and binary is None and (not draft.said or draft.lacks_content):
            self.lines.fail("the header of a file, but no change to it", draft.line)
        if draft.old is None and draft.new is None:
            self.lines.fail("a diff --git header whose names cannot be told", draft.line)
        if len(draft.moved) == 1:
            self.lines.fail("a rename or copy needs both its names", draft.line)
        modes = draft.values.keys() & {"old", "new"}
        if sum((draft.created, draft.deleted, bool(draft.moved or modes))) > 1:
            self.lines.fail("the header says two things of a file: it is new, or deleted, or changed", draft.line)
        if len(modes) == 1:
            self.lines.fail("a change of mode needs both its modes", draft.line)
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
        old, new = marker_name(self.lines.peek()[4:]), marker_name(self.lines.peek(1)[4:])
        if (old is None) != draft.created or (new is None) != draft.deleted:
            self.lines.fail("the header and the names of the file disagree on whether it is new or deleted")
        if not draft.stripped:
            draft.old, draft.new = old, new
        self.lines.at += 2

    def _take_mode(self, draft: _Draft, text: bytes, key: str) -> None:
        if not re.fullmatch(rb"[0-7]{6}", text.strip()):
            self.lines.fail("a file mode that is no octal number of six digits")
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
        if git and not draft.moved and None not in (old, new) and old != new:
            self.lines.fail(f"names two files, {old} and {new}, but is no rename", draft.line)
        if draft.created and any(hunk.old for hunk in hunks):
            self.lines.fail("a new file cannot have lines before", hunks[0].line)
        if draft.deleted and any(hunk.new for hunk in hunks):
            self.lines.fail("a deleted file cannot have lines left", hunks[0].line)
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
