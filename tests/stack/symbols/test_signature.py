"""Whether a function can stand in for another."""

from __future__ import annotations

import ast

import pytest

from patchkit.stack.symbols.signature import Signature, misfit, read_signature


def signature(text: str) -> Signature:
    function = ast.parse(f"{text}: pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    found = read_signature(function)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("theirs", "ours", "told"),
    [
        ("def f(a, b)", "def f(a, b)", ""),
        ("def f(self, a)", "def f(cls, a)", ""),
        ("def f(a, b)", "def f(a)", "lacks b"),
        ("def f(a, *, c)", "def f(a)", "lacks c"),
        ("def f(a, *, c)", "def f(a, **more)", ""),
        ("def f(a, b)", "def f(*args)", ""),
        ("def f(a, *, c)", "def f(*args)", "lacks c"),
        ("def f(a)", "def f(a, b)", "demands b"),
        ("def f(a)", "def f(a, b=1)", ""),
        ("def f(a)", "def f(a, *, b)", "demands b"),
        ("def f(*args, **more)", "def f(a, *args, **more)", ""),
        ("def f(a, b)", "def f(b, a)", "another order: a, b"),
        ("def f(a, b)", "def f(a, c)", "lacks b; demands c"),
        ("def f(a, /)", "def f(x, /)", "demands x"),
    ],
)
def test_what_every_call_of_theirs_may_pass_ours_must_take(theirs: str, ours: str, told: str) -> None:
    assert misfit(signature(theirs), signature(ours)) == told


def test_a_decorator_that_may_change_the_parameters_hides_them() -> None:
    cached, plain = ast.parse("@cache\ndef f(a): pass\n@staticmethod\ndef g(a): pass\n").body
    assert isinstance(cached, ast.FunctionDef)
    assert isinstance(plain, ast.FunctionDef)
    assert read_signature(cached) is None
    assert read_signature(plain) is not None
