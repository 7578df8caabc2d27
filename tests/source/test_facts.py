from __future__ import annotations

from pathlib import Path

import pytest

from patchkit.source.commit import Commit
from patchkit.source.facts import Symbols, TreeFacts, parse_symbols
from patchkit.source.source import FactSettings
from tests.support.repositories import GitRepository

TEXT = r'''
"""A module that mentions absent_name."""
import imported
CONSTANT: int = 1
first, (second, *rest) = 1, (2, 3)
table["key"] = attribute.name = "\d"
count += 1

def outer(argument):
    def inner(): ...
    local = 1

class Class:
    field = 1
    async def method(self): ...
    class Nested:
        def deep(self): ...

if CONSTANT:
    def under_if(): ...
else:
    under_else = 1
try:
    from c import compiled
except ImportError:
    compiled_fallback = None
finally:
    at_last = 1
with open("x") as f:
    under_with = 1
match CONSTANT:
    case 1:
        under_match = 1
for item in ():
    under_for = 1
'''


def test_definitions_at_any_depth_have_dotted_names() -> None:
    names = parse_symbols(TEXT.encode())
    assert names is not None
    assert " ".join(sorted(names)) == (
        "CONSTANT Class Class.Nested Class.Nested.deep Class.field Class.method at_last compiled_fallback count first "
        "outer outer.inner outer.local rest second under_else under_for under_if under_match under_with"
    )


@pytest.mark.parametrize("text", [b"print 'python 2'", b"\0", b"x = 1\xff\xfe", b"("])
def test_text_that_is_not_this_python_has_no_definitions_to_speak_of(text: bytes) -> None:
    assert parse_symbols(text) is None


def test_deep_nesting_is_no_crash() -> None:
    assert parse_symbols(b"x = " + b"(" * 5000 + b")" * 5000) is None


@pytest.fixture
def facts(tmp_path: Path) -> TreeFacts:
    upstream = GitRepository(tmp_path / "upstream")
    commit = upstream.commit(
        {
            "demo/a.py": TEXT,
            "demo/old.py": "print 'x'\ndef old(): pass\n",
            "csrc/k.cu": "__global__ void kernel_v2(float* x) {}\n",
            "link.py": upstream.symlink("demo/a.py"),
        }
    )
    record = Commit("demo", commit, upstream.tree_of(commit), "main", "", 0, "1.0")
    return TreeFacts(record, FactSettings(), Symbols(upstream.objects), upstream.objects, lambda _: None)


@pytest.mark.parametrize(
    ("path", "symbol", "there"),
    [
        ("demo/a.py", None, True),
        ("demo", None, True),
        ("demo/", None, True),
        ("demo/b.py", None, False),
        ("../demo", None, False),
        ("demo/a.py", "Class.method", True),
        ("demo/a.py", "method", False),
        ("demo/a.py", "absent_name", False),
        ("demo/a.py", "imported", False),
        ("demo/old.py", "old", True),
        ("demo", "Class", False),
        ("csrc/k.cu", "kernel_v2", True),
        ("csrc/k.cu", "kernel", False),
    ],
)
def test_a_tree_has_a_path_and_a_file_a_definition(
    facts: TreeFacts, path: str, symbol: str | None, there: bool
) -> None:
    assert facts.has(path, symbol) is there


def test_a_file_is_parsed_once(facts: TreeFacts, monkeypatch: pytest.MonkeyPatch) -> None:
    facts.has("demo/a.py", "Class")
    monkeypatch.setattr(facts.symbols, "_repository", None)
    assert facts.has("demo/a.py", "outer.inner")
