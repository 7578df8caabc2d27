"""Lines of files through libgit2, in process: where two contents differ, three-way merges of one file.

The algorithms are git's own (xdiff), so what `git merge-file` and `git diff` say is what is said here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pygit2
from pygit2.enums import DiffOption

from patchkit.tools.git.objects import Repository

NAME = "file"  # in trees that hold the one file to be merged
HEADING_END = re.compile(rb"^(@@ .*?)[ \t\r]+$", re.MULTILINE)  # cut after 80 letters, wherever; git trims it then
AS_GIT = DiffOption.INDENT_HEURISTIC | DiffOption.FORCE_TEXT  # git's default; and whoever asks knows what is binary


@dataclass(frozen=True)
class Region:
    """Lines that differ. Starts count from 0; a count is 0 for a pure insertion or deletion, which stands before it."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int


def diff_lines(old: bytes, new: bytes) -> tuple[Region, ...]:
    """Return where the lines of two contents differ, in order."""
    patch = pygit2.Patch.create_from(old, new, context_lines=0)
    return tuple(
        Region(
            hunk.old_start - (1 if hunk.old_lines else 0),
            hunk.old_lines,
            hunk.new_start - (1 if hunk.new_lines else 0),
            hunk.new_lines,
        )
        for hunk in patch.hunks
    )


def write_hunks(old: bytes, new: bytes) -> bytes:
    """Return the hunks that lead from one content to another, as `git diff` writes them: three lines of context.

    Nothing of the machine has a part in it: no attributes, no configuration. Empty for equal contents.
    """
    if old == new:
        return b""
    text = bytes(pygit2.Patch.create_from(old, new, flag=AS_GIT, context_lines=3).data)
    return HEADING_END.sub(rb"\1", text[text.index(b"\n@@ ") + 1 :])


def merge_lines(repository: Repository, base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Merge one file three ways; None when both sides changed the same lines. Raises `StoreFailure`."""
    if base in (ours, theirs):
        return theirs if base == ours else ours
    if ours == theirs:
        return ours
    joined = _join_apart(base, ours, theirs)
    if joined is not None:
        return joined
    with repository.write_errors():
        trees = (_tree_of(repository, base), _tree_of(repository, ours), _tree_of(repository, theirs))
        index = repository.opened.merge_trees(*trees)
        if index.conflicts:
            return None
        return repository.read_blob(str(index[NAME].id))


def _join_apart(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Return the merge where the changes of the sides are equal or do not touch, else None.

    So does git (xdl_merge): equal changes are taken once, and others are apart when a line stands between them.
    """
    if b"\0" in base or b"\0" in ours or b"\0" in theirs:
        return None
    changes = sorted({change for new in (ours, theirs) for change in _changes(base, new)})
    if any(start + count >= follows for (start, count, _), (follows, _, _) in pairwise(changes)):
        return None
    lines = _split(base)
    made: list[bytes] = []
    copied = 0
    for start, count, text in changes:
        made += (*lines[copied:start], text)
        copied = start + count
    return b"".join(made + lines[copied:])


def _changes(old: bytes, new: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield what changes: the first line (from 0), the number of lines, and what comes in their place."""
    lines = _split(new)
    for region in diff_lines(old, new):
        text = b"".join(lines[region.new_start : region.new_start + region.new_count])
        yield region.old_start, region.old_count, text


def _split(data: bytes) -> list[bytes]:
    """Return lines with their ends; only LF ends a line."""
    *lines, last = data.split(b"\n")
    whole = [line + b"\n" for line in lines]
    whole.append(last)
    return whole


def find_blob(repository: Repository, prefix: str) -> str | None:
    """Return the full id of the blob that a possibly short id names; None when there is none, or more than one."""
    try:
        found = repository.opened[prefix]
    except (KeyError, ValueError):
        return None
    return str(found.id) if isinstance(found, pygit2.Blob) else None


def _tree_of(repository: Repository, data: bytes) -> pygit2.Tree:
    builder = repository.opened.TreeBuilder()
    builder.insert(NAME, repository.write_blob(data), pygit2.enums.FileMode.BLOB)
    return repository.opened[builder.write()].peel(pygit2.Tree)
