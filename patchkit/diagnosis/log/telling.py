"""What one writer tells, line by line → the stories that it tells to their ends.

Tolerant by need: logs begin and end anywhere, loggers put their prefix before every line of a traceback, and the notes
of Python 3.11 print a second traceback behind the first.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from patchkit.diagnosis.log.classify import classify, classify_line
from patchkit.diagnosis.log.failure import Frame, Raised, Story, Weight
from patchkit.diagnosis.log.kinds import Kind
from patchkit.diagnosis.log.prefixes import LogLine
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
LOUD = ("", "ERROR", "CRITICAL")  # levels of lines that may be failures in themselves; '' bypassed the logger


@dataclass(slots=True)
class Telling:
    """What one writer is in the middle of telling. `ended`: the stories told to their ends, with their first lines.

    What it becomes with a line depends on what it is and on the line's text, level and place alone.
    """

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
    began_anew: str | None = None  # the line ended all before it; what was announced and holds on
    over: bool = False  # nothing is open, and nothing announced
    ended: list[tuple[Story, LogLine]] = field(default_factory=list)

    def copy(self) -> Telling:
        """Return what is told so far, without what is at its end."""
        return Telling(
            [*self.frames], [*self.chain], [*self.message], self.link, self.begun, self.announced, self.native,
            self.waits_for_code, self.crashed, self.raised,
        )  # fmt: skip

    def advance(self, line: LogLine) -> None:
        """Take one line."""
        text = GROUP.sub("", line.text) if line.text[:1] in "|+ " else line.text
        frame = FRAME.match(text) if 'File "' in text else None
        if frame:
            self._add_frame(line, frame)
        elif START.match(text):
            if self.raised and not self.link:
                self._restart()
            _begin(self, line)
        elif CAUSE in text or CONTEXT in text:
            _end_message(self)
            self.link = "cause" if CAUSE in text else "context"
        elif not self._continues(line, text):
            self._other(line, text)

    def _add_frame(self, line: LogLine, match: re.Match[str]) -> None:
        if self.raised and not self.link:
            _end_message(self)  # Ray prints the exception's type, then frames, then the exception
        _begin(self, line)
        if self.crashed == "done":
            return
        if len(self.frames) >= MOST_FRAMES:
            del self.frames[MOST_FRAMES // 2]
        self.frames.append(Frame(match.group(1), int(match.group(2)), match.group(3).strip()))
        self.waits_for_code, self.raised = True, False

    def _continues(self, line: LogLine, text: str) -> bool:
        """Take a line of the open traceback: source code, the exception, its message. Return whether it is one."""
        if self.begun is None and not self.native:
            return False
        unindented = self.waits_for_code and bool(line.place) and not TYPE.search(text.partition(":")[0])
        if self.frames and (text[:1] in " \t" or not text or unindented):
            if self.waits_for_code and text.strip():
                last = self.frames[-1]
                self.frames[-1] = Frame(last.path, last.line, last.function, text.strip()[:300])
                self.waits_for_code = False
            return True
        if self.native:
            return _continue_crash(self, text)
        if self.frames and (raised := _match_raised(text)):
            _add_raised(self, raised)
            return True
        if self.raised and _is_message(self, line, text):
            self.message.append(text[:MOST_MESSAGE_CHARACTERS])
            return True
        return False

    def _other(self, line: LogLine, text: str) -> None:
        """Take a line that belongs to no open traceback: it ends one, announces one, or is a failure in itself."""
        if self.link and not text.strip():
            return
        if self.frames and not self.raised and line.level == "" and not self.native:
            return  # a stray line of another process between frames
        self._restart()
        if FATAL.search(text) or SURVIVED.search(text):
            self.announced = "survived" if SURVIVED.search(text) else "fatal"
        if native := CRASH.match(text) or THROWN.match(text):
            self.native, self.begun = native.group(0), line
            return
        raised = RAISED.match(text)
        if raised and TYPE.search(raised.group(1)) and line.level in LOUD:
            _begin(self, line)
            _add_raised(self, raised)
        elif line.level in LOUD and (kind := classify_line(text)):
            self.ended.append((_single(text, kind), line))
        self.over = self.begun is None and not self.announced

    def _restart(self) -> None:
        """End what is open and begin anew; what was announced holds for a note's second traceback too."""
        announced = self.announced if self.raised else ""
        self.finish()
        self.frames, self.chain, self.message = [], [], []
        self.link = self.native = self.crashed = ""
        self.begun, self.waits_for_code, self.raised = None, False, False
        self.announced = self.began_anew = announced

    def finish(self) -> None:
        """End what is open."""
        _end_message(self)
        line = self.begun
        if line is None:
            return
        if self.native:
            frames = tuple(reversed(self.frames))
            self.ended.append((_tell((Raised("", self.native, frames),), Weight.CAUSE), line))
        elif self.frames:
            cut = Raised("", "the log ends before the exception is named", tuple(self.frames), self.link)
            self.ended.append((_tell((*self.chain, cut), Weight.CUT), line))
        elif self.chain:
            self.ended.append((_tell(tuple(self.chain), _weigh(self, line)), line))


def _begin(state: Telling, line: LogLine) -> None:
    if state.begun is None:
        state.begun = line


def _add_raised(state: Telling, match: re.Match[str]) -> None:
    _end_message(state)
    kept = tuple(state.frames)
    if len(state.chain) >= MOST_CHAIN:
        del state.chain[MOST_CHAIN // 2]
    state.chain.append(Raised(match.group(1), (match.group(2) or "")[:MOST_MESSAGE_CHARACTERS], kept, state.link))
    state.frames, state.link, state.raised, state.waits_for_code = [], "", True, False


def _end_message(state: Telling) -> None:
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


def _is_message(state: Telling, line: LogLine, text: str) -> bool:
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


def _continue_crash(state: Telling, text: str) -> bool:
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


def _weigh(state: Telling, line: LogLine) -> Weight:
    if state.announced == "survived":
        return Weight.ERROR
    if state.announced == "fatal" or line.level == "CRITICAL":
        return Weight.CAUSE
    if line.level in ("WARNING", "INFO", "DEBUG"):
        return Weight.HANDLED
    return Weight.ERROR if line.level else Weight.CAUSE  # not through the logger: nobody caught it


def _single(text: str, kind: Kind) -> Story:
    raised = Raised("", text.strip()[:1000])
    return Story((raised,), raised, kind.weight, kind.name)


def _tell(chain: tuple[Raised, ...], weight: Weight) -> Story:
    """Return a story with its root and kind; what is only a wrapper, or seen from afar, weighs less."""
    root = _find_root(chain)
    kind = classify(str(root)) or classify("\n".join(str(one) for one in chain if not _wraps(one)))
    if STOPPED.search(root.type):
        weight = Weight.HANDLED
    elif _wraps(root):
        weight, inner, death = Weight.WRAPPER, INNER.search(root.message), classify_line(root.message)
        if death and death.weight is Weight.DEATH:  # the exit codes of processes that ended without a word
            weight, kind = Weight.DEATH, death
        if inner and inner.group(1):  # an assertion without words leaves nothing between the quotes
            root = Raised("", inner.group(1), ())
            chain = (*chain, root)
            kind = classify(str(root))
    elif kind and kind.weight in (Weight.SECONDARY, Weight.DEATH) and weight < kind.weight:
        weight = kind.weight
    return Story(chain, root, weight, kind.name if kind and kind.name != "wrapper" else "")


def _wraps(raised: Raised) -> bool:
    kind = classify(str(raised))
    return kind is not None and kind.name == "wrapper"


def _find_root(chain: tuple[Raised, ...]) -> Raised:
    """Return the exception that tells the cause: the first that is neither a wrapper nor a failed look-up."""
    telling = [one for one in chain if not _wraps(one)]
    deep = [one for one in telling if not SHALLOW.match(one.type)]
    return next(iter(deep or telling or chain))
