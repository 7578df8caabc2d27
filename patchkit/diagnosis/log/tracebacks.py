"""Lines of many processes, interleaved → failures. Each writer's traceback is put together on its own.

Tolerant by need: logs begin and end anywhere, loggers put their prefix before every line of a traceback, and the notes
of Python 3.11 print a second traceback behind the first.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from patchkit.diagnosis.log.failure import Failure, Frame, Raised, Weight
from patchkit.diagnosis.log.kinds import Kind, classify, classify_line
from patchkit.diagnosis.log.lines import LogLine
from patchkit.diagnosis.log.shapes import (
    CAUSE,
    CONTEXT,
    CRASH,
    FATAL,
    FRAME,
    GROUP,
    INNER,
    RAISED,
    SHALLOW,
    START,
    STOPPED,
    SURVIVED,
    THREAD,
    THROWN,
    TYPE,
)

MOST_FRAMES = 100  # of one traceback: a recursion has thousands, all the same
MOST_MESSAGE_LINES = 20
MOST_MESSAGE_CHARACTERS = 2000  # of one line
MOST_CHAIN = 12
MOST_WRITERS = 4096
LOUD = ("", "ERROR", "CRITICAL")  # levels of lines that may be failures in themselves; '' bypassed the logger


@dataclass
class _Open:
    """What one writer is in the middle of telling."""

    frames: list[Frame] = field(default_factory=list)
    chain: list[Raised] = field(default_factory=list)
    message: list[str] = field(default_factory=list)
    link: str = ""
    begun: LogLine | None = None  # the first line of the traceback
    announced: str = ""  # fatal, survived or ''
    native: str = ""  # what a crash dump or std::terminate says
    waits_for_code: bool = False
    crashed: str = ""  # a crash dump: `here` within the frames of the thread that crashed, `done` behind them
    raised: bool = False  # the last line was an exception or its message


class TracebackReader:
    """Puts failures together. Memory is bounded by the number of writers and the longest traceback that is kept."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._stamp = ""

    def read(self, lines: Iterable[LogLine]) -> Iterator[Failure]:
        """Yield failures in the order in which they end."""
        for line in lines:
            yield from self.feed(line)
        yield from self.finish()

    def finish(self) -> Iterator[Failure]:
        """Yield what was not told to its end."""
        while self._open:
            yield from self._close(self._open.popitem(last=False)[1])

    def feed(self, line: LogLine) -> Iterator[Failure]:
        """Take one line; yield the failures that it ends. A line without a time has that of the line before."""
        state = self._open.get(line.writer)
        self._stamp = line.stamp or self._stamp
        if state is None:
            if not _may_begin(line):
                return
            state = self._open[line.writer] = _Open()
            if len(self._open) > MOST_WRITERS:
                yield from self._close(self._open.popitem(last=False)[1])
        yield from self._advance(state, line if line.stamp else line._replace(stamp=self._stamp))

    def _advance(self, state: _Open, line: LogLine) -> Iterator[Failure]:
        text = GROUP.sub("", line.text) if line.text[:1] in "|+ " else line.text
        frame = FRAME.match(text) if 'File "' in text else None
        if frame:
            self._add_frame(state, line, frame)
        elif START.match(text):
            if state.raised and not state.link:
                yield from self._restart(state)
            _begin(state, line)
        elif CAUSE in text or CONTEXT in text:
            _end_message(state)
            state.link = "cause" if CAUSE in text else "context"
        elif not self._continues(state, line, text):
            yield from self._other(state, line, text)

    @staticmethod
    def _add_frame(state: _Open, line: LogLine, match: re.Match[str]) -> None:
        if state.raised and not state.link:
            _end_message(state)  # Ray prints the exception's type, then frames, then the exception
        _begin(state, line)
        if state.crashed == "done":
            return
        if len(state.frames) >= MOST_FRAMES:
            del state.frames[MOST_FRAMES // 2]
        state.frames.append(Frame(match.group(1), int(match.group(2)), match.group(3).strip()))
        state.waits_for_code, state.raised = True, False

    @staticmethod
    def _continues(state: _Open, line: LogLine, text: str) -> bool:
        """Take a line of the open traceback: source code, the exception, its message. Return whether it is one."""
        if state.begun is None and not state.native:
            return False
        if state.frames and (text[:1] in " \t" or not text):
            if state.waits_for_code and text.strip():
                last = state.frames[-1]
                state.frames[-1] = Frame(last.path, last.line, last.function, text.strip()[:300])
                state.waits_for_code = False
            return True
        if state.native:
            return _continue_crash(state, text)
        if state.frames and (raised := _match_raised(text)):
            _add_raised(state, raised)
            return True
        if state.raised and _is_message(state, line, text):
            state.message.append(text[:MOST_MESSAGE_CHARACTERS])
            return True
        return False

    def _other(self, state: _Open, line: LogLine, text: str) -> Iterator[Failure]:
        """Take a line that belongs to no open traceback: it ends one, announces one, or is a failure in itself."""
        if state.link and not text.strip():
            return
        if state.frames and not state.raised and line.level == "" and not state.native:
            return  # a stray line of another process between frames
        yield from self._restart(state)
        if FATAL.search(text) or SURVIVED.search(text):
            state.announced = "survived" if SURVIVED.search(text) else "fatal"
        if native := CRASH.match(text) or THROWN.match(text):
            state.native, state.begun = native.group(0), line
            return
        raised = RAISED.match(text)
        if raised and TYPE.search(raised.group(1)) and line.level in LOUD:
            _begin(state, line)
            _add_raised(state, raised)
        elif line.level in LOUD and (kind := classify_line(text)):
            yield _single(line, text, kind)
        if state.begun is None and not state.announced:
            self._open.pop(line.writer, None)

    def _restart(self, state: _Open) -> Iterator[Failure]:
        """Yield what is open and begin anew; what was announced holds for a note's second traceback too."""
        announced = state.announced if state.raised else ""
        yield from self._close(state)
        fresh = _Open(announced=announced)
        state.__dict__.update(fresh.__dict__)

    @staticmethod
    def _close(state: _Open) -> Iterator[Failure]:
        _end_message(state)
        line = state.begun
        if line is None:
            return
        if state.native:
            frames = tuple(reversed(state.frames))
            yield _failure((Raised("", state.native, frames),), line, Weight.CAUSE)
            return
        if state.frames:
            cut = Raised("", "the log ends before the exception is named", tuple(state.frames), state.link)
            yield _failure((*state.chain, cut), line, Weight.CUT)
        elif state.chain:
            yield _failure(tuple(state.chain), line, _weigh(state, line))


def _may_begin(line: LogLine) -> bool:
    """Return whether a line may begin a failure; most do not, and this must be quick."""
    if line.level in ("INFO", "DEBUG") and "Traceback" not in line.text and 'File "' not in line.text:
        return False
    return bool(line.text)


def _begin(state: _Open, line: LogLine) -> None:
    if state.begun is None:
        state.begun = line


def _add_raised(state: _Open, match: re.Match[str]) -> None:
    _end_message(state)
    kept = tuple(state.frames)
    if len(state.chain) >= MOST_CHAIN:
        del state.chain[MOST_CHAIN // 2]
    state.chain.append(Raised(match.group(1), (match.group(2) or "")[:MOST_MESSAGE_CHARACTERS], kept, state.link))
    state.frames, state.link, state.raised, state.waits_for_code = [], "", True, False


def _end_message(state: _Open) -> None:
    """Give the lines behind an exception's first one to it."""
    if state.message and state.chain:
        last = state.chain[-1]
        whole = "\n".join((last.message, *state.message)).strip()
        state.chain[-1] = Raised(last.type, whole, last.frames, last.link)
    state.message, state.raised = [], False


def _match_raised(text: str) -> re.Match[str] | None:
    """Return the match of an exception's line behind frames; a lone word there may be another process's output."""
    match = RAISED.match(text)
    if match is None or TYPE.search(match.group(1)):
        return match
    last = match.group(1).rpartition(".")[2]
    return match if match.group(2) and last[:1].isupper() and not last.isupper() else None


def _is_message(state: _Open, line: LogLine, text: str) -> bool:
    """Return whether a line goes on with an exception's message.

    It must be of the same log record: same place of the logger, or no logger at all and no failure of its own.
    """
    begun = state.begun
    if (
        begun is None
        or (line.place, line.level) != (begun.place, begun.level)
        or len(state.message) >= MOST_MESSAGE_LINES
    ):
        return False
    if line.place:
        return True
    typed = RAISED.match(text)
    return not (typed and TYPE.search(typed.group(1))) and not FATAL.search(text) and classify_line(text) is None


def _continue_crash(state: _Open, text: str) -> bool:
    """Take a line of a crash dump: whose frames follow, or what the exception said. Return whether it is one."""
    if THREAD.match(text):
        if text.startswith("Current"):
            state.crashed, state.frames = "here", []
        else:
            state.crashed = "done" if state.crashed else ""
        return True
    if text.lstrip().startswith("what():"):
        state.native += "\n" + text.strip()[:2000]
        return True
    return not text.strip() or text[:1] == " "


def _weigh(state: _Open, line: LogLine) -> Weight:
    if state.announced == "survived":
        return Weight.ERROR
    if state.announced == "fatal" or line.level == "CRITICAL":
        return Weight.CAUSE
    if line.level in ("WARNING", "INFO", "DEBUG"):
        return Weight.HANDLED
    return Weight.ERROR if line.level else Weight.CAUSE  # not through the logger: nobody caught it


def _single(line: LogLine, text: str, kind: Kind) -> Failure:
    raised = Raised("", text.strip()[:1000])
    return Failure(
        (raised,), raised, kind.weight, kind.name, line.process, line.rank, line.host, line.stamp, line.number
    )


def _failure(chain: tuple[Raised, ...], line: LogLine, weight: Weight) -> Failure:
    """Return a failure with its root and kind; what is only a wrapper, or seen from afar, weighs less."""
    root = _find_root(chain)
    kind = classify(str(root)) or classify("\n".join(str(one) for one in chain if not _wraps(one)))
    if STOPPED.search(root.type):
        weight = Weight.HANDLED
    elif _wraps(root):
        weight, inner, death = Weight.WRAPPER, INNER.search(root.message), classify_line(root.message)
        if death and death.weight is Weight.DEATH:  # the exit codes of processes that ended without a word
            weight, kind = Weight.DEATH, death
        if inner:
            root = Raised("", inner.group(1), ())
            chain = (*chain, root)
            kind = classify(str(root))
    elif kind and kind.weight in (Weight.SECONDARY, Weight.DEATH) and weight < kind.weight:
        weight = kind.weight
    name = kind.name if kind and kind.name != "wrapper" else ""
    return Failure(chain, root, weight, name, line.process, line.rank, line.host, line.stamp, line.number, line.repeats)


def _wraps(raised: Raised) -> bool:
    kind = classify(str(raised))
    return kind is not None and kind.name == "wrapper"


def _find_root(chain: tuple[Raised, ...]) -> Raised:
    """Return the exception that tells the cause: the first that is neither a wrapper nor a failed look-up."""
    telling = [one for one in chain if not _wraps(one)]
    deep = [one for one in telling if not SHALLOW.match(one.type)]
    return next(iter(deep or telling or chain))
