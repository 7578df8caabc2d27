"""Whatever the file: a rewrite made again finds itself done, and what it does not touch stays byte for byte."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from patchkit.recipe.model import (
    RewriteAppend,
    RewriteImport,
    RewriteInsert,
    RewriteReplace,
    RewriteStep,
)
from patchkit.stack.rewrite import RewriteError, rewrite_files

FILE = "pkg/module.py"
NOWHERE = Path("/nonexistent")

names = st.sampled_from(["a", "b", "zürich", "x1"])
fillers = st.one_of(
    names.map(lambda name: f"{name} = 1  # {name}"),
    st.just('text = """\n  kept\n"""'),
    st.just("# a comment 😀"),
    st.just(""),
    names.map(lambda name: f"with {name}:\n    {name}()"),
)
arguments = st.lists(st.sampled_from(["x", "y=1", "*rest", "g(1, 2)", '"""s\n  t"""']), max_size=3)


@st.composite
def calls(draw: st.DrawFn) -> str:
    given_ = draw(arguments)
    if draw(st.booleans()) and given_:
        return "target(\n" + "".join(f"    {argument},  # why\n" for argument in given_) + ")"
    return f"target({', '.join(given_)})"


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """A module with one call of `target` in `run`, other statements around it, one of both line ends."""
    before, after = draw(st.lists(fillers, max_size=3)), draw(st.lists(fillers, max_size=3))
    body = [*before, draw(calls()), *after]
    lines = [line for statement in body for line in statement.split("\n")]
    top = draw(st.lists(fillers, max_size=2))
    text = "\n".join([*top, "def run(x):", *("    " + line if line else "" for line in lines), *top]) + "\n"
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"]))).encode()


steps = st.lists(
    st.sampled_from(
        [
            RewriteReplace(
                file=FILE,
                inside="run",
                match="target($$$ARGS)",
                replace="if ready:\n    target($$$ARGS)\nelse:\n    # no\n    other($$$ARGS)",
            ),
            RewriteImport(file=FILE, import_="from m import ready"),
            RewriteImport(file=FILE, inside="run", import_="from m import (\n    other,\n)"),
            RewriteInsert(file=FILE, before="def run($$$)", insert="def helper():\n    pass"),
            RewriteInsert(file=FILE, inside="run", after="target($$$)", insert="log()"),
            RewriteAppend(file=FILE, append="def last():\n    return 1"),
            RewriteAppend(file=FILE, inside="run", append="finish()"),
        ]
    ),
    min_size=1,
    max_size=4,
    unique=True,
).filter(lambda chosen: len({type(step) for step in chosen} & {RewriteReplace, RewriteInsert}) < 2)


@settings(max_examples=150, deadline=None)
@given(files(), steps)
def test_a_rewrite_made_again_is_done(content: bytes, chosen: list[RewriteStep]) -> None:
    first = rewrite_files(lambda _: content, chosen, NOWHERE)
    after = first.contents[FILE]
    second = rewrite_files(lambda _: after, chosen, NOWHERE)
    assert not first.done
    assert (second.done, dict(second.contents)) == (True, {})


@settings(max_examples=100, deadline=None)
@given(files())
def test_a_replacement_touches_only_the_match(content: bytes) -> None:
    step = RewriteReplace(file=FILE, inside="run", match="target($$$ARGS)", replace="aimed($$$ARGS)")
    after = rewrite_files(lambda _: content, [step], NOWHERE).contents[FILE]
    assert after == content.replace(b"    target(", b"    aimed(")


@settings(max_examples=100, deadline=None)
@given(files())
def test_added_lines_are_the_only_difference(content: bytes) -> None:
    chosen = [
        RewriteImport(file=FILE, inside="run", import_="import added"),
        RewriteInsert(file=FILE, inside="run", before="target($$$)", insert="added()"),
    ]
    after = rewrite_files(lambda _: content, chosen, NOWHERE).contents[FILE]
    kept = [line for line in after.splitlines(keepends=True) if b"added" not in line]
    assert b"".join(kept) == content


pieces = st.sampled_from(
    ["f", "(", ")", "$A", "$$$B", ":", "def ", "class ", "=", "if ", "\n", "    ", '"', "#", ",", ";", "{", "<<<"]
)


@settings(max_examples=300, deadline=None)
@given(st.lists(pieces, max_size=8).map("".join), st.sampled_from(["a.py", "a.cu"]))
def test_whatever_the_pattern_a_rewrite_ends_in_a_result_or_a_rewrite_error(pattern: str, path: str) -> None:
    text = b"def f(f):\n    f = f(f, 1)\n" if path == "a.py" else b"void f(int f) { f = f(f, 1); }\n"
    for step in (
        RewriteReplace(file=path, match=pattern, replace="g"),
        RewriteInsert(file=path, after=pattern, insert="g"),
    ):
        try:
            result = rewrite_files(lambda _: text, [step], NOWHERE)
        except RewriteError:
            continue
        assert result.done or result.contents[path] != text
