"""Two versions of a series, patch by patch: what `git range-diff` shows, from what the patches say alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from patchkit.stack.patch import FilePatch, Hunk, Patch
from patchkit.stack.patch.model import CONTEXT
from patchkit.tools.git.lines import write_hunks


class Sign(StrEnum):
    """How two versions of a patch compare; the values are range-diff's own."""

    SAME = "="
    CHANGED = "!"
    GONE = "<"
    NEW = ">"


@dataclass(frozen=True)
class Pair:
    """One patch in both versions. Numbers count from 1, 0 where it is on one side only; `lines` say what changed."""

    sign: Sign
    old: int
    new: int
    title: str
    lines: tuple[str, ...] = ()


def compare_series(old: Sequence[Patch], new: Sequence[Patch]) -> tuple[Pair, ...]:
    """Return the patches of both versions side by side, in the order of the new one, then those that are gone.

    Patches belong together when they change the same, else when they have one title, else when both change one file.
    """
    pairs = _match(old, new)
    found = [_pair(old, new, pairs.get(at), at) for at in range(len(new))]
    gone = [at for at in range(len(old)) if at not in pairs.values()]
    return (*found, *(Pair(Sign.GONE, at + 1, 0, _title(old[at])) for at in gone))


def same_change(old: Sequence[Patch], new: Sequence[Patch], context: bool = True) -> bool:
    """Return whether two versions change the same in the same files, wherever in them.

    As `git patch-id` has it: line numbers and titles do not count. Without `context` neither do the lines around.
    """
    return _bodies(old, context) == _bodies(new, context)


def _match(old: Sequence[Patch], new: Sequence[Patch]) -> dict[int, int]:
    """Return the old patch of each new one that has one."""
    pairs: dict[int, int] = {}
    for is_alike in (_alike, _same_title, _same_file):
        for at, patch in enumerate(new):
            if at not in pairs:
                free = (one for one in range(len(old)) if one not in pairs.values())
                found = next((one for one in free if is_alike(old[one], patch)), None)
                if found is not None:
                    pairs[at] = found
    return pairs


def _alike(old: Patch, new: Patch) -> bool:
    return same_change([old], [new])


def _same_title(old: Patch, new: Patch) -> bool:
    return bool(old.header.subject) and old.header.subject == new.header.subject


def _same_file(old: Patch, new: Patch) -> bool:
    return bool({file.path for file in old.files} & {file.path for file in new.files})


def _pair(old: Sequence[Patch], new: Sequence[Patch], before: int | None, at: int) -> Pair:
    if before is None:
        return Pair(Sign.NEW, 0, at + 1, _title(new[at]))
    both = (old[before], new[at])
    if _words(both[0]) == _words(both[1]) and same_change(both[:1], both[1:]):
        return Pair(Sign.SAME, before + 1, at + 1, _title(new[at]))
    hunks = write_hunks(_text(both[0]), _text(both[1])).decode("utf-8", "replace").split("\n")
    lines = tuple("@@" if line.startswith("@@ -") else line for line in hunks if line)
    return Pair(Sign.CHANGED, before + 1, at + 1, _title(new[at]), lines)


def _title(patch: Patch) -> str:
    if patch.header.subject:
        return patch.header.subject
    more = len(patch.files) - 1
    return patch.files[0].path + (f" and {more} more" if more else "")


def _text(patch: Patch) -> bytes:
    """Return a patch as range-diff compares it: message and changes, no line numbers and no ids."""
    files = (f" ## {file.path} ##\n".encode() + _body(file, True, heading=True) for file in patch.files)
    return _words(patch).encode("utf-8", "replace") + b"\n" + b"".join(files)


def _words(patch: Patch) -> str:
    header = patch.header
    return "\n".join(filter(None, (header.author, header.subject, header.body)))


def _bodies(patches: Sequence[Patch], context: bool) -> list[tuple[str, bytes]]:
    return sorted((file.path, _body(file, context)) for patch in patches for file in patch.files)


def _body(file: FilePatch, context: bool, heading: bool = False) -> bytes:
    """Return what a patch says of a file: moves, modes, hunks with or without what stands around them."""
    head = f"{file.old_path or ''} {file.old_mode or ''} {file.new_mode or ''}\n".encode() if _is_more(file) else b""
    if file.binary is not None:
        return head + f"binary {file.new_blob}\n".encode()
    return head + b"".join(_hunk(hunk, context, heading) for hunk in file.hunks)


def _hunk(hunk: Hunk, context: bool, heading: bool) -> bytes:
    first = b"@@ " + (hunk.heading if heading else b"") + b"\n" if context else b""
    lines = (line for line in hunk.body if context or line[0] != CONTEXT)
    return first + b"".join(line if line.endswith(b"\n") else line + b"\n" for line in lines)


def _is_more(file: FilePatch) -> bool:
    return file.moves or file.old_path is None or file.new_path is None or file.old_mode != file.new_mode
