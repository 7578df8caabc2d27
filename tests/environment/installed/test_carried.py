"""Which files of a patch a package carries: for every kind of change, and nothing dropped in silence."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from patchkit.environment.installed.carried import Carried, carry_series
from patchkit.recipe.model import Change, ChangeFile, ChangePatch, ChangePull, ChangeRewrite
from patchkit.recipe.model.patch import RewriteAppend, RewriteStep
from patchkit.stack.series import StackPatch

FACTS: Any = SimpleNamespace(version=lambda _: "1", has=lambda *_: False)
ODD = "--- a/tests/a[1].py\n+++ b/tests/a[1].py\n@@ -1 +1 @@\n-a\n+b\n"
IN = "--- a/vllm/x.py\n+++ b/vllm/x.py\n@@ -1 +1 @@\n-a\n+b\n"


def carry(folder: Path, change: Change, rewrites: dict[str, tuple[RewriteStep, ...]] | None = None) -> Carried:
    patch = StackPatch("p", folder, (change,), "0" * 64, rewrites=rewrites or {})
    return carry_series([patch], FACTS, lambda path: path.startswith("vllm/"))


def told(carried: Carried) -> list[tuple[str, str]]:
    return [(left.file, left.outcome) for left in carried.left_out]


def test_files_outside_are_excluded_by_name_whatever_letters_it_has(tmp_path: Path) -> None:
    (tmp_path / "p").write_text(IN + ODD)
    found = carry(tmp_path, ChangePatch(patch="p"))
    assert told(found) == [("tests/a[1].py", "not-in-package")]
    (change,) = found.series[0].changes
    assert isinstance(change, ChangePatch)
    assert change.exclude == ("/tests/a[[]1].py",)


def test_steps_of_a_rewrite_outside_are_left_out(tmp_path: Path) -> None:
    steps = (RewriteAppend(file="vllm/x.py", append="x"), RewriteAppend(file="csrc/x.cu", append="x"))
    found = carry(tmp_path, ChangeRewrite(rewrite="r"), {"r": steps})
    assert told(found) == [("csrc/x.cu", "needs-native-build")]
    assert found.series[0].rewrites["r"] == steps[:1]


@pytest.mark.parametrize(
    ("change", "rewrites"),
    [
        (ChangeFile(file="docs/a.md", source="a.md"), {}),
        (ChangeRewrite(rewrite="r"), {"r": (RewriteAppend(file="docs/a.md", append="x"),)}),
    ],
)
def test_of_a_patch_that_is_all_outside_no_change_is_left(
    tmp_path: Path, change: Change, rewrites: dict[str, tuple[RewriteStep, ...]]
) -> None:
    found = carry(tmp_path, change, rewrites)
    assert told(found) == [("docs/a.md", "not-in-package")]
    assert found.series[0].changes == ()


def test_what_cannot_be_read_or_has_no_files_is_left_to_whoever_applies_it(tmp_path: Path) -> None:
    (tmp_path / "p").write_text(IN[:-3])
    for change in (ChangePatch(patch="p"), ChangePull(pull=1)):
        found = carry(tmp_path, change)
        assert (found.series[0].changes, told(found)) == ((change,), [])


def test_a_patch_whose_condition_does_not_hold_is_not_looked_at(tmp_path: Path) -> None:
    change = ChangeFile(file="docs/a.md", source="a.md")
    patch = StackPatch("p", tmp_path, (change,), "0" * 64, when=("vllm > 2",))
    found = carry_series([patch], FACTS, lambda _: False)
    assert (found.series, found.left_out) == ((patch,), ())


def test_names_with_different_places_in_front_are_not_guessed_at(tmp_path: Path) -> None:
    (tmp_path / "p").write_text(
        IN.replace("a/vllm", "/a/site-packages/vllm").replace("b/vllm", "/b/c/site-packages/vllm")
    )
    (change,) = carry(tmp_path, ChangePatch(patch="p")).series[0].changes
    assert isinstance(change, ChangePatch)
    assert change.strip == 1
