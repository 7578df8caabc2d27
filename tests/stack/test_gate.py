"""The gate: Python that parsed before a patch parses after it."""

from __future__ import annotations

import pytest

from patchkit.stack.gate import check_gate, find_fault
from tests.stack.bench import Desk
from tests.support.repositories import Files

GOOD, BAD = "x = 1\n", "x = (\n"


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ({"x.py": GOOD}, {"x.py": "x = 2\n"}, ""),
        ({"x.py": GOOD}, {"x.py": BAD}, "x.py: no longer parses (line 1: '(' was never closed)"),
        ({}, {"x.py": BAD}, "x.py: is new and does not parse (line 1: '(' was never closed)"),
        ({"x.py": BAD}, {"x.py": "y = (\n"}, ""),
        ({"x.txt": GOOD}, {"x.txt": BAD}, ""),
        ({"x.py": GOOD}, {}, ""),
        ({"x.py": "a = 1\n" + BAD}, {"y.py": "b = 2\na = 1\n" + BAD}, ""),  # renamed
        (
            {"x.py": "a = 1\n" + BAD},
            {"y.py": "b = (\n"},
            "y.py: is new and does not parse (line 1: '(' was never closed)",
        ),
        ({"x.py": GOOD}, {"y.py": GOOD + BAD}, "y.py: is new and does not parse (line 2: '(' was never closed)"),
    ],
)
def test_only_what_a_patch_has_broken_is_told(desk: Desk, before: Files, after: Files, complaint: str) -> None:
    deltas = desk.objects.diff(desk.tree(before), desk.tree(after))
    assert check_gate(desk.objects, deltas) == complaint


def test_upstream_code_with_invalid_escapes_parses_without_a_warning() -> None:
    assert find_fault(b'x = "\\d"\n') == ""


@pytest.mark.parametrize("source", [b"\0", b"# coding: no-such\nx = 1\n", b"\xff\xfe", b"(" * 5000])
def test_bytes_that_are_no_source_are_a_fault_and_no_crash(source: bytes) -> None:
    assert find_fault(source)


LARGE = """\
import os

TEXT = '''
def no_function(:
'''


class A:
    @property
    def f(self):
        return (
            1
        )

    def g(self):
        return 2


def h():
    return {"x": [3]}
"""


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("return 2", "return (2", "'(' was never closed"),
        ("            1\n        )\n", "            1\n", "'(' was never closed"),
        ("    def g(self):\n", "", ""),
        ("    def g(self):\n        return 2\n", "", ""),
        ("        return 2\n", "", "expected an indented block after function definition"),
        ("    @property\n", "    @property(\n", "'(' was never closed"),
        ("def no_function(:\n'''", "def no_function(:\n", "unterminated triple-quoted string"),
        ("def no_function(:", "def other(:", ""),
        ("import os\n", "import (os\n", "invalid syntax"),
        ('{"x": [3]}\n', '{"x": [3]\n', "'{' was never closed"),
        ('{"x": [3]}\n', '{"x": [3]}\n\n\nx = 1\n', ""),
    ],
)
def test_what_breaks_one_definition_of_a_large_file_is_told_as_by_the_whole_file(
    desk: Desk, old: str, new: str, complaint: str
) -> None:
    assert LARGE.count(old) == 1
    after = LARGE.replace(old, new)
    told = check_gate(desk.objects, desk.objects.diff(desk.tree({"x.py": LARGE}), desk.tree({"x.py": after})))
    assert bool(told) == bool(find_fault(after.encode())) == bool(complaint)
    assert complaint in told
