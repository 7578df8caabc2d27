"""A patch file as a whole: one diff, or the mails of a mailbox, each with its header."""

from __future__ import annotations

import binascii
import codecs
import quopri
import re
from email import message_from_string
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message

from patchkit.stack.patch.diff import parse_diff
from patchkit.stack.patch.model import Header, MalformedPatch, Patch
from patchkit.stack.patch.names import Naming

# What `git format-patch` and mail programs write before each mail. A line of a hunk cannot begin with F.
_MAIL = re.compile(rb"^From [^\s]+ +[A-Z][a-z]{2} [A-Z][a-z]{2} [^\n]*\d{4}[^\n]*\n", re.MULTILINE)
_FIELD = re.compile(rb"^(From|Author|Subject|Date|Description|Message-Id|MIME-Version|Content-Type): ", re.IGNORECASE)
_DIFF_START = re.compile(rb"^(diff --git |--- [^\n]+\n\+\+\+ |Index: |---[ \t]*\n)", re.MULTILINE)
_MARKERS = re.compile(rb"^--- [^\n]*\n\+\+\+ [^\n]*\n", re.MULTILINE)
_TAG = re.compile(r"^(\[[^\]]*PATCH[^\]]*\]\s*)+", re.IGNORECASE)


def parse_patches(data: bytes, strip: int = 1, root: str = "") -> tuple[Patch, ...]:
    """Return the patches of a file, in order; mails without a diff (cover letters) are passed over.

    `strip` leading parts are removed from names, which are then relative to the folder `root` of the tree.
    Raises `MalformedPatch`.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise MalformedPatch(1, "is UTF-16 text, as PowerShell's > writes it; git diff --output=FILE writes it right")
    data = data.removeprefix(codecs.BOM_UTF8)
    naming = Naming(strip, root)
    markers = _MARKERS.search(data) if b"\r\n" in data else None
    crlf = markers is not None and markers[0].count(b"\r\n") == 2
    if crlf:
        data = data.replace(b"\r\n", b"\n")
    found = [_parse_mail(text, naming, first_line, crlf) for first_line, text in _split_mails(data)]
    patches = tuple(patch for patch in found if patch.files)
    if not patches:
        raise MalformedPatch(1, "holds no diff")
    return patches


def _split_mails(data: bytes) -> list[tuple[int, bytes]]:
    """Return each mail without its `From ` line, with the line it begins at; all of the file when it is no mailbox."""
    if not data.startswith(b"From ") and b"\nFrom " not in data:
        return [(1, data)]
    starts = [found for found in _MAIL.finditer(data) if found.start() == 0 or data[found.start() - 1] == 0x0A]
    if not starts or data[: starts[0].start()].strip():
        return [(1, data)]
    ends = [found.start() for found in starts[1:]] + [len(data)]
    return [
        (data.count(b"\n", 0, found.end()) + 1, data[found.end() : end])
        for found, end in zip(starts, ends, strict=True)
    ]


def _parse_mail(text: bytes, naming: Naming, first_line: int, crlf: bool) -> Patch:
    if not _FIELD.match(text):
        return Patch(Header(), parse_diff(text, naming, first_line, crlf))
    head, _, body = text.partition(b"\n\n")
    message = message_from_string(head.decode("utf-8", "replace") + "\n\n")
    body = _decode_body(message, body, first_line)
    header = _read_header(message, body)
    return Patch(header, parse_diff(body, naming, first_line + head.count(b"\n") + 2, crlf))


def _decode_body(message: Message, body: bytes, first_line: int) -> bytes:
    """Undo the transfer encoding that a mail program chose for the text."""
    encoding = str(message.get("Content-Transfer-Encoding", "")).strip().lower()
    if encoding == "quoted-printable":
        return quopri.decodestring(body)
    if encoding == "base64":
        try:
            return binascii.a2b_base64(body).replace(b"\r\n", b"\n")
        except binascii.Error as error:
            raise MalformedPatch(first_line, "a mail whose base64 text cannot be read") from error
    return body


def _read_header(message: Message, body: bytes) -> Header:
    """Return who wrote the patch, and why; a `From:` that begins the text wins over the mail's, as in git am."""
    start = _DIFF_START.search(body)
    prose = (body[: start.start()] if start else body).decode("utf-8", "replace").strip()
    author = _field(message, "From") or _field(message, "Author")
    if prose.startswith("From: "):
        first, _, prose = prose.partition("\n")
        author, prose = _decode(first[6:]), prose.strip()
    subject = _TAG.sub("", _field(message, "Subject") or _field(message, "Description"))
    return Header(author, subject, _field(message, "Date"), prose)


def _field(message: Message, name: str) -> str:
    return _decode(str(message.get(name, "")))


def _decode(text: str) -> str:
    """Return a header field in plain text: RFC 2047 words decoded, folded lines joined."""
    joined = re.sub(r"\s*\n\s+", " ", text).strip()
    try:
        return str(make_header(decode_header(joined)))
    except (MessageError, ValueError, LookupError):  # a charset may be any bytes, a NUL among them
        return joined
