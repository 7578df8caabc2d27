"""Which definition a line stands in, and what the gate says of a change that went elsewhere."""

from __future__ import annotations

import pytest

from patchkit.stack.scope import MODULE, check_scope, enclosing, find_spans
from tests.stack.bench import lines

SOURCE = lines(
    "import x", "class A:", "    @wrap", "    def f(self):", "        one = 1", "def f():", "    two = 2"
).encode()


@pytest.mark.parametrize(
    ("line", "name"), [(0, MODULE), (1, "A"), (2, "A.f"), (4, "A.f"), (5, "f"), (6, "f"), (99, MODULE)]
)
def test_a_line_belongs_to_the_innermost_definition(line: int, name: str) -> None:
    spans = find_spans(SOURCE)
    assert spans is not None
    assert enclosing(spans, line) == name


def test_definitions_inside_statements_are_found_and_broken_source_has_none() -> None:
    spans = find_spans(b"if x:\n    def f():\n        pass\ntry:\n    pass\nexcept E:\n    class B:\n        pass\n")
    assert spans is not None
    assert [span.name for span in spans] == ["f", "B"]
    assert find_spans(b"x = (\n") is None


IMAGE = (SOURCE, SOURCE.replace(b"one = 1", b"one = 7"))


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        (b"# more\n" + SOURCE, b"# more\n" + IMAGE[1], ""),
        (SOURCE, SOURCE.replace(b"    two = 2", b"        one = 7"), "adds or removes other lines than the patch does"),
        (SOURCE, IMAGE[1].replace(b"two", b"too"), "adds or removes other lines than the patch does"),
        (
            SOURCE.replace(b"def f():", b"def f():\n    if 1:\n        one = 1"),
            SOURCE.replace(b"def f():", b"def f():\n    if 1:\n        one = 7"),
            "changes f, which the patch does not (it changes A.f)",
        ),
        (IMAGE[1] + b"\n", IMAGE[1], ""),
        (SOURCE, SOURCE, "lacks lines that the patch adds"),
    ],
)
def test_a_change_must_be_the_patchs_own_and_where_it_was_made(before: bytes, after: bytes, complaint: str) -> None:
    assert check_scope(IMAGE, (before, after)) == complaint


def test_what_the_patch_removes_may_be_gone_already_but_not_stay() -> None:
    before, after = b"a = 1\nb = 2\nc = 3\n", b"a = 1\nc = 4\n"
    assert check_scope((before, after), (b"a = 1\nc = 3\n", b"a = 1\nc = 4\n")) == ""
    assert check_scope((before, after), (before, b"a = 1\nb = 2\nc = 4\n")) == "leaves lines that the patch removes"


def test_other_files_than_python_are_judged_by_their_lines_only() -> None:
    assert check_scope((b"a:\n 1\n", b"a:\n 2\n"), (b"b:\n 1\n", b"b:\n 2\n"), python=False) == ""
