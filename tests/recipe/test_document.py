"""YAML is other people's text: whatever it holds, the answer is a tree or a complaint with a place, never a crash."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchkit.recipe.document import MAX_BYTES, parse_document


def complaints_of(data: bytes) -> list[str]:
    return [f"{problem} | {problem.hint}" for problem in parse_document(data, "f.yaml").problems]


QUOTE = 'quote it: "{}"'
ESCAPED = "holds a character that no text can hold (NUL or half of a pair)"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "f.yaml:1:1: is empty | "),
        (b"# nothing\n", "f.yaml:1:1: is empty | "),
        (b"a: 1\nb: {c: 1,\n  c: 2}\n", "f.yaml:3:3: b.c: stands twice; the first is at 2:5 | remove one of them"),
        (b"a: [1, *x]\n", "f.yaml:1:8: is not YAML: found undefined alias 'x' | "),
        (b"a: &x [1, *x]\n", "f.yaml:1:4: a[1]: holds itself: an alias inside its own anchor | "),
        (b"a: &x {b: *x}\n", "f.yaml:1:4: a.b: holds itself: an alias inside its own anchor | "),
        (
            b"a: 1\n---\nb: 2\n",
            "f.yaml:2:1: a second document begins here | a file holds one document: remove the line ---",
        ),
        (b"a:\n\tb: 1\n", "f.yaml:2:1: a tab: YAML is indented with spaces | replace the tab by spaces"),
        (
            b"a: b: c\n",
            'f.yaml:1:5: is not YAML: mapping values are not allowed here | a value with ": " in it must be quoted',
        ),
        (b"a: ok\nb: \xff\n", "f.yaml:2:4: is not UTF-8 | save the file in the UTF-8 encoding"),
        ("a: ä\n".encode("utf-16"), "f.yaml:1:1: is not UTF-8 | save the file in the UTF-8 encoding"),
        (b"a: ok\nb: x\x01\n", "f.yaml:2:5: holds the character U+0001, which YAML does not allow | "),
        (b'a: "\\ud800"\n', f"f.yaml:1:4: a: {ESCAPED} | "),
        (b'a: ["\\0"]\n', f"f.yaml:1:5: a[0]: {ESCAPED} | "),
        (b"x: 2026-01-31\n", f"f.yaml:1:4: x: YAML reads 2026-01-31 as a date | {QUOTE.format('2026-01-31')}"),
        (b"no: 1\n", f"f.yaml:1:1: YAML reads the key no as false | {QUOTE.format('no')}"),
        (b"pins:\n  0.10: x\n", f"f.yaml:2:3: pins: YAML reads the key 0.10 as 0.1 | {QUOTE.format('0.10')}"),
        (b"? [a]\n: 1\n", "f.yaml:1:3: a key must be text | "),
        (b"<<: {a: 1}\n", "f.yaml:1:1: merge keys (<<) are not known here | write the keys out, or use include"),
        (
            b"a: !!python/name:os.system x\n",
            "f.yaml:1:4: a: the tag tag:yaml.org,2002:python/name:os.system is not known here | ",
        ),
        (b"a: !x [1]\n", "f.yaml:1:4: a: the tag !x is not known here | "),
        (b"a: .inf\n", f"f.yaml:1:4: a: YAML cannot read .inf as float | {QUOTE.format('.inf')}"),
        (b"a: 0x_\n", f"f.yaml:1:4: a: YAML cannot read 0x_ as int | {QUOTE.format('0x_')}"),
        (b"a: " + b"9" * 30 + b"\n", f"f.yaml:1:4: a: YAML cannot read {'9' * 30} as int | {QUOTE.format('9' * 30)}"),
        (b"a: =\n", f"f.yaml:1:4: a: YAML reads = as a sign of its own | {QUOTE.format('=')}"),
        (b"[" * 100, "f.yaml:1:41: is not YAML: nested deeper than 40 | "),
        (b"#" * (MAX_BYTES + 1), "f.yaml: is larger than 262144 bytes | "),
    ],
)
def test_what_is_wrong_with_yaml_is_told_at_its_place(text: bytes, complaint: str) -> None:
    assert complaints_of(text) == [complaint]


def test_aliases_that_unfold_without_end_are_refused_in_time() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    (complaint,) = complaints_of("\n".join(lines).encode())
    assert complaint.endswith("unfolds to more than a recipe can need | ")


def test_an_alias_that_is_used_twice_is_a_value_like_any_other() -> None:
    document = parse_document(b"a: &x [1, two]\nb: *x\n", "f")
    assert document.root is not None
    assert document.root.value() == {"a": [1, "two"], "b": [1, "two"]}


def test_a_scalar_keeps_how_it_was_written_where_yaml_read_no_text() -> None:
    root = parse_document(b"a: 0123456\nb: '0123456'\nc: 12:30:45\nd: no\ne:\nf: !!str 12\n", "f").root
    assert root is not None
    assert root.value() == {"a": 42798, "b": "0123456", "c": 45045, "d": False, "e": None, "f": "12"}
    assert [root.at((key,)).plain for key in "abcdef"] == ["0123456", None, "12:30:45", "no", "", None]


def test_all_problems_of_a_document_are_told_at_once() -> None:
    assert [line.split(" ")[0] for line in complaints_of(b"a: 1\na: 2\nb: 2026-01-01\nc: !x 1\n")] == [
        "f.yaml:2:1:",
        "f.yaml:3:4:",
        "f.yaml:4:4:",
    ]


YAML_LIKE = st.text(alphabet=st.sampled_from(list("ab:0-[]{},&*!|>'\"\\%@`#?<=.~\n\t x\u00e9\u2028\0")), max_size=60)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=60), YAML_LIKE.map(str.encode)))
def test_no_bytes_make_the_reader_crash_and_what_it_returns_is_json(data: bytes) -> None:
    document = parse_document(data, "f")
    assert document.root is not None or document.problems
    if document.root is not None:
        json.dumps(document.root.value(), allow_nan=False).encode()
