"""A series onto a tree: every patch is tried and told, and only a series that stands has a result."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from patchkit.errors import RequestError
from patchkit.recipe.model import Change, Steps
from patchkit.stack.apply import apply_series, walk_series
from patchkit.stack.change import Ground
from patchkit.stack.outcome import Outcome, PatchRecord, SeriesResult
from patchkit.stack.series import StackPatch
from tests.stack.bench import Desk, GivenFacts, RepositorySource, commit_of, lines
from tests.support.repositories import Files

CHANGE: TypeAdapter[Change] = TypeAdapter(Change)
EDIT = "--- a/{0}\n+++ b/{0}\n@@ -1,3 +1,3 @@\n one\n-{1}\n+{2}\n three\n"
TEXT = lines("one", "two", "three")


class Shelf:
    """Makes patches in a folder and applies them."""

    def __init__(self, desk: Desk, folder: Path) -> None:
        self.desk = desk
        self.folder = folder

    def patch(self, name: str, *changes: Mapping[str, Any], **values: Any) -> StackPatch:
        made = tuple(CHANGE.validate_python(change) for change in changes)
        return StackPatch(name, self.folder, made, f"sha of {name}", **values)

    def diff(self, name: str, text: str, **values: Any) -> StackPatch:
        (self.folder / f"{name}.patch").write_text(text)
        return self.patch(name, {"patch": f"{name}.patch"}, **values)

    def apply(self, files: Files, *series: StackPatch, **versions: str) -> SeriesResult:
        base = commit_of(self.desk, self.desk.tree(files))
        return apply_series(RepositorySource(self.desk.git), base, series, GivenFacts(versions))

    def files(self, result: SeriesResult) -> dict[str, bytes]:
        assert result.patched is not None, result.records
        return self.desk.files(result.patched.id)


@pytest.fixture
def shelf(desk: Desk, tmp_path: Path) -> Shelf:
    folder = tmp_path / "patches"
    folder.mkdir()
    return Shelf(desk, folder)


def told(result: SeriesResult) -> list[str]:
    return [f"{record.patch} {record.outcome}" for record in result.records]


def one(result: SeriesResult) -> PatchRecord:
    (record,) = result.records
    return record


def test_each_patch_stands_on_the_ones_before_it(shelf: Shelf) -> None:
    first, second = (
        shelf.diff("first", EDIT.format("x", "two", "zwei")),
        shelf.diff("second", EDIT.format("x", "zwei", "2")),
    )
    result = shelf.apply({"x": TEXT}, first, second)
    assert told(result) == ["first clean", "second clean"]
    assert shelf.files(result) == {"x": b"one\n2\nthree\n"}
    assert result.records[0].files == ("x",)
    assert result.records[0].sha256 == "sha of first"
    assert told(shelf.apply({"x": TEXT}, second, first)) == ["second conflict", "first clean"]


def test_after_a_failure_the_rest_is_tried_and_there_is_no_result(shelf: Shelf) -> None:
    series = [shelf.diff(name, EDIT.format(name, "two", "zwei")) for name in ("x", "gone", "y")]
    result = shelf.apply({"x": TEXT, "y": TEXT}, *series)
    assert told(result) == ["x clean", "gone target-gone", "y clean"]
    assert result.patched is None
    assert result.records[1].files == ()


def test_an_empty_series_gives_the_base(shelf: Shelf, desk: Desk) -> None:
    result = shelf.apply({"x": TEXT})
    assert result.patched is not None
    assert result.patched.id == desk.tree({"x": TEXT})


def test_the_same_series_gives_the_same_tree(shelf: Shelf) -> None:
    patch = shelf.diff("first", EDIT.format("x", "two", "zwei"))
    assert shelf.apply({"x": TEXT}, patch) == shelf.apply({"x": TEXT}, patch)


def test_conditions_of_the_patch_make_it_not_applicable_with_the_reason(shelf: Shelf) -> None:
    patch = shelf.diff("first", EDIT.format("x", "two", "zwei"), when=("vllm > 0.1", "vllm < 0.27"))
    record = one(shelf.apply({"x": TEXT}, patch, vllm="0.28"))
    assert (record.outcome, record.method) == (Outcome.NOT_APPLICABLE, "none")
    assert "0.28" in record.detail
    assert "0.27" in record.detail
    assert told(shelf.apply({"x": TEXT}, patch, vllm="0.26")) == ["first clean"]


def test_the_first_change_whose_condition_holds_is_taken(shelf: Shelf) -> None:
    for name, word in (("a", "alpha"), ("b", "beta")):
        (shelf.folder / f"{name}.patch").write_text(EDIT.format("x", "two", word))
    changes = ({"patch": "a.patch", "when": "vllm < 0.2"}, {"patch": "b.patch", "when": "vllm < 0.3"})
    patch = shelf.patch("p", *changes)
    assert shelf.files(shelf.apply({"x": TEXT}, patch, vllm="0.1"))["x"] == b"one\nalpha\nthree\n"
    assert shelf.files(shelf.apply({"x": TEXT}, patch, vllm="0.2"))["x"] == b"one\nbeta\nthree\n"
    record = one(shelf.apply({"x": TEXT}, patch, vllm="0.3"))
    assert record.outcome is Outcome.NOT_APPLICABLE
    assert record.detail.count("0.3") >= 2  # both reasons


def test_a_patch_whose_requirement_does_not_stand_is_a_conflict(shelf: Shelf) -> None:
    first = shelf.diff("first", EDIT.format("x", "nowhere", "zwei"))
    second = shelf.diff("second", EDIT.format("y", "two", "zwei"), requires=("first",))
    result = shelf.apply({"x": TEXT, "y": TEXT}, first, second)
    assert told(result) == ["first conflict", "second conflict"]
    assert result.records[1].detail == "requires first, which does not stand (conflict)"
    missing = one(shelf.apply({"y": TEXT}, second))
    assert missing.detail == "requires first, which does not come before it in the series"


def test_a_requirement_that_is_upstream_already_stands(shelf: Shelf) -> None:
    first = shelf.diff("first", EDIT.format("x", "two", "zwei"))
    second = shelf.diff("second", EDIT.format("y", "two", "zwei"), requires=("first",))
    files: Files = {"x": TEXT.replace("two", "zwei"), "y": TEXT}
    assert told(shelf.apply(files, first, second)) == ["first already-upstream", "second clean"]


def test_python_that_a_patch_breaks_is_for_review_and_leaves_the_tree(shelf: Shelf) -> None:
    bad = shelf.diff("bad", "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-x = 1\n+x = (\n")
    good = shelf.diff("good", "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n")
    result = shelf.apply({"x.py": "x = 1\n"}, bad, good)
    assert told(result) == ["bad review", "good clean"]
    assert "x.py: no longer parses (line 1" in result.records[0].detail
    assert result.patched is None


def test_only_the_objects_of_a_series_that_stands_are_stored(shelf: Shelf, desk: Desk) -> None:
    def stored() -> int:
        return sum(1 for path in (desk.git.path / "objects").rglob("*") if path.is_file())

    base = commit_of(desk, desk.tree({"v/x": TEXT}))
    first, second, bad = (
        shelf.diff("first", EDIT.format("v/x", "two", "zwei")),
        shelf.diff("second", EDIT.format("v/x", "zwei", "2")),
        shelf.diff("bad", EDIT.format("v/x", "nowhere", "2")),
    )
    before = stored()
    source = RepositorySource(desk.git)
    assert apply_series(source, base, (first, bad), GivenFacts()).patched is None
    assert stored() == before
    for _ in range(2):
        assert apply_series(source, base, (first, second), GivenFacts()).patched is not None
        assert stored() == before + 3  # the file, its folder and the root: nothing of the first patch alone


def test_exact_results_pass_the_gate_where_the_ground_is_thorough(shelf: Shelf, desk: Desk) -> None:
    bad = shelf.diff("bad", "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-x = 1\n+x = (\n")
    base = commit_of(desk, desk.tree({"x.py": "x = 1\n"}))
    for thorough, outcome in ((True, Outcome.REVIEW), (False, Outcome.CLEAN)):
        ground = Ground(RepositorySource(desk.git), base.commit, base.id, thorough=thorough)
        (step,) = walk_series(ground, (bad,), GivenFacts())
        assert step.record.outcome is outcome


def test_a_dry_walk_in_a_rough_draft_tells_what_the_real_one_tells(shelf: Shelf, desk: Desk) -> None:
    rename = "diff --git a/v/x b/v/y\nrename from v/x\nrename to v/y\n"
    series = [
        shelf.diff("edit", EDIT.format("v/x", "two", "zwei")),
        shelf.diff("again", EDIT.format("v/x", "zwei", "2")),
        shelf.diff("lost", EDIT.format("v/x", "two", "zwei")),
        shelf.diff("there", EDIT.format("v/x", "zwei", "2")),
        shelf.diff("moved", rename),
        shelf.diff("last", EDIT.format("v/y", "2", "II")),
        shelf.diff("gone", EDIT.format("v/x", "2", "II")),
    ]
    base = commit_of(desk, desk.tree({"v/x": TEXT, "v/z": TEXT}))
    source = RepositorySource(desk.git)
    told: list[list[tuple[Outcome, str]]] = []
    trees = []
    for dry in (True, False):
        ground = Ground(source, base.commit, base.id, dry=dry)
        with desk.objects.draft(rough=dry):
            steps = list(walk_series(ground, series, GivenFacts()))
            told.append([(step.record.outcome, step.record.detail) for step in steps])
            trees.append(desk.objects.settle(steps[-1].attempt.tree))
    assert told[0] == told[1]
    assert [outcome.value for outcome, _ in told[0]] == [
        "clean", "clean", "conflict", "already-upstream", "clean", "clean", "target-gone",
    ]  # fmt: skip
    assert trees[0] == trees[1]


def test_a_change_of_native_files_says_that_it_needs_a_build(shelf: Shelf) -> None:
    record = one(shelf.apply({"csrc/x.cu": TEXT}, shelf.diff("n", EDIT.format("csrc/x.cu", "two", "zwei"))))
    assert record.native
    assert record.detail == "1 hunk in 1 file; needs a native build (csrc/x.cu)"


def test_exclude_leaves_files_out(shelf: Shelf) -> None:
    (shelf.folder / "p.patch").write_text(EDIT.format("x", "two", "zwei") + EDIT.format("tests/x", "two", "zwei"))
    patch = shelf.patch("p", {"patch": "p.patch", "exclude": ("tests/**",)})
    assert told(shelf.apply({"x": TEXT}, patch)) == ["p clean"]
    record = one(shelf.apply({"x": TEXT}, shelf.patch("p", {"patch": "p.patch", "exclude": ("**",)})))
    assert (record.outcome, record.detail) == (Outcome.NOT_APPLICABLE, "`exclude` leaves nothing of it")


def test_a_file_that_is_no_diff_is_broken_with_its_line(shelf: Shelf) -> None:
    record = one(shelf.apply({"x": TEXT}, shelf.diff("p", EDIT.format("x", "two", "zwei").replace("-1,3", "-1,4"))))
    assert (record.outcome, record.detail) == (
        Outcome.BROKEN,
        "p.patch: line 8: the patch ends in the middle of a hunk",
    )


def test_names_without_a_prefix_get_a_hint(shelf: Shelf) -> None:
    diff = EDIT.format("v/x", "two", "zwei").replace("a/v/", "v/w/").replace("b/v/", "v/w/")
    record = one(shelf.apply({"v/w/x": TEXT}, shelf.diff("p", diff)))
    assert (record.outcome, record.detail) == (
        Outcome.TARGET_GONE,
        "w/x: is not in this tree; the names fit with `strip: 0`",
    )


def test_a_patch_file_that_is_gone_is_an_error_of_the_request(shelf: Shelf) -> None:
    with pytest.raises(RequestError, match=r"none\.patch: cannot be read"):
        shelf.apply({"x": TEXT}, shelf.patch("p", {"patch": "none.patch"}))


def test_a_whole_file_is_added_or_there_or_in_the_way(shelf: Shelf) -> None:
    (shelf.folder / "new.py").write_text("x = 1\n")
    patch = shelf.patch("p", {"file": "v/new.py", "source": "new.py"})
    result = shelf.apply({"x": TEXT}, patch)
    assert (one(result).outcome, one(result).method, shelf.files(result)["v/new.py"]) == (
        Outcome.CLEAN,
        "file",
        b"x = 1\n",
    )
    assert told(shelf.apply({"v/new.py": "x = 1\n"}, patch)) == ["p already-upstream"]
    assert told(shelf.apply({"v/new.py": "x = 2\n"}, patch)) == ["p conflict"]
    assert told(shelf.apply({"v": "a file\n"}, patch)) == ["p broken"]


def test_a_rewrite_is_done_once_and_told_when_it_is_there_or_does_not_fit(shelf: Shelf, desk: Desk) -> None:
    steps = Steps.validate_python(({"file": "x.py", "match": "old($A)", "replace": "new($A)"},))
    patch = shelf.patch("p", {"rewrite": "p.yaml"}, rewrites={"p.yaml": steps})
    result = shelf.apply({"x.py": desk.git.executable("old(1)\n")}, patch)
    assert (one(result).outcome, one(result).method, shelf.files(result)) == (
        Outcome.REWRITTEN,
        "rewrite",
        {"x.py": b"new(1)\n"},
    )
    assert result.patched is not None
    assert desk.entries(result.patched.id)["x.py"].mode == 0o100755
    assert told(shelf.apply({"x.py": "new(1)\n"}, patch)) == ["p already-upstream"]
    assert told(shelf.apply({"x.py": "other(1)\n"}, patch)) == ["p conflict"]
    assert told(shelf.apply({"x.py": desk.git.symlink("y.py"), "y.py": "old(1)\n"}, patch)) == ["p conflict"]


@pytest.mark.parametrize(("version", "removable"), [("0.29", ""), ("0.30", "vllm 0.30 is >= 0.30")])
def test_a_patch_that_is_not_needed_any_more_says_so_and_is_applied_all_the_same(
    shelf: Shelf, version: str, removable: str
) -> None:
    patch = shelf.diff("first", EDIT.format("x", "two", "zwei"), remove_when="vllm >= 0.30")
    result = shelf.apply({"x": TEXT}, patch, vllm=version)
    assert (told(result), one(result).removable) == (["first clean"], removable)


def test_what_cannot_be_told_removes_nothing(shelf: Shelf) -> None:
    patch = shelf.diff("first", EDIT.format("x", "two", "zwei"), remove_when="merged(7)")
    assert one(shelf.apply({"x": TEXT}, patch)).removable == ""
