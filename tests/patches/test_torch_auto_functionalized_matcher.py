"""torch-auto-functionalized-matcher: two wrappers are matched whatever their inputs, all else as before."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from patchkit.recipe.load import load_patch
from patchkit.stack.rewrite import RewriteError, RewriteResult, rewrite_files
from tests.patches.shapes import PATCHES, run_module

SLUG = "torch-auto-functionalized-matcher"
FILE = "torch/_inductor/pattern_matcher.py"
SOURCE = """\
class PatternMatcherPass:
    def apply(self, nodes):
        applied = []
        for node in nodes:
            target = node.target
            if fallback_node_due_to_unsupported_type(node, allow_cpu_inputs=False):
                continue
            applied.append(target)
        return applied


def elsewhere(node):
    return fallback_node_due_to_unsupported_type(node, allow_cpu_inputs=False)
"""


def rewrite(source: str) -> RewriteResult:
    loaded = load_patch(PATCHES / SLUG)
    assert loaded.patch.upstream == "torch"
    files = {FILE: source.encode()}
    return rewrite_files(files.get, loaded.rewrites["matcher.yaml"], loaded.folder)


def applied(source: str) -> list[str]:
    wrappers = SimpleNamespace(auto_functionalized="first", auto_functionalized_v2="second")
    torch = SimpleNamespace(ops=SimpleNamespace(higher_order=wrappers))
    space = run_module(
        source.encode(),
        torch=torch,
        fallback_node_due_to_unsupported_type=lambda node, allow_cpu_inputs: node.e8m0 and not allow_cpu_inputs,
    )
    nodes = [SimpleNamespace(target=name, e8m0=e8m0) for name in ("first", "second", "mm") for e8m0 in (True, False)]
    found: list[str] = space.PatternMatcherPass().apply(nodes)
    return found


def test_the_wrappers_are_matched_with_an_input_that_triton_cannot_read() -> None:
    assert applied(SOURCE) == ["first", "second", "mm"]
    assert applied(rewrite(SOURCE).contents[FILE].decode()) == ["first", "first", "second", "second", "mm"]


def test_nothing_outside_the_pass_is_touched() -> None:
    after = rewrite(SOURCE).contents[FILE].decode()
    assert after.endswith(SOURCE[SOURCE.index("def elsewhere") :])


def test_a_torch_with_the_change_has_it_already() -> None:
    assert rewrite(rewrite(SOURCE).contents[FILE].decode()).done


def test_a_torch_that_asks_otherwise_is_a_conflict() -> None:
    with pytest.raises(RewriteError, match="expected 1"):
        rewrite(
            SOURCE.replace("            if fallback_node_due_to_unsupported_type(node,", "            if other(node,")
        )
