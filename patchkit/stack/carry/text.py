"""Changes → the text of a git diff, the same bytes on every machine: full ids, no stat, nothing of a configuration.

Two ways in: two trees, or the parsed parts of a patch file. What comes out is what `parse_patches` reads.
"""

from __future__ import annotations

import base64
import os
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from patchkit.stack.ladder.view import REGULAR, SUBMODULE
from patchkit.stack.patch import Binary, BinaryHunk, FilePatch, Hunk
from patchkit.stack.patch.model import ADDED, REMOVED
from patchkit.tools.git.lines import write_hunks
from patchkit.tools.git.objects import Delta, Entry, Repository

NO_BLOB = "0" * 40
BINARY_PROBE = 8000  # bytes in which git looks for a NUL to tell a binary file
LINE_BYTES = 52  # of a line of base 85, as git writes it
STORED_BYTES = 0xFFFF  # of a stored block of deflate (RFC 1951, 3.2.4)
_NAMED = {0x07: "a", 0x08: "b", 0x09: "t", 0x0A: "n", 0x0B: "v", 0x0C: "f", 0x0D: "r", 0x22: '"', 0x5C: "\\"}


@dataclass(frozen=True)
class Naming:
    """How paths stand in a diff, so that the same strip level and root read them again.

    `leading` are the parts that are stripped, of the old side; the new side has `b` where the old one has `a`.
    """

    leading: tuple[str, ...] = ("a",)
    root: str = ""

    def old(self, path: str) -> str:
        """Return the name of a path on the side before."""
        return "/".join((*self.leading, self._below(path)))

    def new(self, path: str) -> str:
        """Return the name of a path on the side after."""
        leading = ("b", *self.leading[1:]) if self.leading[:1] == ("a",) else self.leading
        return "/".join((*leading, self._below(path)))

    def moved(self, path: str) -> str:
        """Return the name of a path in a line of a rename, which lacks the first part."""
        return "/".join((*self.leading[1:], self._below(path)))

    def _below(self, path: str) -> str:
        root = self.root.strip("/")
        return path.removeprefix(f"{root}/") if root else path


PLAIN = Naming()


def join_parts(parts: Mapping[str, bytes]) -> bytes:
    """Return the diffs of files, by path, as one: in git's order, by the bytes of the path."""
    return b"".join(parts[path] for path in sorted(parts, key=os.fsencode))


def render_trees(
    repository: Repository, trees: tuple[str, str], moves: Mapping[str, FilePatch] | None = None, naming: Naming = PLAIN
) -> dict[str, bytes]:
    """Return the diff of every path that differs between two trees.

    `moves` are renames and copies to be told as such, by their new path, where the trees still bear them out.
    """
    before, after = trees
    deltas = {delta.path: delta for delta in repository.diff(before, after)}
    parts: dict[str, bytes] = {}
    for path, move in (moves or {}).items():
        if (entries := _moved(repository, before, deltas, move)) is not None:
            file = FilePatch(0, move.old_path, path, copies=move.copies)
            parts[path] = _render_change(repository, file, entries, naming)
            del deltas[path]
            if not move.copies:
                deltas.pop(str(move.old_path), None)
    parts |= {path: _render_delta(repository, delta, naming) for path, delta in deltas.items()}
    return parts


def render_file(file: FilePatch, naming: Naming = PLAIN, mode: int | None = None) -> bytes:
    """Return one parsed part of a patch file as a git diff; `mode` is the file's where it stays and is known.

    A traditional diff that may make a file, and cannot say so, stays one: a git diff would deny it.
    """
    hunks = b"".join(map(_render_hunk, file.hunks))
    if not file.git and file.old_path and file.new_path and len(file.hunks) == 1 and not file.hunks[0].old:
        return f"--- {_marker(naming.old(file.path))}\n+++ {_marker(naming.new(file.path))}\n".encode() + hunks
    return _render(file, naming, hunks, _render_binary(file.binary) if file.binary else b"", mode)


def is_binary(data: bytes) -> bool:
    """Return whether git takes a content for binary."""
    return b"\0" in data[:BINARY_PROBE]


# --- trees ---


def _moved(
    repository: Repository, before: str, deltas: Mapping[str, Delta], move: FilePatch
) -> tuple[Entry, Entry] | None:
    """Return the file at both ends of a rename or copy, None where the trees tell another story."""
    there, gone = deltas.get(move.path), deltas.get(str(move.old_path))
    source = repository.entry(before, str(move.old_path))
    if there is None or there.old is not None or there.new is None or source is None:
        return None
    if not {source.mode, there.new.mode} <= REGULAR or (not move.copies and (gone is None or gone.new is not None)):
        return None
    return source, there.new


def _render_delta(repository: Repository, delta: Delta, naming: Naming) -> bytes:
    old, new = delta.old, delta.new
    if old is not None and new is not None and old.mode != new.mode and not {old.mode, new.mode} <= REGULAR:
        halves = (Delta(delta.path, old, None), Delta(delta.path, None, new))  # a file becomes a link, or back
        return b"".join(_render_delta(repository, half, naming) for half in halves)
    file = FilePatch(0, delta.path if old else None, delta.path if new else None)
    return _render_change(repository, file, (old, new), naming)


def _render_change(
    repository: Repository, file: FilePatch, entries: tuple[Entry | None, Entry | None], naming: Naming
) -> bytes:
    old, new = entries
    before, after = _content(repository, old), _content(repository, new)
    modes = (old.mode if old else None, new.mode if new else None)
    same = modes[0] if modes[0] == modes[1] else None
    blobs = (old.blob if old else NO_BLOB, new.blob if new else NO_BLOB)
    file = replace(file, old_blob=blobs[0], new_blob=blobs[1])
    if same is None:
        file = replace(file, old_mode=modes[0], new_mode=modes[1])
    if is_binary(before) or is_binary(after):
        both = Binary(BinaryHunk("literal", after), BinaryHunk("literal", before))
        return _render(file, naming, b"", _render_binary(both), same)
    return _render(file, naming, write_hunks(before, after), b"", same)


def _content(repository: Repository, entry: Entry | None) -> bytes:
    if entry is None:
        return b""
    if entry.mode == SUBMODULE:
        return b"Subproject commit %s\n" % entry.blob.encode()
    return repository.read_blob(entry.blob)


# --- the text of one file ---


def _render(file: FilePatch, naming: Naming, hunks: bytes, binary: bytes, mode: int | None = None) -> bytes:
    """Return the head that git writes for a file, and its change. `mode` is told with the ids when it stays."""
    old = naming.old(file.old_path or file.path)
    new = naming.new(file.new_path or file.path)
    lines = [f"diff --git {_quote(old)} {_quote(new)}", *_mode_lines(file)]
    if file.moves:
        verb = "copy" if file.copies else "rename"
        moved = [naming.moved(str(path)) for path in (file.old_path, file.new_path)]
        lines += [f"{verb} from {_quote(moved[0])}", f"{verb} to {_quote(moved[1])}"]
    if file.old_blob != file.new_blob:
        lines.append(f"index {file.old_blob}..{file.new_blob}" + (f" {mode:06o}" if mode else ""))
    if hunks:
        lines.append(f"--- {_marker(old) if file.old_path else '/dev/null'}")
        lines.append(f"+++ {_marker(new) if file.new_path else '/dev/null'}")
    return "".join(f"{line}\n" for line in lines).encode() + hunks + binary


def _mode_lines(file: FilePatch) -> Sequence[str]:
    if file.old_path is None:
        return [f"new file mode {file.new_mode or 0o100644:06o}"]
    if file.new_path is None:
        return [f"deleted file mode {file.old_mode or 0o100644:06o}"]
    if file.old_mode is None or file.new_mode is None or file.old_mode == file.new_mode:
        return []
    return [f"old mode {file.old_mode:06o}", f"new mode {file.new_mode:06o}"]


def _marker(name: str) -> str:
    """Return a name behind `---`: one with a space ends in a tab, for readers that cut at the first space."""
    return _quote(name) + ("\t" if " " in name else "")


def _quote(name: str) -> str:
    """Return a name as git writes it: in C's quotes where it holds what a terminal or parser could trip over."""
    data = name.encode("utf-8", "surrogateescape")
    if all(0x20 <= byte < 0x7F and byte not in (0x22, 0x5C) for byte in data):
        return name
    return '"' + "".join(map(_escape, data)) + '"'


def _escape(byte: int) -> str:
    if byte in _NAMED:
        return f"\\{_NAMED[byte]}"
    return chr(byte) if 0x20 <= byte < 0x7F else f"\\{byte:03o}"


def _render_hunk(hunk: Hunk) -> bytes:
    old = _span(hunk.old_start, sum(line[0] != ADDED for line in hunk.body))
    new = _span(hunk.new_start, sum(line[0] != REMOVED for line in hunk.body))
    heading = b" " + hunk.heading if hunk.heading else b""
    body = b"".join(line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n" for line in hunk.body)
    return f"@@ -{old} +{new} @@".encode() + heading + b"\n" + body


def _span(start: int, count: int) -> str:
    return f"{start}" if count == 1 else f"{start},{count}"


# --- binary ---


def _render_binary(binary: Binary) -> bytes:
    hunks = [hunk for hunk in (binary.forward, binary.backward) if hunk is not None]
    return b"GIT binary patch\n" + b"".join(map(_render_binary_hunk, hunks))


def _render_binary_hunk(hunk: BinaryHunk) -> bytes:
    packed = _store(hunk.data)
    pieces = (packed[at : at + LINE_BYTES] for at in range(0, len(packed), LINE_BYTES))
    return f"{hunk.kind} {len(hunk.data)}\n".encode() + b"".join(_binary_line(one) for one in pieces) + b"\n"


def _binary_line(piece: bytes) -> bytes:
    length = len(piece) + (ord("A") - 1 if len(piece) <= 26 else ord("a") - 27)
    return bytes([length]) + base64.b85encode(piece, pad=True) + b"\n"


def _store(data: bytes) -> bytes:
    """Return bytes as a zlib stream (RFC 1950) that is not compressed: the zlib at hand must not decide about bytes."""
    blocks = [data[at : at + STORED_BYTES] for at in range(0, len(data), STORED_BYTES)] or [b""]
    parts = [
        struct.pack("<BHH", number == len(blocks), len(block), len(block) ^ STORED_BYTES) + block
        for number, block in enumerate(blocks, 1)
    ]
    return b"\x78\x01" + b"".join(parts) + struct.pack(">I", zlib.adler32(data))
