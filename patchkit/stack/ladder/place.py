"""Where the hunks of a patch belong in the lines of a file: with all their context, at one place only, or nowhere.

The rules, each of which refuses something that other tools get silently wrong:

- every line of context must be there, byte for byte; a hunk that begins or ends without context belongs to the begin
  or the end of the file (as in git apply);
- a hunk that fits at several places is taken only where the patch says, and only when the hunk before it did not move:
  after a move the stated line is no evidence any more;
- a hunk that fits at another line than stated, while what it makes stands somewhere too, is already upstream (when that
  is at the stated line) or ambiguous: the place it fits may well be a twin of the one it was made for;
- hunks keep their order and do not overlap.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from patchkit.stack.ladder.attempt import HunkResult, HunkState
from patchkit.stack.patch.lines import split_lines
from patchkit.stack.patch.model import Hunk

MANY = 5  # places named in a message
COMMON_LINE = 200  # lines that stand more often say nothing about where a hunk nearly fits
NEWLINE = 0x0A
SHOWN = 60  # characters of a line shown in a message


@dataclass(frozen=True)
class Placed:
    """The new content of a file, and where each hunk landed; `data` means nothing when a hunk failed."""

    data: bytes
    hunks: tuple[HunkResult, ...]


def place_hunks(data: bytes, hunks: Sequence[Hunk]) -> Placed:
    """Apply hunks to the content of a file; hunks that are there already are left as they are."""
    placer = _Placer(data)
    results = tuple(placer.place(number, hunk) for number, hunk in enumerate(hunks, 1))
    made: list[bytes] = []
    copied = 0
    for start, end, text in placer.edits:
        made += (data[copied:start], text)
        copied = end
    return Placed(b"".join((*made, data[copied:])), results)


@dataclass
class _Side:
    """One side of a hunk (what it expects, or what it makes), to be found in the file."""

    text: list[bytes]
    start: int  # where the patch says that it is, counted from 0
    at_begin: bool
    at_end: bool


@dataclass
class _Placer:
    data: bytes
    edits: list[tuple[int, int, bytes]] = field(default_factory=list)  # bytes from, to, and what comes in their place
    end: int = 0  # of the last hunk that was placed, in the lines of the file
    drift: dict[HunkState, int] = field(
        default_factory=lambda: {HunkState.APPLIED: 0, HunkState.UPSTREAM: 0}
    )  # of that hunk from its stated line, seen from either side
    index: dict[bytes, list[int]] = field(default_factory=dict)
    known: tuple[int, int] = (0, 0)  # the byte that was asked for last, and its line

    def place(self, number: int, hunk: Hunk) -> HunkResult:
        """Find a hunk's place: where it applies, or where what it makes stands already."""
        before, after = hunk.old, hunk.new
        side = _side(hunk, before, hunk.old_start)
        places = self._places(side)
        result = self._choose_place(number, side, places, HunkState.APPLIED)
        if result is None or result.offset:
            other = _side(hunk, after, hunk.new_start)
            result = _choose(
                result, self._choose_place(number, other, self._places(other, HunkState.UPSTREAM), HunkState.UPSTREAM)
            )
        if result is None:
            return HunkResult(number, HunkState.FAILED, hunk.old_start, 0, self._explain(hunk, side))
        if result.state is HunkState.APPLIED:
            start = places[result.line - 1]
            self.edits.append((start, start + sum(map(len, before)), b"".join(after)))
        if result.state is not HunkState.FAILED:
            self.end = result.line - 1 + len(before if result.state is HunkState.APPLIED else after)
            self.drift = {
                HunkState.APPLIED: self.end - (max(hunk.old_start - 1, 0) + len(before)),
                HunkState.UPSTREAM: self.end - (max(hunk.new_start - 1, 0) + len(after)),
            }
        return result

    def _choose_place(self, number: int, side: _Side, places: Collection[int], state: HunkState) -> HunkResult | None:
        """Return where a side stands; None when nowhere, failed when that cannot be told."""
        if not places:
            return None
        if self.drift[state] == 0 and side.start in places:
            place = side.start
        elif len(places) == 1:
            (place,) = places
        else:
            named = ", ".join(str(place + 1) for place in list(places)[:MANY]) + (", …" if len(places) > MANY else "")
            return HunkResult(number, HunkState.FAILED, side.start + 1, 0, f"ambiguous: matches at lines {named}")
        if place < self.end:
            message = f"matches at line {place + 1}, before the end of the hunk that precedes it"
            return HunkResult(number, HunkState.FAILED, place + 1, 0, message)
        return HunkResult(number, state, place + 1, place - side.start)

    def _places(self, side: _Side, state: HunkState = HunkState.APPLIED) -> dict[int, int]:
        """Return the lines at which a side stands, with the bytes where they begin: all, or those up to the stated."""
        data, text = self.data, b"".join(side.text)
        if side.text and not (side.text[-1] and text.count(b"\n") == len(side.text) - (text[-1] != NEWLINE)):
            return {}  # a newline is missing where no file lacks one
        if not text and not side.at_end:
            return {0: 0}
        if not text:  # nothing expected, or nothing left: at the end of the file, where that is stated
            stated = self.drift[state] == 0 and side.start == len(self.lines)
            return {len(self.lines): len(data)} if stated or not data else {}
        places: dict[int, int] = {}
        start = data.find(text)
        while start >= 0 and not (side.at_begin and start):
            stop = start + len(text)
            ends = stop == len(data) or (text.endswith(b"\n") and not side.at_end)
            if ends and (start == 0 or data[start - 1] == NEWLINE):
                line = self._line_at(start)
                places[line] = start
                if line == side.start and self.drift[state] == 0:
                    break  # as stated: wherever else it stands
            start = data.find(text, start + 1)
        return places

    def _line_at(self, position: int) -> int:
        """Return the number of lines that end before a byte."""
        near, line = self.known if self.known[0] <= position else (0, 0)
        self.known = (position, line + self.data.count(b"\n", near, position))
        return self.known[1]

    @cached_property
    def lines(self) -> list[bytes]:
        """Return the lines of the file; only what fits nowhere needs them."""
        return split_lines(self.data)

    def _build_index(self) -> None:
        if not self.index:
            for position, line in enumerate(self.lines):
                self.index.setdefault(line, []).append(position)

    def _explain(self, hunk: Hunk, side: _Side) -> str:
        """Say why a hunk fits nowhere, by the place where it nearly does."""
        if message := self._explain_ends(side):
            return message
        if hunk.trailing == 0 and self._places(_Side(side.text, side.start, side.at_begin, at_end=False)):
            return "has no context after its change, so it belongs to the end of the file, but more follows there"
        if hunk.leading == 0 and self._places(_Side(side.text, side.start, at_begin=False, at_end=side.at_end)):
            return (
                "has no context before its change, so it belongs to the begin of the file, but more precedes it there"
            )
        start = self._nearest(side)
        if start is None:
            return f"nothing like it in the file ({len(self.lines)} lines)"
        for number, expected in enumerate(side.text):
            found = self.lines[start + number] if 0 <= start + number < len(self.lines) else b""
            if found != expected:
                return f"line {start + number + 1} is {_show(found)}, the patch expects {_show(expected)}"
        return "does not fit"

    def _explain_ends(self, side: _Side) -> str:
        """Say that only the line ends differ, if so."""
        plain = _Placer(self.data.replace(b"\r\n", b"\n"))
        text = [line.replace(b"\r\n", b"\n") for line in side.text]
        if not text or not plain._places(_Side(text, side.start, side.at_begin, side.at_end)):
            return ""
        ends = ("CRLF", "LF") if any(line.endswith(b"\r\n") for line in side.text) else ("LF", "CRLF")
        return f"the line ends differ: {ends[0]} in the patch, {ends[1]} in the file"

    def _nearest(self, side: _Side) -> int | None:
        """Return where most lines of a side stand in place; of several, the one next to the stated line."""
        self._build_index()
        votes: dict[int, int] = {}
        for number, line in enumerate(side.text):
            positions = self.index.get(line, ())
            for position in positions if len(positions) <= COMMON_LINE else ():
                votes[position - number] = votes.get(position - number, 0) + 1
        return max(votes, key=lambda start: (votes[start], -abs(start - side.start)), default=None)


def _choose(applied: HunkResult | None, upstream: HunkResult | None) -> HunkResult | None:
    """Return what holds of a hunk that does not apply at its stated line, given where each of its sides stands."""
    if upstream is None:
        return applied
    if upstream.state is HunkState.FAILED:
        return applied or replace(upstream, message=f"{upstream.message}, where what it makes stands already")
    if applied is None or not upstream.offset:
        return upstream
    message = f"ambiguous: fits at line {applied.line}, but what it makes stands at line {upstream.line} already"
    return replace(applied, state=HunkState.FAILED, offset=0, message=message)


def _side(hunk: Hunk, text: list[bytes], stated: int) -> _Side:
    at_begin = hunk.leading == 0 and stated <= 1
    return _Side(text, max(stated - 1, 0), at_begin, at_end=hunk.trailing == 0)


def _show(line: bytes) -> str:
    """Return a line for a message: quoted, short, nothing unprintable; what is missing is the end of the file."""
    if not line:
        return "the end of the file"
    text = line.decode("utf-8", "backslashreplace")
    note = "" if text.endswith("\n") else " (no newline at end of file)"
    text = text.rstrip("\n").replace("\r", "\\r").strip()
    return f"`{text[:SHOWN]}{'…' if text[SHOWN:] else ''}`{note}"
