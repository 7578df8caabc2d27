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

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from patchkit.stack.ladder.attempt import HunkResult, HunkState
from patchkit.stack.patch.model import Hunk

MANY = 5  # places named in a message
COMMON_LINE = 200  # lines that stand more often say nothing about where a hunk nearly fits
SHOWN = 60  # characters of a line shown in a message


@dataclass(frozen=True)
class Placed:
    """The new lines of a file, and where each hunk landed; `lines` means nothing when a hunk failed."""

    lines: list[bytes]
    hunks: tuple[HunkResult, ...]


def place_hunks(lines: list[bytes], hunks: Sequence[Hunk]) -> Placed:
    """Apply hunks to the lines of a file; hunks that are there already are left as they are."""
    placer = _Placer(lines)
    results = tuple(placer.place(number, hunk) for number, hunk in enumerate(hunks, 1))
    made: list[bytes] = []
    copied = 0
    for result, hunk in zip(results, hunks, strict=True):
        if result.state is HunkState.APPLIED:
            made += lines[copied : result.line - 1]
            made += hunk.new
            copied = result.line - 1 + len(hunk.old)
    return Placed(made + lines[copied:], results)


@dataclass
class _Side:
    """One side of a hunk (what it expects, or what it makes), to be found in the file."""

    text: list[bytes]
    start: int  # where the patch says that it is, counted from 0
    at_begin: bool
    at_end: bool


@dataclass
class _Placer:
    lines: list[bytes]
    end: int = 0  # of the last hunk that was placed, in the lines of the file
    drift: dict[HunkState, int] = field(
        default_factory=lambda: {HunkState.APPLIED: 0, HunkState.UPSTREAM: 0}
    )  # of that hunk from its stated line, seen from either side
    index: dict[bytes, list[int]] = field(default_factory=dict)

    def place(self, number: int, hunk: Hunk) -> HunkResult:
        """Find a hunk's place: where it applies, or where what it makes stands already."""
        before = _side(hunk, hunk.old, hunk.old_start)
        result = self._find(number, before, HunkState.APPLIED)
        if result is None or result.offset:
            after = self._find(number, _side(hunk, hunk.new, hunk.new_start), HunkState.UPSTREAM)
            result = _choose(result, after)
        if result is None:
            return HunkResult(number, HunkState.FAILED, hunk.old_start, 0, self._explain(hunk, before))
        if result.state is not HunkState.FAILED:
            length = len(hunk.old if result.state is HunkState.APPLIED else hunk.new)
            self._note(hunk, result.line - 1 + length)
        return result

    def _find(self, number: int, side: _Side, state: HunkState) -> HunkResult | None:
        """Return where a side stands; None when nowhere, failed when that cannot be told."""
        if not (self.drift[state] == 0 and self._stands(side, side.start)):
            places = self._places(side)
            if not places:
                return None
            if len(places) > 1 and not (self.drift[state] == 0 and side.start in places):
                named = ", ".join(str(place + 1) for place in places[:MANY]) + (", …" if places[MANY:] else "")
                return HunkResult(number, HunkState.FAILED, side.start + 1, 0, f"ambiguous: matches at lines {named}")
            place = places[0] if len(places) == 1 else side.start
        else:
            place = side.start
        if place < self.end:
            message = f"matches at line {place + 1}, before the end of the hunk that precedes it"
            return HunkResult(number, HunkState.FAILED, place + 1, 0, message)
        return HunkResult(number, state, place + 1, place - side.start)

    def _note(self, hunk: Hunk, end: int) -> None:
        self.end = end
        self.drift = {
            HunkState.APPLIED: end - (max(hunk.old_start - 1, 0) + len(hunk.old)),
            HunkState.UPSTREAM: end - (max(hunk.new_start - 1, 0) + len(hunk.new)),
        }

    def _stands(self, side: _Side, place: int) -> bool:
        end = place + len(side.text)
        if place < 0 or end > len(self.lines) or (side.at_begin and place) or (side.at_end and end != len(self.lines)):
            return False
        return self.lines[place:end] == side.text

    def _places(self, side: _Side) -> list[int]:
        """Return every place at which a side stands, found through its rarest line."""
        if not side.text:
            return [0] if self._stands(side, 0) else []
        self._build_index()
        rarest = min(range(len(side.text)), key=lambda number: len(self.index.get(side.text[number], ())))
        starts = (position - rarest for position in self.index.get(side.text[rarest], ()))
        return [start for start in starts if self._stands(side, start)]

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
        plain = _Placer([line.replace(b"\r\n", b"\n") for line in self.lines])
        text = [line.replace(b"\r\n", b"\n") for line in side.text]
        if not plain._places(_Side(text, side.start, side.at_begin, side.at_end)):
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
