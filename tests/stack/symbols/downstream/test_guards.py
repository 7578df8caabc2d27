"""Conditions on the product: read from an expression, answered at a version."""

from __future__ import annotations

import ast

import pytest

from patchkit.stack.symbols.downstream.guards import holds, read_guard
from patchkit.stack.symbols.downstream.scope import open_scope

IMPORTS = "import vllm\nfrom vllm import a\n"


def answer(condition: str, version: str | None, exists: bool | None = True) -> bool | None:
    scope = open_scope("vllm", "plugin", ast.parse(IMPORTS).body)
    guard = read_guard(ast.parse(condition, mode="eval").body, scope.targets)
    return holds(guard, version, lambda symbol: exists if symbol == "vllm.a.f" else False)


@pytest.mark.parametrize(
    ("condition", "version", "expected"),
    [
        ('vllm_version_is("0.27.1")', "0.27.1", True),
        ('utils.vllm_version_is("0.27.1")', "0.28.0", False),
        ('not vllm_version_is("0.27.1")', "0.28.0", True),
        ('vllm_version_is("0.27.1")', "0.27.2.dev40", False),
        ('vllm_version_is("0.27.1")', None, False),
        ('vllm_version_is("0.27.1") or vllm_version_is("0.28.0")', "0.28.0", True),
        ('vllm_version_is("0.27.1") and other', "0.28.0", False),
        ('vllm_version_is("0.27.1") and other', "0.27.1", None),
        ("other", "0.27.1", None),
        ('vllm.__version__ == "0.27.1"', "0.27.1", True),
        ('Version(vllm.__version__) >= Version("0.28")', "0.28.0", True),
        ('version.parse(vllm.__version__) < version.parse("0.28")', "0.28.0", False),
        ('Version(vllm.__version__) >= Version("0.28")', None, None),
        ('Version(vllm.__version__) >= Version("no version")', "0.28.0", None),
        ('Version(torch.__version__) >= Version("2")', "0.28.0", None),
        ('hasattr(a, "f")', "0.27.1", True),
        ('hasattr(a, "g")', "0.27.1", False),
        ('find_spec("vllm.gone") is not None', "0.27.1", False),
        ('importlib.util.find_spec("vllm.gone") is None', "0.27.1", True),
    ],
)
def test_a_condition_holds(condition: str, version: str | None, expected: bool | None) -> None:
    assert answer(condition, version) is expected


def test_a_name_that_may_exist_answers_nothing() -> None:
    assert answer('hasattr(a, "f")', "0.27.1", exists=None) is None
