"""Find a signature in a log, in a process of its own: a pattern is other people's text and may take for ever.

`(a+)+b` on thirty letters keeps Python's matcher busy for minutes, and nothing in the same process can stop it. So this
file also runs as a script: standard library only, the pattern on stdin, the log's path as argument, the line on stdout.
"""

from __future__ import annotations

import mmap
import re
import sys
from pathlib import Path

WHOLE_BYTES = 2_000_000  # a log up to this size is searched as text, a larger one as bytes
LONGEST_QUICK = 200  # letters of a pattern that may be searched for without a process of its own
REACH = 1000  # how much is shown of a long line before and after the place where the signature begins


def search(signature: str, output: str) -> str:
    """Return the line in which a signature begins, '' when the output does not have it. `^` and `$` are of a line."""
    match = re.search(signature, output, re.MULTILINE)
    if match is None:
        return ""
    begin = output.rfind("\n", max(0, match.start() - REACH), match.start()) + 1 or max(0, match.start() - REACH)
    end = output.find("\n", match.start(), match.start() + REACH)
    return output[begin : end if end >= 0 else match.start() + REACH].strip() or match.group()[:REACH].strip()


def is_quick(signature: str) -> bool:
    """Return whether a pattern cannot take long: no group and no repeat, so each place is tried once a letter."""
    plain = re.sub(r"\\.", "", signature, flags=re.DOTALL)
    return len(signature) <= LONGEST_QUICK and not re.search(r"[(*+?{]", plain)


def search_log(signature: str, log: Path) -> str:
    """Return what `search` returns for a file, however large; undecodable bytes are replaced."""
    if log.stat().st_size <= WHOLE_BYTES:
        return search(signature, log.read_bytes().decode("utf-8", "replace"))
    with log.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        ends = content[: WHOLE_BYTES // 2], content[-WHOLE_BYTES // 2 :]
        found = next(filter(None, (search(signature, end.decode("utf-8", "replace")) for end in ends)), "")
        return found or _search_bytes(signature, content)


def _search_bytes(signature: str, content: mmap.mmap) -> str:
    """Search what is too large to be text in memory; patterns that bytes lack (named characters) find none."""
    try:
        match = re.search(signature.encode(), content, re.MULTILINE)
    except re.error:
        return ""
    return "" if match is None else _line_of(content, match.start())


def _line_of(content: mmap.mmap, position: int) -> str:
    begin = content.rfind(b"\n", max(0, position - REACH), position) + 1 or max(0, position - REACH)
    end = content.find(b"\n", position, position + REACH)
    return content[begin : end if end >= 0 else position + REACH].decode("utf-8", "replace").strip()


if __name__ == "__main__":
    sys.stdout.buffer.write(search_log(sys.stdin.buffer.read().decode(), Path(sys.argv[1])).encode("utf-8", "replace"))
