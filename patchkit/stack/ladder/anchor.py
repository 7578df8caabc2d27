"""The third rung: a change whose context has moved on, held by what it replaces and by where that stands.

A run of a hunk (removed lines and what comes in their place) is taken only where

- the removed lines stand once in the same enclosing definition, between the two lines that the patch shows around them,
  or next to one of these: one that says something (a bracket stands at the end of any list), unless they are many; or
- lines are only added, and the two lines that the patch shows around them, neither blank, stand there once each, side
  by side; or
- lines are only added, and three lines next to them on one side, which all say something and begin no definition, stand
  there once as a block, while nothing of the other side stands where it contradicts that.

What it makes must not stand there already, runs keep their order, and `scope` looks at the result. Never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from patchkit.stack.ladder.attempt import FileResult, HunkResult, HunkState
from patchkit.stack.ladder.merge import judge_merge, merge_file
from patchkit.stack.ladder.place import place_hunks
from patchkit.stack.ladder.view import View
from patchkit.stack.lineage.lineage import Image, Images
from patchkit.stack.outcome import Outcome
from patchkit.stack.patch.lines import split_lines
from patchkit.stack.patch.model import ADDED, CONTEXT, REMOVED, FilePatch, Hunk
from patchkit.stack.scope import MODULE, Span, enclosing, find_spans

_DEFINITION = re.compile(rb"\s*(?:async\s+def|def|class)\s+(\w+)")
TELLING = 6  # characters of a line that says something; `)`, `else:` and `pass` stand everywhere
BLOCK = 3  # lines of context that hold an insertion alone: all that a diff shows on a side
LONG = 4  # removed lines that say something: such a text is no chance neighbour of a blank line or bracket


@dataclass(frozen=True)
class Edit:
    """Lines `start` to `end` (from 0, `end` is not in it) of a file are replaced."""

    start: int
    end: int
    lines: list[bytes]


@dataclass(frozen=True)
class _Run:
    """Neighbouring changed lines of a hunk, with the context on both sides."""

    before: list[bytes]
    removed: list[bytes]
    added: list[bytes]
    after: list[bytes]


@dataclass(frozen=True)
class _Ground:
    """The file that is changed: its lines, and the ranges of them in which a hunk may land."""

    lines: list[bytes]
    ranges: tuple[tuple[int, int], ...]


def anchor_file(view: View, file: FilePatch, images: Images) -> FileResult:
    """Apply what a patch says of one file: exactly, by a merge, else hunk by hunk, those that do not fit by anchors."""
    merged = merge_file(view, file, images)
    found = view.read(file.path)
    if merged.outcome.stands or found is None or not _is_edit(file):
        return merged
    mode, data = found
    image = images.get(file.line)
    placed = anchor_content(file, data, image)
    if placed is None:
        return merged
    made, hunks = placed
    if image is not None:
        result = judge_merge(file, image, data, made, Outcome.ANCHORED)
        if result.outcome is not Outcome.ANCHORED:
            return result
    view.write(file.path, file.new_mode or mode, made)
    return FileResult(file.path, Outcome.ANCHORED, hunks)


def _is_edit(file: FilePatch) -> bool:
    return bool(file.hunks) and file.old_path is not None and file.new_path is not None and not file.moves


def anchor_content(file: FilePatch, data: bytes, image: Image | None) -> tuple[bytes, tuple[HunkResult, ...]] | None:
    """Return a content with all hunks of a patch on it, and where they landed; None when one has no place."""
    lines = split_lines(data)
    edits: list[Edit] = []
    hunks: list[HunkResult] = []
    spans = find_spans(data) if file.path.endswith(".py") else ()
    if spans is None:
        return None
    for exact, hunk in zip(place_hunks(data, file.hunks).hunks, file.hunks, strict=True):
        if exact.state is not HunkState.FAILED:
            made, result = _edits_of(exact, hunk), exact
        else:
            made = _anchor_hunk(_Ground(lines, _ranges(spans, hunk, image, len(lines))), hunk)
            if not made:
                return None
            line = made[0].start + 1
            result = HunkResult(exact.number, HunkState.ANCHORED, line, line - hunk.old_start - hunk.leading)
        edits += made
        hunks.append(result)
    in_order = all(one.end <= other.start for one, other in pairwise(edits))
    return (_apply(lines, edits), tuple(hunks)) if edits and in_order else None


def _edits_of(exact: HunkResult, hunk: Hunk) -> list[Edit]:
    if exact.state is HunkState.UPSTREAM:
        return []
    return [Edit(exact.line - 1, exact.line - 1 + len(hunk.old), hunk.new)]


def _apply(lines: list[bytes], edits: Sequence[Edit]) -> bytes:
    made: list[bytes] = []
    copied = 0
    for edit in edits:
        made += lines[copied : edit.start]
        made += edit.lines
        copied = edit.end
    return b"".join(made + lines[copied:])


# --- the scope of a hunk ---


def _ranges(spans: tuple[Span, ...], hunk: Hunk, image: Image | None, end: int) -> tuple[tuple[int, int], ...]:
    """Return where a hunk may land: in the definitions of the name that it was made in; else nowhere.

    Outside of all definitions, where nothing says which one it was made in: a plain diff has no headings.
    """
    if not spans:
        return ((0, end),)
    name = _name_in_image(hunk, image) if image is not None else _name_in_hunk(hunk)
    if name == MODULE:
        return ((0, end),) if image is not None else _outside(spans, end)
    return tuple((span.start, span.end) for span in spans if span.name == name or span.name.endswith("." + name))


def _outside(spans: tuple[Span, ...], end: int) -> tuple[tuple[int, int], ...]:
    """Return the ranges of lines that stand in no definition."""
    outer = sorted((span.start, span.end) for span in spans if "." not in span.name)
    starts, ends = [0, *(stop for _, stop in outer)], [*(start for start, _ in outer), end]
    return tuple((first, last) for first, last in zip(starts, ends, strict=True) if first < last)


def _name_in_image(hunk: Hunk, image: Image) -> str:
    spans = find_spans(image.before) or ()
    placed = place_hunks(image.before, [hunk]).hunks[0]
    start = placed.line - 1 if placed.state is HunkState.APPLIED else hunk.old_start - 1
    last = max(len(hunk.old) - hunk.trailing - 1, hunk.leading)
    names = {enclosing(spans, start + offset) for offset in (hunk.leading, last)}
    return _common(names)


def _common(names: set[str]) -> str:
    """Return the innermost definition that holds all of the named ones."""
    parts = [[] if name == MODULE else name.split(".") for name in sorted(names)]
    shared: list[str] = []
    for level in zip(*parts, strict=False):
        if len(set(level)) > 1:
            break
        shared.append(level[0])
    return ".".join(shared) or MODULE


def _name_in_hunk(hunk: Hunk) -> str:
    """Return the definition that a hunk shows: the last one begun in its leading context, else its heading's."""
    leading = [line[1:] for line in hunk.body[: hunk.leading]]
    shown = [found for line in leading if (found := _DEFINITION.match(line))]
    heading = _DEFINITION.match(hunk.heading)
    name = shown[-1] if shown else heading
    return name[1].decode() if name else MODULE


# --- the runs of a hunk ---


def _anchor_hunk(ground: _Ground, hunk: Hunk) -> list[Edit]:
    """Return an edit for each run of a hunk; none when one of them has no place of its own."""
    if _stands(ground, hunk.new) or not ground.ranges:
        return []
    edits = []
    for run in _runs(hunk):
        places = _places_of(ground, run)
        if len(places) != 1 or (_tells(run.added) and _stands(ground, run.added)):
            return []
        start = places[0]
        edits.append(Edit(start, start + len(run.removed), run.added))
    return edits


def _places_of(ground: _Ground, run: _Run) -> list[int]:
    """Return where the removed lines stand, or (none removed) the gap between the two neighbours."""
    if not run.removed:
        return _gap_between(ground, run) or _gap_beside(ground, run)
    places = _find(ground, run.removed)
    if len(places) != 1 or not _tells(run.removed):
        return []
    start, end = places[0], places[0] + len(run.removed)
    above = start > 0 and ground.lines[start - 1 : start] == run.before[-1:]
    below = bool(run.after) and ground.lines[end : end + 1] == run.after[:1]
    telling = (above and _tells(run.before[-1:])) or (below and _tells(run.after[:1]))
    long = sum(_tells([line]) for line in run.removed) >= LONG
    return places if (above and below) or telling or ((above or below) and long) else []


def _gap_between(ground: _Ground, run: _Run) -> list[int]:
    """Return the gap between the two neighbours of an insertion, each of which stands once."""
    if not (run.before and run.after):
        return []
    beside = [run.before[-1], run.after[0]]
    if not all(line.strip() and len(_find(ground, [line])) == 1 for line in beside):
        return []
    return [start + 1 for start in _find(ground, beside)]


def _gap_beside(ground: _Ground, run: _Run) -> list[int]:
    """Return the gap beside a block of context that stands once, where the other side has changed."""
    blocks = ((run.before[-BLOCK:], BLOCK), (run.after[:BLOCK], 0))
    held = {found[0] + skip for block, skip in blocks if len(found := _find_block(ground, block)) == 1}
    if len(held) != 1 or not (run.before and run.after):
        return []
    (gap,) = held
    above = [place for line in run.before if len(place := _find_block(ground, [line], 1)) == 1]
    below = [place for line in run.after if len(place := _find_block(ground, [line], 1)) == 1]
    in_order = all(place[0] < gap for place in above) and all(place[0] >= gap for place in below)
    return [gap] if in_order else []


def _find_block(ground: _Ground, block: list[bytes], size: int = BLOCK) -> list[int]:
    """Return where lines stand that all say something and begin no definition; nowhere if they are not such."""
    solid = len(block) == size and all(_tells([line]) and not _DEFINITION.match(line) for line in block)
    return _find(ground, block) if solid else []


def _find(ground: _Ground, text: list[bytes]) -> list[int]:
    """Return every place in the ranges where lines stand, each once."""
    found = {
        start
        for first, end in ground.ranges
        for start in range(first, end - len(text) + 1)
        if ground.lines[start : start + len(text)] == text
    }
    return sorted(found)


def _stands(ground: _Ground, text: list[bytes]) -> bool:
    return bool(_find(ground, text))


def _tells(lines: Sequence[bytes]) -> bool:
    return any(len(line.strip()) >= TELLING for line in lines)


def _runs(hunk: Hunk) -> list[_Run]:
    """Return the runs of changed lines of a hunk with the context between them."""
    groups: list[tuple[bool, list[bytes]]] = []
    for line in hunk.body:
        changed = line[0] != CONTEXT
        if not groups or groups[-1][0] != changed:
            groups.append((changed, []))
        groups[-1][1].append(line)
    runs = []
    for index, (changed, body) in enumerate(groups):
        if changed:
            before = [line[1:] for line in groups[index - 1][1]] if index else []
            after = [line[1:] for line in groups[index + 1][1]] if index + 1 < len(groups) else []
            removed = [line[1:] for line in body if line[0] == REMOVED]
            added = [line[1:] for line in body if line[0] == ADDED]
            runs.append(_Run(before, removed, added, after))
    return runs
