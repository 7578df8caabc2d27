"""What stands before the diff in a patch file: kept as its author wrote it, or written as `git am` reads it."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from patchkit.stack.carry.text import Naming
from patchkit.stack.patch import Header, MalformedPatch, Patch, parse_patches
from patchkit.stack.patch.names import header_name, marker_name

MAGIC = "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001"  # of git format-patch, with no commit
SOME_DIFF = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-1\n+2\n"
NOBODY = "nobody@localhost"  # for an author without a mail address: git am takes none without
_MAIL = re.compile(rb"^From [^\s]+ +[A-Z][a-z]{2} [A-Z][a-z]{2} [^\n]*\d{4}[^\n]*\n", re.MULTILINE)
_ENCODED = re.compile(rb"^Content-Transfer-Encoding:[ \t]*(quoted-printable|base64)", re.MULTILINE | re.IGNORECASE)
_STAT = re.compile(
    rb" \S.* \| +(\d+|Bin\b).*| \d+ files? changed.*| (create|delete) mode \d+ .*| mode change \d+ .*"
    rb"| (rename|copy|rewrite) .* \(\d+%\)|\s*"
)
_KEPT_MODE = re.compile(
    rb"diff --git .*\n(?:(?:similarity|rename|copy) .*\n)*index [0-9a-f]+\.\.[0-9a-f]+ ([0-7]{6})\r?\n"
)
_LEAD = re.compile(rb"diff -.*|Index: .*|=+|Only in .*|\s*")  # of traditional diffs, before each file
_SPECIAL = re.compile(r'[()<>\[\]:;@\\,."]')  # must be quoted in a name (RFC 5322, 3.2.3)
# What a line of a message would be taken for: the end of the message, another mail, a header inside the text.
_MISREAD = re.compile(r"^(?=---|diff -|Index: |From .*\d{4})", re.MULTILINE)
_IN_BODY = re.compile(r"(From|Subject|Date|\[PATCH[^\]]*\])\b", re.IGNORECASE)


@dataclass(frozen=True)
class Sheet:
    """One patch of a file, and the text before it; `modes` are those behind the ids, by the line of a file's part."""

    preamble: bytes
    patch: Patch
    modes: Mapping[int, int] = field(default_factory=dict)


def read_sheets(data: bytes, strip: int = 1, root: str = "") -> tuple[Sheet, ...]:
    """Return the patches of a file with what stands before each, without stat and signature.

    Raises `MalformedPatch`.
    """
    patches = parse_patches(data, strip, root)
    text = data.removeprefix(codecs.BOM_UTF8)
    if any(file.crlf for patch in patches for file in patch.files):
        text = text.replace(b"\r\n", b"\n")
    if _ENCODED.search(text):
        return tuple(Sheet(_written(patch.header), patch) for patch in patches)
    starts = [_offset(text, patch.files[0].line) for patch in patches]
    mails = [found.start() for found in _MAIL.finditer(text)]
    if mails and text[: mails[0]].strip():
        mails = []  # text comes first: no mailbox
    sheets: list[Sheet] = []
    end = 0
    for patch, start in zip(patches, starts, strict=True):
        begin = next((at for at in mails if end <= at < start), 0 if not sheets else start)
        preamble = _settle(_prune(text[begin:start]), patch.header)
        sheets.append(Sheet(preamble, patch, _read_modes(text, patch)))
        end = start
    return tuple(sheets)


def read_naming(data: bytes, patches: Sequence[Patch], strip: int, root: str) -> Naming:
    """Return how names stand in a patch file: the parts that its strip level takes away, as they are written there."""
    if strip < 2:
        return Naming(("a",) * strip, root)
    text = data.removeprefix(codecs.BOM_UTF8)
    line = text[_offset(text, patches[0].files[0].line) :].split(b"\n", 1)[0].rstrip(b"\r")
    name = (header_name(line[11:]) or (None,))[0] if line.startswith(b"diff --git ") else marker_name(line[4:])
    parts = name.decode("utf-8", "replace").split("/") if name else []
    return Naming(tuple(parts[:strip]) if len(parts) > strip else ("a", *["-"] * (strip - 1)), root)


def write_preamble(header: Header) -> bytes:
    """Return what stands before a diff so that `git am` makes the commit that the header tells of."""
    author = write_author(header.author)
    subject = " ".join(header.subject.split()) or "(no subject)"
    lines = [
        MAGIC,
        f"From: {author}",
        *([f"Date: {header.date}"] if header.date else []),
        f"Subject: [PATCH] {subject}",
    ]
    body = _MISREAD.sub(" ", header.body.strip())
    if _IN_BODY.match(body):
        body = f" {body}"
    if not f"{author}{subject}{body}".isascii():
        lines += ["MIME-Version: 1.0", "Content-Type: text/plain; charset=UTF-8", "Content-Transfer-Encoding: 8bit"]
    text = "\n".join([*lines, "", *([body] if body else []), "---", ""])
    return text.encode("utf-8", "replace")


def write_author(author: str) -> str:
    """Return an author as a mail header holds it: `"J. Doe" <mail>`; one without an address gets a made-up one."""
    name, bracket, mail = " ".join(author.split()).rpartition("<")
    if not bracket:
        whole = mail.strip()
        return f"<{whole}>" if "@" in whole and " " not in whole else f"{_quote(whole or 'nobody')} <{NOBODY}>"
    return f"{_quote(name.strip())} <{mail.rstrip('> ') or NOBODY}>".strip()


def _quote(name: str) -> str:
    if not _SPECIAL.search(name) or (len(name) > 1 and name[0] == name[-1] == '"'):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _offset(text: bytes, line: int) -> int:
    """Return where a line (from 1) begins."""
    at = 0
    for _ in range(line - 1):
        at = text.index(b"\n", at) + 1
    return at


def _settle(preamble: bytes, header: Header) -> bytes:
    """Return a preamble if it still says what it said before it was pruned, else one that does."""
    return preamble if _says(preamble) == header else _written(header)


def _written(header: Header) -> bytes:
    """Return a preamble for a header; none for an empty one, nor for one that no mail can hold."""
    written = write_preamble(header) if header != Header() else b""
    return written if _says(written) in (header, replace(header, author=write_author(header.author))) else b""


def _says(preamble: bytes) -> Header | None:
    """Return what a reader makes of a preamble, None where it hides the diff behind it."""
    try:
        patches = parse_patches(preamble + SOME_DIFF)
    except MalformedPatch:
        return None
    return patches[0].header if len(patches) == 1 and len(patches[0].files) == 1 else None


def _read_modes(text: bytes, patch: Patch) -> dict[int, int]:
    """Return the modes that stay, which git writes behind the ids of a file."""
    found = {file.line: _KEPT_MODE.match(text, _offset(text, file.line)) for file in patch.files if file.git}
    return {line: int(match[1], 8) for line, match in found.items() if match}


def _prune(preamble: bytes) -> bytes:
    """Return a preamble without the stat behind its `---`, and without the lines that announce a traditional diff."""
    while (pruned := _prune_once(preamble)) != preamble:
        preamble = pruned
    return pruned


def _prune_once(preamble: bytes) -> bytes:
    lines = preamble.split(b"\n")[:-1]
    while lines and _LEAD.fullmatch(lines[-1]):
        lines.pop()
    marks = [number for number, line in enumerate(lines) if line.rstrip() == b"---"]
    if marks:
        notes = [line for line in lines[marks[-1] + 1 :] if not _STAT.fullmatch(line)]
        lines = [*lines[: marks[-1]], b"---", *notes]
    elif lines:
        lines.append(b"")
    return b"".join(line + b"\n" for line in lines)
