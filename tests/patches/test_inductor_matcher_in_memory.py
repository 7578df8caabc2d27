"""inductor-matcher-in-memory: the matcher is changed when it is imported, for two wrappers, and nothing else is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest

from patchkit.recipe.load import load_patch
from patchkit.stack.rewrite import RewriteResult, rewrite_files
from tests.patches.shapes import PATCHES

FOLDER = PATCHES / "inductor-matcher-in-memory"
OVERRIDE = "import torch\n\nfrom vllm.logger import init_logger\n\n_patch()\n"
MATCHER = """
def fallback_node_due_to_unsupported_type(node, allow_cpu_inputs=True):
    return not allow_cpu_inputs


def matched(target):
    node = type("Node", (), {"target": target})
    return not fallback_node_due_to_unsupported_type(node, allow_cpu_inputs=False)
"""
TORCH = """
class higher_order:
    auto_functionalized = object()
    auto_functionalized_v2 = object()


class ops:
    higher_order = higher_order
    mm = object()
"""
ASK = """
import inspect, sys
import vllm.env_override
assert "torch._inductor" not in sys.modules, "imported for nothing"
from torch._inductor import pattern_matcher
import torch
wrappers = torch.ops.higher_order.auto_functionalized, torch.ops.higher_order.auto_functionalized_v2
print([pattern_matcher.matched(target) for target in (*wrappers, torch.ops.mm)])
assert "def matched" in inspect.getsource(pattern_matcher)
assert not any(type(finder).__module__ == "vllm.inductor_matcher" for finder in sys.meta_path)
import vllm.inductor_matcher as module
before = pattern_matcher.fallback_node_due_to_unsupported_type
module.accept_wrappers(pattern_matcher)
assert pattern_matcher.fallback_node_due_to_unsupported_type is before
module.accept_wrappers(object())
"""


def rewrite(source: str) -> RewriteResult:
    files = {"vllm/env_override.py": source.encode()}
    return rewrite_files(files.get, load_patch(FOLDER).rewrites["hook.yaml"], FOLDER)


def lay_out(folder: Path) -> Path:
    result = rewrite("import torch\n")
    files = {
        "torch/__init__.py": TORCH,
        "torch/_inductor/__init__.py": "",
        "torch/_inductor/pattern_matcher.py": MATCHER,
        "vllm/__init__.py": "",
        **{path: content.decode() for path, content in result.contents.items()},
    }
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def ask(folder: Path, before: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-c", before + ASK],
        env={"PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_wrappers_are_matched_and_all_else_is_asked_as_before(tmp_path: Path) -> None:
    folder = lay_out(tmp_path)
    assert ask(folder) == "[True, True, False]"
    (folder / "vllm/env_override.py").write_text("import torch\nimport vllm.inductor_matcher as _\n_.QUESTION\n")
    (folder / "vllm/inductor_matcher.py").write_text("QUESTION = 0\ndef accept_wrappers(matcher): ...\n")
    assert ask(folder) == "[False, False, False]", "the small torch of this test must skip them by itself"


def test_a_matcher_that_is_loaded_already_is_changed_too(tmp_path: Path) -> None:
    folder = lay_out(tmp_path)
    code = dedent("""
        import torch._inductor.pattern_matcher as m, torch, vllm.env_override
        print([m.matched(torch.ops.higher_order.auto_functionalized), m.matched(torch.ops.mm)])
    """)
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[True, False]"


def test_the_import_stands_at_the_end_once() -> None:
    after = rewrite(OVERRIDE).contents["vllm/env_override.py"].decode()
    assert after.startswith(OVERRIDE)
    assert after.count("import vllm.inductor_matcher") == 1


@pytest.mark.parametrize(
    ("names", "applies"),
    [
        ((), False),
        (("vllm/env_override.py",), True),
        (("vllm/env_override.py", "_patch_inductor_pattern_matcher"), False),
    ],
)
def test_it_is_for_trees_that_do_not_do_it_themselves(names: tuple[str, ...], applies: bool) -> None:
    from patchkit.recipe.condition import parse_condition

    facts = SimpleNamespace(has=lambda path, symbol: path in names and (symbol is None or symbol in names))
    condition = parse_condition(str(load_patch(FOLDER).patch.when))
    assert condition.decide(facts).holds is applies
