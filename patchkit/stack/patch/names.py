"""File names in diffs: prefixes, strip level, quotes, timestamps. Bytes of a header line in, paths of the tree out."""

from __future__ import annotations

import re
from dataclasses import dataclass

from patchkit.stack.patch.model import MalformedPatch
from patchkit.tools.git.paths import check_path

_ESCAPES = {b"a": 7, b"b": 8, b"t": 9, b"n": 10, b"v": 11, b"f": 12, b"r": 13, b'"': 34, b"\\": 92}
_ESCAPED = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_QUOTED = re.compile(rb'"((?:[^"\\]|\\.)*)"')
_EPOCH = re.compile(rb"\t(1970-01-01|1969-12-31) ")  # how `diff -N` stamps a file that is not there, in any time zone


@dataclass(frozen=True)
class Naming:
    """How the names of a patch become paths: leading parts to remove, and the folder they are relative to."""

    strip: int = 1
    root: str = ""

    def path(self, name: bytes, line: int, stripped: int = 0) -> str:
        """Return the path that a name means; `stripped` parts are already gone. Raises `MalformedPatch`."""
        text = name.decode("utf-8", "surrogateescape")
        shown = name.decode("utf-8", "backslashreplace")
        parts = text.split("/")
        leave = max(self.strip - stripped, 0)
        if len(parts) <= leave:
            raise MalformedPatch(
                line, f"{shown}: has fewer than {leave + 1} parts, so strip {self.strip} leaves nothing"
            )
        path = "/".join(filter(None, (self.root.strip("/"), "/".join(parts[leave:]))))
        if text.startswith("/") and self.strip < 2:
            raise MalformedPatch(line, f"refused: {shown}: is absolute (set strip to the parts that lead to the tree)")
        try:
            check_path(path)
            path.encode("utf-8")
        except UnicodeEncodeError as error:
            raise MalformedPatch(line, f"{shown}: the name is no UTF-8") from error
        except ValueError as error:
            raise MalformedPatch(line, f"refused: {error}") from error
        return path


def unquote(name: bytes) -> bytes:
    """Return a name without git's C-style quotes."""
    quoted = _QUOTED.fullmatch(name)
    return _unescape(quoted[1]) if quoted else name


def marker_name(line: bytes) -> bytes | None:
    """Return the name in a `---` or `+++` line (without those), None when it says that there is no such file."""
    line = line.rstrip(b"\r\n")
    if quoted := _QUOTED.match(line):
        return _unescape(quoted[1])
    if _EPOCH.search(line):
        return None
    name = line.split(b"\t", 1)[0]
    return None if name == b"/dev/null" else name


def header_name(rest: bytes) -> tuple[bytes, bytes] | None:
    """Return the two names of a `diff --git` line (without that), where they differ in the prefix only; else None.

    Names with spaces are not quoted, so the line is split where both halves name the same file.
    """
    if quoted := _QUOTED.match(rest):
        return _unescape(quoted[1]), unquote(rest[quoted.end() + 1 :])
    if rest.endswith(b'"') and (at := rest.find(b' "')) > 0:
        return rest[:at], unquote(rest[at + 1 :])
    for at in [found.start() for found in re.finditer(rb" ", rest)]:
        old, new = rest[:at], rest[at + 1 :]
        if old == new or (b"/" in old and b"/" in new and old.split(b"/", 1)[1] == new.split(b"/", 1)[1]):
            return old, new
    return None


def _unescape(text: bytes) -> bytes:
    return _ESCAPED.sub(_unescape_one, text)


def _unescape_one(found: re.Match[bytes]) -> bytes:
    letters = found[1]
    if len(letters) == 3:
        return bytes([int(letters, 8) & 0xFF])
    return bytes([_ESCAPES[letters]]) if letters in _ESCAPES else found[0]
