"""Reading is quick because lines are taken together and steps remembered: neither may change what is found."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchkit.diagnosis.log.kinds import KINDS
from patchkit.diagnosis.log.lines import ANSI, read_lines
from patchkit.diagnosis.log.prefixes import LogLine, read_line
from patchkit.diagnosis.log.tracebacks import KnownSteps, TracebackReader
from tests.diagnosis.test_triage import PIECES

LOGS = sorted((Path(__file__).parent / "logs").glob("*.log"))
NAMES = [path.stem for path in LOGS]
PREFIXES = ("", "vllm-1  | ", "[pod/vllm-0/server] ", "2026-11-29T09:00:01.123456789Z ", " 3: ", "[rank3]: ")


def apart(records: list[LogLine]) -> list[LogLine]:
    """Return the lines of records, each for itself, those of a record behind each other."""
    return [
        record._replace(number=number, text=text, numbers=())
        for record in records
        for number, text in zip(record.numbers or (record.number,), record.text.split("\n"), strict=True)
    ]


def mixed(data: bytes, seed: int) -> bytes:
    """Return a log with the lines of its errors moved among each other, those of each writer in their order."""
    chance, queues, result = random.Random(seed), dict[str, list[str]](), list[str]()
    for line in [*data.decode().split("\n"), ""]:
        if " ERROR " in line:
            queues.setdefault(read_line(line).writer, []).append(line)
            continue
        while waiting := [queue for queue in queues.values() if queue]:
            result.append(chance.choice(waiting).pop(0))
        result.append(line)
    return "\n".join(result).encode()


@pytest.mark.parametrize("path", LOGS, ids=NAMES)
def test_lines_that_are_taken_together_are_read_as_each_for_itself(path: Path) -> None:
    for prefix in PREFIXES:
        text = "".join(f"{prefix}{line}\n" for line in path.read_text("utf-8").split("\n") if "\r" not in line)
        plain = ANSI.sub("", text).translate({0x201C: '"', 0x201D: '"'})
        wanted = [read_line(line, number) for number, line in enumerate(plain.split("\n"), 1) if line]
        assert sorted(apart(list(read_lines([text.encode()]))), key=lambda line: line.number) == wanted


@pytest.mark.parametrize("path", LOGS, ids=NAMES)
def test_steps_that_are_remembered_find_the_same_failures(path: Path) -> None:
    for data in (path.read_bytes(), path.read_bytes() * 3, mixed(path.read_bytes() * 2, 7)):
        records = list(read_lines([data]))
        quick = list(TracebackReader().read(records))
        slow = list(TracebackReader(KnownSteps(0)).read(apart(records)))
        assert quick == slow


@given(st.lists(st.one_of(PIECES, st.binary(max_size=40)), max_size=60))
@settings(max_examples=150, deadline=None)
def test_steps_that_are_remembered_find_the_same_in_anything(pieces: list[bytes]) -> None:
    records = list(read_lines([b"".join(pieces) * 2]))
    quick, slow = TracebackReader(), TracebackReader(KnownSteps(0))
    assert list(quick.read(records)) == list(slow.read(records))


def test_what_several_writers_tell_at_once_is_put_together_for_each() -> None:
    head = "(Worker_TP{} pid=3) ERROR 11-29 12:00:00 [x.py:1] "
    text = "".join(f"{head.format(number % 2)}line {number}\n" for number in range(6))
    records = list(read_lines([text.encode()]))
    assert [(one.rank, one.text, one.numbers) for one in records] == [
        ("TP0", "line 0\nline 2\nline 4", (1, 3, 5)),
        ("TP1", "line 1\nline 3\nline 5", (2, 4, 6)),
    ]


def test_a_writer_that_goes_back_to_an_earlier_place_keeps_its_order() -> None:
    one, two = (f"(Worker_TP0 pid=3) ERROR 11-29 12:00:00 [{place}.py:1] " for place in "xy")
    text = f"{one}a\n{one}b\n{two}c\n{two}d\n{one}e\n"
    assert [record.text for record in read_lines([text.encode()])] == ["a\nb", "c\nd", "e"]


def branches(tree: list[Any]) -> Iterator[list[Any]]:
    """Yield each way through the first alternatives of a pattern, over and over until none is left."""
    for place, (code, argument) in enumerate(tree):
        inner = list(argument[3]) if code is codes.SUBPATTERN else [(code, argument)]
        if len(inner) == 1 and inner[0][0] is codes.BRANCH:
            for branch in inner[0][1][1]:
                yield from branches([*tree[:place], *branch, *tree[place + 1 :]])
            return
    yield tree


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_each_way_through_a_pattern_has_one_of_the_words_that_are_looked_for_first(kind: Any) -> None:
    for branch in branches(list(parser.parse(kind.pattern))):
        letters = "".join(chr(argument) if code is codes.LITERAL else "\n" for code, argument in branch)
        literal = re.sub(r"\n+", "\n", letters).lower()
        assert any(word in literal for word in kind.words), literal
