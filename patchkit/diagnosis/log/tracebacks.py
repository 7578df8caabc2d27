"""Records of many processes, interleaved → failures. Each writer's traceback is put together on its own.

Logs repeat themselves: every rank and every request that fails tells the same. So what a record makes of what its
writer was telling is worked out once, and looked up from then on.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from patchkit.diagnosis.log.failure import Failure, Story
from patchkit.diagnosis.log.prefixes import LogLine
from patchkit.diagnosis.log.telling import Telling

MOST_WRITERS = 4096
MOST_KNOWN_BYTES = 16_000_000  # of steps, by a rough estimate; then they are forgotten
STEP_BYTES = 2000
BEFORE = -1  # the offset of a line that stands before the record
BLANK = LogLine(BEFORE, "", "", "", "", "", "", "", "", 0)


class _Point:
    """How far a writer's telling has come, and the steps from there that are known. The telling is not changed."""

    __slots__ = ("is_root", "steps", "telling")

    def __init__(self, telling: Telling, *, is_root: bool = False) -> None:
        self.telling = telling
        self.is_root = is_root
        self.steps: dict[tuple[str, str, str], _Step] = {}


class _Step(NamedTuple):
    """What a record makes of a telling. Lines are given by their offset in the record, or `BEFORE` it.

    `ended`: stories with the line that each began at; `point` is None when nothing is open; `begun`: where that began.
    """

    ended: tuple[tuple[Story, int], ...]
    point: _Point | None
    begun: int


class TracebackReader:
    """Puts failures together. Memory is bounded by the number of writers; readers may share what is `known`."""

    def __init__(self, known: KnownSteps | None = None) -> None:
        self._open: OrderedDict[str, tuple[_Point, LogLine]] = OrderedDict()
        self._stamp = ""
        self._known = known or KnownSteps()

    def read(self, lines: Iterable[LogLine]) -> Iterator[Failure]:
        """Yield failures in the order in which they end."""
        for line in lines:
            yield from self.feed(line)
        yield from self.finish()

    def finish(self) -> Iterator[Failure]:
        """Yield what was not told to its end."""
        while self._open:
            yield from self._close()

    def feed(self, line: LogLine) -> Sequence[Failure]:
        """Take a line or record; return the failures that it ends. One without a time has that of the one before."""
        if line.stamp:
            self._stamp = line.stamp
        current = self._open.get(line.writer)
        if current is None:
            if not _may_begin(line.level, line.text):
                return ()
            point, begun = self._known.clean(), line
        else:
            point, begun = current
        step = self._known.step(point, line)
        failures = [self._failure(story, line, begun, offset) for story, offset in step.ended] if step.ended else []
        if step.point is None:
            if current is not None:
                del self._open[line.writer]
            return failures
        if step.begun >= 0:
            begun = self._origin(line, step.begun)
        self._open[line.writer] = (step.point, begun)
        if len(self._open) > MOST_WRITERS:
            failures += self._close()
        return failures

    def _close(self) -> list[Failure]:
        """Return what the writer tells that began first."""
        point, begun = self._open.popitem(last=False)[1]
        telling = point.telling.copy()
        telling.finish()
        return [self._failure(story, begun, begun, BEFORE) for story, _ in telling.ended]

    def _failure(self, story: Story, line: LogLine, begun: LogLine, offset: int) -> Failure:
        first = begun if offset < 0 else self._origin(line, offset)
        return Failure(story, first.process, first.rank, first.host, first.stamp, first.number, first.repeats)

    def _origin(self, line: LogLine, offset: int) -> LogLine:
        """Return a line of a record, without its text, with a time."""
        return line._replace(
            number=line.numbers[offset] if line.numbers else line.number,
            stamp=line.stamp or self._stamp,
            text="",
            numbers=(),
        )


class KnownSteps:
    """The steps that were worked out: a tree of points, whose root is a writer that tells nothing.

    With `most_bytes` 0 each line is worked out anew: slower, with the same results.
    """

    def __init__(self, most_bytes: int = MOST_KNOWN_BYTES) -> None:
        self._most = most_bytes
        self._size = 0
        self._roots: dict[str, _Point] = {}

    def clean(self) -> _Point:
        """Return the point at which a writer is that tells nothing."""
        return self._root("")

    def _root(self, announced: str) -> _Point:
        if announced not in self._roots:
            # `raised` lets the next line begin anew and keep what was announced, as it does behind an exception.
            self._roots[announced] = _Point(Telling(announced=announced, raised=True), is_root=True)
        return self._roots[announced]

    def step(self, point: _Point, line: LogLine) -> _Step:
        """Return what a record makes of what was told up to a point."""
        key = (line.level, line.place, line.text)
        return point.steps.get(key) or self._learn(point, key)

    def _learn(self, point: _Point, key: tuple[str, str, str]) -> _Step:
        step = self._through(point, key) if "\n" in key[2] else self._work_out(point, key)
        self._size += STEP_BYTES + len(key[2])
        if self._size > self._most:
            self._roots, self._size = {}, 0
        else:
            point.steps[key] = step
        return step

    def _through(self, point: _Point, key: tuple[str, str, str]) -> _Step:
        """Return the step of a record, line by line."""
        level, place, text = key
        ended: list[tuple[Story, int]] = []
        at: _Point | None = point
        begun = BEFORE
        for offset, line in enumerate(text.split("\n")):
            if at is None:
                if not _may_begin(level, line):
                    continue
                at = self.clean()
            one = (level, place, line)
            step = at.steps.get(one) or self._learn(at, one)
            if step.ended:
                ended += [(story, offset if where >= 0 else begun) for story, where in step.ended]
            if step.begun >= 0:
                begun = offset
            at = step.point
        return _Step(tuple(ended), at, begun)

    def _work_out(self, point: _Point, key: tuple[str, str, str]) -> _Step:
        level, place, text = key
        telling = point.telling.copy()
        telling.advance(BLANK._replace(number=0, level=level, place=place, text=text))
        ended = tuple((story, line.number) for story, line in telling.ended)
        begun = telling.begun.number if telling.begun else BEFORE
        if telling.over:
            return _Step(ended, None, BEFORE)
        if telling.began_anew is not None and not point.is_root:  # from here on all goes as behind a root
            root = self._root(telling.began_anew)
            return _Step(ended, (root.steps.get(key) or self._learn(root, key)).point, begun)
        if telling.begun:
            telling.begun = BLANK._replace(level=telling.begun.level, place=telling.begun.place)
        telling.ended = []
        return _Step(ended, _Point(telling), begun)


def _may_begin(level: str, text: str) -> bool:
    """Return whether a line may begin a failure; most do not, and this must be quick."""
    if level in ("INFO", "DEBUG") and "Traceback" not in text and 'File "' not in text:
        return False
    return bool(text)
