"""What a patched tree must still be, whatever rung it came from: Python that parsed before parses after."""

from __future__ import annotations

import bisect
import re
import symtable
import warnings
from collections.abc import Iterable, Sequence

from patchkit.tools.git.lines import Region, diff_lines
from patchkit.tools.git.objects import Delta, Repository

_DEFINITION = re.compile(rb"(?: {4})?(?:def |class |async def |@)")


def check_gate(repository: Repository, deltas: Iterable[Delta]) -> str:
    """Return what a change has broken, '' when nothing: `vllm/x.py: no longer parses (line 3: …)`.

    A file that did not parse before is left alone: it may be a template, or in a newer Python than this one. Of a file
    that changed in places, the definitions around them are parsed first, which is enough where all of them do.
    """
    python = [delta for delta in deltas if delta.path.endswith(".py")]
    gone = [delta.old.blob for delta in python if delta.old is not None and delta.new is None]
    return "; ".join(filter(None, (_check_file(repository, delta, gone) for delta in python)))


def _check_file(repository: Repository, delta: Delta, gone: Sequence[str]) -> str:
    """Return what is wrong with a file; one that was renamed may be as broken as it was under its old name."""
    if delta.new is None or delta.new.mode not in {0o100644, 0o100755}:
        return ""
    new = repository.read_blob(delta.new.blob)
    old = repository.read_blob(delta.old.blob) if delta.old is not None else None
    if old is not None and parses_around(old, new):
        return ""
    fault = find_fault(new)
    if not fault:
        return ""
    if old is None:
        if any(_is_renamed(repository.read_blob(blob), new) for blob in gone):
            return ""
        return f"{delta.path}: is new and does not parse ({fault})"
    return "" if find_fault(old) else f"{delta.path}: no longer parses ({fault})"


def _is_renamed(old: bytes, new: bytes) -> bool:
    """Return whether a file that did not parse before has most lines of a new one."""
    lines = new.split(b"\n")
    known = set(old.split(b"\n"))
    return 2 * sum(line in known for line in lines) > len(lines) and find_fault(old) != ""


def parses_around(old: bytes, new: bytes) -> bool:
    """Return whether each definition around a change parses alone; where that cannot be told, it does not."""
    lines = new.split(b"\n")
    starts = [number for number, line in enumerate(lines) if _DEFINITION.match(line)]
    fragments = {_around(starts, region, len(lines)) for region in diff_lines(old, new)}
    return all(_is_whole(lines[start:end]) for start, end in fragments)


def _around(starts: Sequence[int], region: Region, end: int) -> tuple[int, int]:
    first = bisect.bisect_right(starts, max(region.new_start - 1, 0)) - 1
    last = bisect.bisect_left(starts, region.new_start + region.new_count + 1)
    return starts[first] if first >= 0 else 0, starts[last] if last < len(starts) else end


def _is_whole(lines: Sequence[bytes]) -> bool:
    """Return whether lines are Python by themselves: a definition, or a method, which needs a block around it."""
    text = b"\n".join(lines)
    source = b"if 1:\n" + text if text.startswith(b" ") else text
    return text.count(b'"""') % 2 == 0 and text.count(b"'''") % 2 == 0 and not find_fault(source)


def find_fault(source: bytes) -> str:
    """Return why Python source does not parse, '' when it does."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # upstream's invalid escapes are not ours to report
            # parses, and makes no objects of it: twice as fast as `ast`; bytes, since a file names its own encoding
            symtable.symtable(source, "source", "exec")  # type: ignore[arg-type]
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return str(error) or type(error).__name__
    return ""
