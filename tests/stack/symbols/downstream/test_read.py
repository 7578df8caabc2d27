"""Which names of the product a file uses, how, and on which condition."""

from __future__ import annotations

import re

import pytest

from patchkit.stack.symbols.downstream.guards import ExistsGuard, NotGuard
from patchkit.stack.symbols.downstream.use import Kind, Need
from tests.stack.symbols.trees import uses_of

IMPORT, ATTRIBUTE, REPLACES, OVERRIDES = Kind.IMPORT, Kind.ATTRIBUTE, Kind.REPLACES, Kind.OVERRIDES


def told(text: str) -> list[tuple[str, Kind, Need, int]]:
    return [(use.symbol, use.kind, use.need, use.line) for use in uses_of(text)]


def names(text: str, kind: Kind) -> list[str]:
    return [use.symbol for use in uses_of(text) if use.kind is kind]


def test_imports_of_all_kinds() -> None:
    text = """\
        import os, vllm.a.b
        import vllm.c as c
        from vllm.d import e, f as g
        from vllm import h
        from vllm.i import *
        from .vllm import own
        import vllm_plugin
        """
    assert [(name, line) for name, kind, _, line in told(text) if kind is IMPORT] == [
        ("vllm", 1),
        ("vllm.a.b", 1),
        ("vllm.c", 2),
        ("vllm.d.e", 3),
        ("vllm.d.f", 3),
        ("vllm.h", 4),
        ("vllm.i", 5),
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("c.x.y()", ["vllm.c.x.y"]),
        ("vllm.a.b.f(c.x, [e.y for e in z])", ["vllm.a.b.f", "vllm.c.x", "vllm.d.e.y"]),
        ("getattr(c, 'x')", ["vllm.c.x"]),
        ("print(f'{c.x}')", ["vllm.c.x"]),
        ("lambda: c.x", ["vllm.c.x"]),
        ("alias = c.x; alias.y", ["vllm.c.x", "vllm.c.x.y"]),
        ("import importlib; m = importlib.import_module('vllm.m'); m.y", ["vllm.m.y"]),
        ("other.c.x", []),
    ],
)
def test_attributes_of_what_was_imported(line: str, expected: list[str]) -> None:
    found = names(f"import vllm.a.b\nimport vllm.c as c\nfrom vllm.d import e\n{line}\n", ATTRIBUTE)
    assert sorted(found) == sorted(expected)


def test_a_local_name_hides_an_imported_one() -> None:
    text = """
        from vllm import c
        def f(c): return c.x
        def g():
            c = 1
            return c.x
        def h(): return c.x
        class K:
            c = 2
            def method(self): return c.y
        """
    assert sorted(names(text, ATTRIBUTE)) == ["vllm.c.x", "vllm.c.y"]


OFFERED = re.compile("create=True|raising=(False|strict)")  # then the name need not be there


@pytest.mark.parametrize(
    "line",
    [
        "vllm.a.f = mine",
        "a.f = mine",
        "setattr(a, 'f', mine)",
        "mock.patch('vllm.a.f', mine)",
        "patch.object(a, 'f', mine)",
        "monkeypatch.setattr('vllm.a.f', mine)",
        "monkeypatch.setattr(a, 'f', mine)",
        "mocker.patch('vllm.a.f', mine)",
        "mock.patch.multiple('vllm.a', f=mine, create=False)",
        "mock.patch.multiple('vllm.a', f=mine, create=True)",
        "mock.patch('vllm.a.f', mine, create=True)",
        "patch.object(a, 'f', mine, create=True)",
        "monkeypatch.setattr(a, 'f', mine, raising=False)",
        "monkeypatch.setattr(a, 'f', mine, raising=strict)",
    ],
)
def test_what_replaces_a_name_with_its_signature(line: str) -> None:
    (use,) = [
        use
        for use in uses_of(f"import vllm.a\nfrom vllm import a\ndef mine(x, y=1): pass\n{line}\n")
        if use.kind in {REPLACES, Kind.PATCHES}
    ]
    assert (use.symbol, use.kind is Kind.PATCHES) == ("vllm.a.f", "patch" in line and not OFFERED.search(line))
    assert use.signature is not None
    assert use.signature.positional == ("x", "y")


def test_a_module_put_in_place_and_one_defined_twice() -> None:
    text = """
        import sys, vllm.a
        sys.modules["vllm.b"] = object()
        if x:
            def mine(a): pass
        else:
            def mine(b): pass
        vllm.a.f = mine
        """
    replaced = [use for use in uses_of(text) if use.kind is REPLACES]
    assert [(use.symbol, use.signature) for use in replaced] == [("vllm.b", None), ("vllm.a.f", None)]


def test_methods_of_a_subclass_override() -> None:
    text = """
        from vllm.a import Base
        class Mine(Base):
            def __init__(self): pass
            def run(self, x): Base.stop(self)
        """
    (use,) = [use for use in uses_of(text) if use.kind is OVERRIDES]
    assert (use.symbol, use.root) == ("vllm.a.Base.run", "vllm.a.Base")
    assert names(text, ATTRIBUTE) == ["vllm.a.Base.stop"]


def test_what_is_caught_is_optional_and_the_handler_runs_only_then() -> None:
    text = """
        try:
            from vllm.new import f
        except ImportError:
            from vllm.old import f
        try:
            from vllm.must import g
        except ImportError:
            raise
        with suppress(ImportError):
            from vllm.maybe import h
        try:
            x = f.y
        except AttributeError:
            x = None
        getattr(f, "z", None)
        """
    uses = {use.symbol: use for use in uses_of(text)}
    optional = {name for name, use in uses.items() if use.need is Need.OPTIONAL}
    assert optional == {"vllm.new.f", "vllm.maybe.h", "vllm.new.f.y", "vllm.new.f.z"}
    assert uses["vllm.old.f"].guards == (NotGuard(ExistsGuard(("vllm.new.f",))),)


def test_type_checking_and_annotations_that_nobody_evaluates() -> None:
    text = """
        from __future__ import annotations
        from typing import TYPE_CHECKING
        from vllm import c
        if TYPE_CHECKING:
            from vllm.a import T
        def f(x: c.T) -> c.U:
            y: c.V = 1
            return c.w
        """
    typing = {name for name, _, need, _ in told(text) if need is Need.TYPING}
    assert typing == {"vllm.a.T", "vllm.c.T", "vllm.c.U", "vllm.c.V"}


def test_a_function_called_once_at_import_runs_on_the_conditions_of_the_call() -> None:
    text = """
        def install():
            from vllm.a import f
        def used():
            from vllm.a import g
        with suppress(ImportError):
            install()
            used()
        used()
        """
    assert {(name, need) for name, _, need, _ in told(text)} == {
        ("vllm.a.f", Need.OPTIONAL),
        ("vllm.a.g", Need.REQUIRED),
    }


def test_every_kind_of_statement_is_read() -> None:
    text = """
        from vllm import c
        async def f():
            async with c.a as x:
                async for y in c.b:
                    await c.d
        match c.e:
            case 1:
                c.g
        while c.h:
            del c.i
        try:
            pass
        except* ValueError:
            c.j
        finally:
            c.k
        @c.l
        class K(c.m, metaclass=c.n):
            x: int = c.o
        c.p += 1
        """
    found = {use.symbol.rpartition(".")[2] for use in uses_of(text) if use.kind is not IMPORT}
    assert found == set("abdeghijklmnop")
