"""Patches onto trees, file by file: byte for byte, whole or not at all."""

from __future__ import annotations

import pytest

from patchkit.stack.outcome import Outcome
from patchkit.stack.patch import parse_patches
from tests.stack.bench import Desk, lines, numbered
from tests.support.repositories import Files

EDIT = "--- a/{0}\n+++ b/{0}\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n"
TEXT = lines("one", "two", "three")
DONE = lines("one", "zwei", "three")
CREATE = "diff --git a/{0} b/{0}\nnew file mode 100644\n--- /dev/null\n+++ b/{0}\n@@ -0,0 +1,2 @@\n+one\n+two\n"


def test_a_clean_patch_changes_its_files_and_no_others(desk: Desk) -> None:
    attempt, files = desk.apply({"x": TEXT, "y": TEXT, "z": "z"}, EDIT.format("x") + EDIT.format("y"))
    assert (attempt.outcome, attempt.detail) == (Outcome.CLEAN, "2 hunks in 2 files")
    assert files == {"x": DONE.encode(), "y": DONE.encode(), "z": b"z"}


def test_an_offset_is_told_by_hunk(desk: Desk) -> None:
    attempt, files = desk.apply({"x": "0\n0\n" + TEXT}, EDIT.format("x"))
    assert (attempt.outcome, attempt.detail) == (Outcome.OFFSET, "x: hunk 1 +2")
    assert files["x"] == b"0\n0\n" + DONE.encode()


def test_a_patch_that_is_there_already_is_upstream_and_changes_nothing(desk: Desk) -> None:
    attempt, files = desk.apply({"x": DONE}, EDIT.format("x"))
    assert attempt.outcome is Outcome.ALREADY_UPSTREAM
    assert files == {"x": DONE.encode()}


def test_a_patch_of_which_one_file_is_there_already_is_partly_upstreamed(desk: Desk) -> None:
    attempt, files = desk.apply({"x": DONE, "y": TEXT}, EDIT.format("x") + EDIT.format("y"))
    assert (attempt.outcome, attempt.detail) == (Outcome.PARTLY_UPSTREAMED, "x: already upstream")
    assert files["y"] == DONE.encode()


def test_a_patch_of_which_one_hunk_is_there_already_is_partly_upstreamed(desk: Desk) -> None:
    text = numbered(30, {20: "zwanzig\n"})
    hunks = "@@ -9,3 +9,3 @@\n line 9\n-line 10\n+zehn\n line 11\n"
    hunks += "@@ -19,3 +19,3 @@\n line 19\n-line 20\n+zwanzig\n line 21\n"
    attempt, files = desk.apply({"x": text}, "--- a/x\n+++ b/x\n" + hunks)
    assert (attempt.outcome, attempt.detail) == (Outcome.PARTLY_UPSTREAMED, "x: hunk 2 of 2 already upstream")
    assert files["x"].decode() == numbered(30, {10: "zehn\n", 20: "zwanzig\n"})


def test_a_conflict_names_file_hunk_and_line_and_leaves_the_tree(desk: Desk) -> None:
    files: Files = {"x": TEXT, "y": lines("one", "too", "three")}
    attempt, result = desk.apply(files, EDIT.format("x") + EDIT.format("y"))
    assert attempt.outcome is Outcome.CONFLICT
    assert attempt.detail == "y: hunk 1 (-1): line 2 is `too`, the patch expects `two`"
    assert result == {"x": TEXT.encode(), "y": b"one\ntoo\nthree\n"}
    assert attempt.tree == desk.tree(files)


def test_a_file_that_is_not_there_is_target_gone(desk: Desk) -> None:
    attempt, _ = desk.apply({"y": TEXT}, EDIT.format("v/x"))
    assert (attempt.outcome, attempt.detail) == (Outcome.TARGET_GONE, "v/x: is not in this tree")


def test_when_only_tests_fail_the_outcome_says_so(desk: Desk) -> None:
    attempt, files = desk.apply({"x": TEXT, "tests/x": "other\n"}, EDIT.format("x") + EDIT.format("tests/x"))
    assert attempt.outcome is Outcome.TEST_ONLY
    assert attempt.detail.startswith('only tests fail (exclude: ["tests/**"] leaves them out): tests/x: ')
    assert files["x"] == TEXT.encode()


def test_the_glob_that_leaves_failing_tests_out_leaves_nothing_else_out(desk: Desk) -> None:
    attempt, _ = desk.apply({"v/x": TEXT, "v/tests/a/x": "other\n"}, EDIT.format("v/x") + EDIT.format("v/tests/a/x"))
    assert 'exclude: ["v/tests/**"]' in attempt.detail


def test_a_patch_of_nothing_but_tests_is_not_saved_by_leaving_them_out(desk: Desk) -> None:
    attempt, _ = desk.apply({"tests/x": "other\n"}, EDIT.format("tests/x"))
    assert attempt.outcome is Outcome.CONFLICT


def test_many_failing_files_are_counted(desk: Desk) -> None:
    attempt, _ = desk.apply({"z": ""}, "".join(EDIT.format(f"x{number}") for number in range(5)))
    assert attempt.detail.endswith("; and 2 more files")


def test_a_new_file_is_created_with_its_mode(desk: Desk) -> None:
    attempt, files = desk.apply({"y": ""}, CREATE.format("v/x").replace("100644", "100755"))
    assert (attempt.outcome, files["v/x"]) == (Outcome.CLEAN, b"one\ntwo\n")
    assert desk.entries(attempt.tree)["v/x"].mode == 0o100755


def test_a_new_file_that_is_there_is_upstream_when_equal_and_a_conflict_when_not(desk: Desk) -> None:
    assert desk.apply({"x": "one\ntwo\n"}, CREATE.format("x"))[0].outcome is Outcome.ALREADY_UPSTREAM
    attempt, _ = desk.apply({"x": "one\n"}, CREATE.format("x"))
    assert (attempt.outcome, attempt.detail) == (
        Outcome.CONFLICT,
        "x: the patch creates it, but it is there with another content",
    )


def test_a_traditional_diff_creates_a_file_that_is_not_there(desk: Desk) -> None:
    attempt, files = desk.apply({"y": ""}, "--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+one\n")
    assert (attempt.outcome, files["x"]) == (Outcome.CLEAN, b"one\n")


def test_a_new_empty_file_and_an_edit_of_an_empty_file(desk: Desk) -> None:
    attempt, files = desk.apply({"y": ""}, "diff --git a/x b/x\nnew file mode 100644\nindex 0000000..e69de29\n")
    assert (attempt.outcome, files["x"]) == (Outcome.CLEAN, b"")
    attempt, files = desk.apply({"x": ""}, "--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+one\n")
    assert (attempt.outcome, files["x"]) == (Outcome.CLEAN, b"one\n")


def test_a_file_is_deleted_only_when_it_is_what_the_patch_knows(desk: Desk) -> None:
    diff = "diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n"
    assert desk.apply({"x": "one\n", "y": ""}, diff)[1] == {"y": b""}
    assert desk.apply({"x": "one\nmore\n"}, diff)[0].outcome is Outcome.CONFLICT
    assert desk.apply({"y": ""}, diff)[0].outcome is Outcome.ALREADY_UPSTREAM


RENAME = "diff --git a/x b/v/y\nsimilarity index 60%\nrename from x\nrename to v/y\n"


def test_a_rename_takes_its_edits_along(desk: Desk) -> None:
    diff = RENAME + EDIT.format("x").replace("+++ b/x", "+++ b/v/y")
    attempt, files = desk.apply({"x": TEXT}, diff)
    assert (attempt.outcome, files) == (Outcome.CLEAN, {"v/y": DONE.encode()})
    assert desk.apply({"v/y": DONE}, diff)[0].outcome is Outcome.ALREADY_UPSTREAM
    assert desk.apply({"z": ""}, diff)[0].outcome is Outcome.TARGET_GONE


def test_a_rename_does_not_overwrite(desk: Desk) -> None:
    attempt, _ = desk.apply({"x": TEXT, "v/y": "mine\n"}, RENAME)
    assert (attempt.outcome, attempt.detail) == (Outcome.CONFLICT, "v/y: the patch moves x there, but it exists")


def test_two_files_can_change_places(desk: Desk) -> None:
    swap = "diff --git a/x b/y\nrename from x\nrename to y\ndiff --git a/y b/x\nrename from y\nrename to x\n"
    assert desk.apply({"x": "1\n", "y": "2\n"}, swap)[1] == {"x": b"2\n", "y": b"1\n"}


def test_a_copy_leaves_its_source(desk: Desk) -> None:
    attempt, files = desk.apply({"x": TEXT}, RENAME.replace("rename", "copy"))
    assert (attempt.outcome, files) == (Outcome.CLEAN, {"x": TEXT.encode(), "v/y": TEXT.encode()})
    assert desk.apply({"x": TEXT, "v/y": TEXT}, RENAME.replace("rename", "copy"))[0].outcome is Outcome.ALREADY_UPSTREAM


def test_a_mode_change_is_a_change(desk: Desk) -> None:
    diff = "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n"
    attempt, _ = desk.apply({"x": TEXT}, diff)
    assert (attempt.outcome, desk.entries(attempt.tree)["x"].mode) == (Outcome.CLEAN, 0o100755)
    assert desk.apply({"x": desk.git.executable(TEXT)}, diff)[0].outcome is Outcome.ALREADY_UPSTREAM


def test_an_edit_keeps_the_mode_of_the_file(desk: Desk) -> None:
    attempt, _ = desk.apply({"x": desk.git.executable(TEXT)}, EDIT.format("x"))
    assert desk.entries(attempt.tree)["x"].mode == 0o100755


def test_a_patch_may_create_a_file_and_edit_it_later(desk: Desk) -> None:
    edit = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n one\n-two\n+zwei\n"
    attempt, files = desk.apply({"y": ""}, CREATE.format("x") + edit)
    assert (attempt.outcome, files["x"]) == (Outcome.CLEAN, b"one\nzwei\n")
    mails = "".join(
        f"From 0123456 Mon Sep 17 00:00:00 2001\nFrom: A <a@example.org>\nSubject: s\n\n---\n{diff}-- \n2.39\n\n"
        for diff in (CREATE.format("x"), edit)
    )
    attempt, files = desk.apply({"y": ""}, mails)
    assert (attempt.outcome, files["x"]) == (Outcome.CLEAN, b"one\nzwei\n")
    assert desk.apply({"x": "one\nzwei\n"}, mails)[0].outcome is Outcome.ALREADY_UPSTREAM


def test_bytes_that_are_no_utf8_and_crlf_files_stay_what_they_are(desk: Desk) -> None:
    diff = b"--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n \xff one\r\n-two\r\n+zwei\xfe\r\n three\r\n"
    assert desk.apply({"x": b"\xff one\r\ntwo\r\nthree\r\n"}, diff)[1] == {"x": b"\xff one\r\nzwei\xfe\r\nthree\r\n"}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_patch_turned_to_crlf_takes_the_line_ends_of_its_target(desk: Desk, end: str) -> None:
    attempt, files = desk.apply({"x": TEXT.replace("\n", end)}, EDIT.format("x").replace("\n", "\r\n"))
    assert (attempt.outcome, files["x"].decode()) == (Outcome.CLEAN, DONE.replace("\n", end))


def test_an_lf_patch_is_refused_by_a_crlf_file_with_the_reason(desk: Desk) -> None:
    attempt, _ = desk.apply({"x": TEXT.replace("\n", "\r\n")}, EDIT.format("x"))
    assert attempt.outcome is Outcome.CONFLICT
    assert attempt.detail == "x: hunk 1 (-1): the line ends differ: LF in the patch, CRLF in the file"


def test_nothing_is_written_through_a_symlink_or_a_submodule(desk: Desk) -> None:
    link = desk.git.symlink("/etc")
    module = type(link)(0o160000, "1" * 40)
    for diff in (EDIT.format("link"), EDIT.format("link/x"), CREATE.format("link/x"), RENAME.replace("v/y", "link/y")):
        attempt, _ = desk.apply({"link": link, "x": TEXT}, diff)
        assert attempt.outcome is Outcome.BROKEN
        assert "link is a symlink, which no patch may touch" in attempt.detail
    attempt, _ = desk.apply({"module": module}, CREATE.format("module/x"))
    assert "module is a submodule" in attempt.detail


def test_a_patch_cannot_make_symlinks_or_submodules(desk: Desk) -> None:
    for mode in ("120000", "160000"):
        attempt, _ = desk.apply({"y": ""}, CREATE.format("x").replace("100644", mode))
        assert (attempt.outcome, f"the mode {mode}" in attempt.detail) == (Outcome.BROKEN, True)


def test_a_file_where_the_tree_has_a_folder_is_broken(desk: Desk) -> None:
    for files, path in (({"v/x": TEXT}, "v"), ({"v": TEXT}, "v/x")):
        attempt, after = desk.apply(files, CREATE.format(path))
        assert attempt.outcome is Outcome.BROKEN
        assert after == {name: text.encode() for name, text in files.items()}


def test_the_reverse_of_a_patch_undoes_it(desk: Desk) -> None:
    diff = RENAME + EDIT.format("x").replace("+++ b/x", "+++ b/v/y") + CREATE.format("new") + EDIT.format("z")
    files: Files = {"x": TEXT, "z": TEXT}
    attempt, _ = desk.apply(files, diff)
    assert attempt.outcome is Outcome.CLEAN
    (patch,) = parse_patches(diff.encode())
    back = desk.apply_patches(attempt.tree, [patch.reverse()])
    assert (back.outcome, back.tree) == (Outcome.CLEAN, desk.tree(files))


def test_the_same_patch_on_the_same_tree_gives_the_same_id(desk: Desk) -> None:
    results = {desk.apply({"x": TEXT}, EDIT.format("x"))[0].tree for _ in range(3)}
    assert results == {desk.tree({"x": DONE})}


def test_what_upstream_renamed_already_gets_the_edit_and_the_mode_that_are_missing(desk: Desk) -> None:
    rename = RENAME.replace("similarity", "old mode 100644\nnew mode 100755\nsimilarity")
    diff = rename + EDIT.format("x").replace("b/x", "b/v/y")
    for there in (TEXT, DONE):
        attempt, files = desk.apply({"v/y": there}, diff)
        assert (attempt.outcome, files) == (Outcome.PARTLY_UPSTREAMED, {"v/y": DONE.encode()})
        entry = desk.git.objects.entry(attempt.tree, "v/y")
        assert entry is not None
        assert entry.mode == 0o100755
    assert desk.apply({"v/y": lines("one", "deux", "three")}, diff)[0].outcome is Outcome.CONFLICT
    copied = diff.replace("rename", "copy")
    assert desk.apply({"x": TEXT, "v/y": TEXT}, copied)[0].outcome is Outcome.CONFLICT
