"""RECORD, the list of a distribution's files: how it reads and how it is written. Pure.

Format: PyPA, "Recording installed projects" (CSV: path, `algorithm=` and the digest in URL-safe base64 without padding,
size in bytes; digest and size may be empty).
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from patchkit.errors import RequestError

ALGORITHMS = frozenset({"sha256", "sha384", "sha512"})  # what the format allows; md5 and sha1 it does not


@dataclass(frozen=True)
class Row:
    """One line of RECORD. `digest` and `size` are as written, '' where RECORD says nothing (byte code, RECORD)."""

    path: str
    digest: str
    size: str


def parse_record(data: bytes, name: str) -> tuple[Row, ...]:
    """Return the rows of a RECORD; `name` is what messages call it. Raises `RequestError`."""
    try:
        lines = [line for line in csv.reader(io.StringIO(data.decode("utf-8"), newline="")) if line]
        rows = tuple(Row(line[0], *(line[1:3] if len(line) > 2 else ("", ""))) for line in lines)
    except (UnicodeDecodeError, csv.Error) as error:
        raise RequestError(f"{name}: cannot be read: {error}", "install the package again") from error
    if twice := _first_twice(row.path for row in rows):
        raise RequestError(f"{name}: lists {twice} twice", "install the package again")
    return rows


def dump_record(rows: Iterable[Row], like: bytes = b"") -> bytes:
    """Return the text of a RECORD, with the line ends of another one."""
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\r\n" if b"\r\n" in like else "\n").writerows(
        (row.path, row.digest, row.size) for row in rows
    )
    return text.getvalue().encode()


def row_of(path: str, data: bytes) -> Row:
    """Return the row of a file."""
    return Row(path, digest_text(hashlib.sha256(data).hexdigest()), str(len(data)))


def digest_text(sha256: str) -> str:
    """Return a digest (hex) as RECORD writes it."""
    return f"sha256={base64.urlsafe_b64encode(bytes.fromhex(sha256)).rstrip(b'=').decode()}"


def agrees(row: Row, data: bytes) -> bool:
    """Return whether a file is the one that RECORD lists; a row without a digest, or with an unknown one, says yes."""
    algorithm, _, wanted = row.digest.partition("=")
    if algorithm not in ALGORITHMS:
        return True
    found = hashlib.new(algorithm, data).digest()
    return base64.urlsafe_b64encode(found).rstrip(b"=").decode() == wanted.rstrip("=")


def edit_rows(rows: Iterable[Row], changes: Mapping[str, bytes | None]) -> tuple[Row, ...]:
    """Return rows with files set (new ones at the end, by name) or, for None, taken out."""
    kept = [row_of(row.path, data) if (data := changes.get(row.path)) is not None else row for row in rows]
    known = {row.path for row in kept}
    added = [row_of(path, data) for path, data in sorted(changes.items()) if data is not None and path not in known]
    gone = {path for path, data in changes.items() if data is None}
    return tuple(row for row in kept if row.path not in gone) + tuple(added)


def _first_twice(paths: Iterable[str]) -> str:
    seen: set[str] = set()
    for path in paths:
        if path in seen:
            return path
        seen.add(path)
    return ""
