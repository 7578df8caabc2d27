"""What docs/how-to/write-a-rewrite.md says of patterns, each claim as a step on a small file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from patchkit.recipe.model import Steps
from patchkit.stack.rewrite import RewriteError, rewrite_files

CODE = """@deco
def f(x):
    a = call(x,
             y,)  # note
    b = call(x, z)
    return "s"


class C:
    def m(self):
        x = go(1) + 2
"""
LAUNCH = "void k(int n) {\n    scale<float><<<n, 32>>>(out, in);\n}\n"


def rewrite(text: str, name: str, **step: Any) -> str:
    steps = Steps.validate_json(json.dumps([{"file": name, **step}]))
    result = rewrite_files(lambda _: text.encode(), steps, Path())
    return text if result.done else result.contents[name].decode()


@pytest.mark.parametrize(
    ("step", "found"),
    [
        ({"match": "a = call($A, $B)", "replace": "a = 1"}, "    a = 1  # note\n"),
        ({"match": "a = call($$$)\nb = call($$$)", "replace": "a = b = 1"}, "    a = b = 1\n    return"),
        ({"match": "b = call($$$ARGS)", "replace": "b = other($$$ARGS)"}, "    b = other(x, z)\n"),
        ({"match": "b = call($$$)", "replace": ""}, "# note\n    return"),
        ({"before": "def f($$$)", "insert": "X = 1"}, "X = 1\n@deco\ndef f"),
        ({"after": "go($A)", "insert": "log()"}, "        x = go(1) + 2\n        log()\n"),
        ({"inside": "C.m", "match": "go($A)", "replace": "went($A)"}, "        x = went(1) + 2\n"),
    ],
)
def test_a_pattern_finds_what_the_page_says(step: dict[str, Any], found: str) -> None:
    assert found in rewrite(CODE, "a.py", **step)


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ({"match": "call($A, $A)", "replace": "other()"}, "found 0"),
        ({"match": "return 's'", "replace": "return 1"}, "found 0"),
        ({"match": "call($A", "replace": "1"}, "does not parse"),
        ({"inside": "m", "match": "go($A)", "replace": "1"}, "no definition named m"),
        ({"match": "call($$$)", "replace": "other()"}, r"found 2 of .* \(lines 3, 5\), expected 1"),
    ],
)
def test_what_does_not_fit_is_told(step: dict[str, Any], told: str) -> None:
    with pytest.raises(RewriteError, match=told):
        rewrite(CODE, "a.py", **step)


def test_a_launch_wants_its_semicolon() -> None:
    changed = rewrite(LAUNCH, "a.cu", match="scale<float><<<$G, $B>>>($$$A);", replace="other<<<$G, $B>>>($$$A);")
    assert "other<<<n, 32>>>(out, in);" in changed
    with pytest.raises(RewriteError, match="found 0"):
        rewrite(LAUNCH, "a.cu", match="scale<float><<<$G, $B>>>($$$A)", replace="other<<<$G, $B>>>($$$A)")


def test_a_replacement_that_holds_its_pattern_recognises_itself() -> None:
    step = {"match": "go($A)", "replace": "if ok():\n    go($A)"}
    once = rewrite("def start():\n    go(1)\n", "a.py", **step)
    assert once == "def start():\n    if ok():\n        go(1)\n"
    assert rewrite(once, "a.py", **step) == once


def test_a_replacement_that_stands_elsewhere_in_the_scope_is_taken_for_done() -> None:
    step = {"match": "call($A, $A)", "replace": "1"}
    assert rewrite(CODE, "a.py", **step) == CODE
    with pytest.raises(RewriteError, match="found 0"):
        rewrite(CODE, "a.py", inside="f", **step)
