"""Bytes of a log → its records: the lines that one writer wrote at once, or single lines where that cannot be told.

Most of a long log are requests that were served, or the same traceback from every rank. Blocks without any telling word
are skipped; a prefix is read once, and the lines that begin with the same characters are taken with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from patchkit.diagnosis.log.prefixes import MOST_LINE_CHARACTERS, LogLine, read_line, read_record

HEAD_BYTES = 8_000_000  # read in any case: start-up is told here in many small words
# Words without which a block of vLLM's log tells neither a failure nor progress; each word costs one pass over the log.
TELLING = (
    b"rror",
    b"RROR",
    b"Traceback (most",
    b"illed",  # Killed, killed, OOMKilled
    b"terminate called",
    b"Initializing a V",
    b"checkpoint shards",
    b"Model loading took",
    b"Capturing CUDA graphs",
    b"startup complete",
)
QUIET = ("DEBUG", "INFO")  # their records are lines: what a start says is looked at line by line
MOST_PREFIX_CHARACTERS = 400
MOST_HEADS = 4096
PLAIN = "\n"  # stands for the prefix of a record that bypassed the logger; no prefix has it

ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
# Parts of seconds before vLLM's own prefix make every prefix another one, and nothing is told by them.
FRACTION = re.compile(
    r"^((?:\[pod/\S{1,200}\] |\S{1,100} +\| )?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)[.,]\d+(?=Z|[+-]\d\d:?\d\d| )",
    re.MULTILINE,
)
INDENTED = re.compile(r"[ \t]{2,}[^\s\d]")  # a frame or its code: no prefix begins so


def read_lines(blocks: Iterable[bytes]) -> Iterator[LogLine]:
    """Yield the records of a log that may tell something, from its bytes in blocks of any size.

    A block after a telling one is read as well, so that what belongs to a traceback is not lost. Memory: two blocks.
    """
    number, seen, rest, after_telling = 1, 0, b"", True
    records = _Records()
    for block in blocks:
        end = block.rfind(b"\n") + 1
        seen += len(block)
        if not end:
            rest = (rest + block)[: MOST_LINE_CHARACTERS * 4]  # at most four bytes a character
            continue
        whole, rest = rest + block[:end], block[end : end + MOST_LINE_CHARACTERS * 4]
        telling = seen < HEAD_BYTES or any(word in whole for word in TELLING)
        if telling or after_telling:
            yield from records.read(whole, number)
        number, after_telling = number + whole.count(b"\n"), telling
    yield from records.read(rest, number)


@dataclass(slots=True)
class _Record:
    """Lines with the same prefix: what it says of their writer, their texts and numbers."""

    about: LogLine
    texts: list[str]
    numbers: list[int]

    def join(self) -> LogLine:
        numbers = tuple(self.numbers)
        return self.about._replace(number=numbers[0], text="\n".join(self.texts), numbers=numbers)


class _Records:
    """Puts the lines of a block together to records; knows the prefixes that it has seen. Memory: those, and a block.

    Lines of several writers may be interleaved: each goes to the record that its writer is in the middle of. All
    records end where a line comes that is none of an error.
    """

    def __init__(self) -> None:
        self._heads: dict[str, LogLine] = {}
        self._open: dict[str, _Record] = {}  # by prefix
        self._current: dict[str, _Record] = {}  # by writer

    def read(self, data: bytes, number: int) -> Iterator[LogLine]:
        """Yield the records of whole lines of bytes; a progress bar's carriage returns end lines that do not count."""
        text = _clean(data.decode("utf-8", errors="replace"))
        lines = text.split("\n")
        odd = "\r" in text or "x across cluster]" in text or max(map(len, lines)) > MOST_LINE_CHARACTERS
        head, record = "", None
        for place, line in enumerate(lines, number):
            if odd and _is_odd(line):
                yield from self._end()
                yield from _read_odd(line, place)
                record = None
                continue
            if record is None or not line.startswith(head):
                head = _find_head(line)
                record = self._open.get(head)
                if record is None or self._current[record.about.writer] is not record:
                    record = None
                    if line:
                        yield from self._begin(head, line, place)
                    continue
            record.texts.append(line[len(head) :])
            record.numbers.append(place)
        yield from self._end()

    def _begin(self, head: str, line: str, place: int) -> Iterator[LogLine]:
        """Take a line that is not of the record that its prefix has open."""
        known = self._heads.get(head)
        plain = None if known else self._open.get(PLAIN)
        if plain and self._current[plain.about.writer] is plain and (text := _indented(plain.about.text, line)):
            plain.texts.append(text)
            plain.numbers.append(place)
            return
        if known is None and line[0] == "{":
            yield from self._end()
            yield from _read_odd(line, place)
            return
        read = known or read_line(line, place)
        prefix = head if known else line[: len(line) - len(read.text)] if line.endswith(read.text) else ""
        if known is None and read.place and prefix == head:
            if len(self._heads) >= MOST_HEADS:
                self._heads.clear()
            self._heads[head] = known = read
        key, text = (head, line[len(head) :]) if known else (PLAIN, read.text)
        if key in self._open or read.level in QUIET:
            yield from self._end()
        if read.level in QUIET:
            yield read._replace(number=place, text=text)
        else:
            self._open[key] = self._current[read.writer] = _Record(read._replace(text=prefix), [text], [place])

    def _end(self) -> Iterator[LogLine]:
        """Yield the records that are open, and begin anew."""
        for record in self._open.values():
            yield record.join()
        self._open.clear()
        self._current.clear()


def _find_head(line: str) -> str:
    """Return what may be a line's prefix: up to the place in the code that vLLM's logger names."""
    opens = line.find(" [", 0, MOST_PREFIX_CHARACTERS // 2)
    end = line.find("] ", opens, MOST_PREFIX_CHARACTERS) if opens >= 0 else -1
    return line[: end + 2] if end >= 0 else ""


def _indented(prefix: str, line: str) -> str:
    """Return the rest of a line behind a prefix if it is a frame or its code, else ''."""
    return line[len(prefix) :] if line.startswith(prefix) and INDENTED.match(line, len(prefix)) else ""


def _clean(text: str) -> str:
    """Return the text without colours, the line ends of Windows and parts of seconds."""
    if "\x1b" in text:
        text = ANSI.sub("", text)
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
    if "\u201c" in text:  # a page or a chat made the quotes of a frame pretty
        text = text.replace("\u201c", '"').replace("\u201d", '"')
    return FRACTION.sub(r"\1", text) if FRACTION.match(text) else text


def _is_odd(line: str) -> bool:
    return "\r" in line or "x across cluster]" in line or len(line) > MOST_LINE_CHARACTERS


def _read_odd(line: str, number: int) -> Iterator[LogLine]:
    """Yield the lines of a progress bar, of a JSON record, or the beginning of an endless line."""
    for part in line[: MOST_LINE_CHARACTERS * 4].split("\r"):
        if part.startswith("{") and '"message"' in part:
            yield from read_record(part, number)
        elif part:
            yield read_line(part[:MOST_LINE_CHARACTERS], number)
