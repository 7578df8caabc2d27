"""Patch files as they really come: what is read, and what is refused with its line instead of being half read."""

from __future__ import annotations

import time

import pytest

from patchkit.stack.patch import FilePatch, MalformedPatch, parse_patches
from patchkit.stack.patch.lines import split_lines

HUNK = "@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n"


def parse_one(text: str | bytes, strip: int = 1, root: str = "") -> FilePatch:
    data = text.encode() if isinstance(text, str) else text
    (patch,) = parse_patches(data, strip, root)
    (file,) = patch.files
    return file


def refuse(text: str | bytes, strip: int = 1) -> str:
    data = text.encode() if isinstance(text, str) else text
    with pytest.raises(MalformedPatch) as caught:
        parse_patches(data, strip)
    return str(caught.value)


def test_a_git_diff_gives_path_lines_and_where_they_are() -> None:
    file = parse_one(f"diff --git a/v/x.py b/v/x.py\nindex 0123456..789abcd 100644\n--- a/v/x.py\n+++ b/v/x.py\n{HUNK}")
    assert (file.old_path, file.new_path, file.old_blob, file.new_blob) == ("v/x.py", "v/x.py", "0123456", "789abcd")
    (hunk,) = file.hunks
    assert (hunk.line, hunk.old_start, hunk.new_start, hunk.leading, hunk.trailing) == (5, 1, 1, 1, 1)
    assert hunk.old == [b"one\n", b"two\n", b"three\n"]
    assert hunk.new == [b"one\n", b"zwei\n", b"three\n"]


def test_a_traditional_diff_may_have_timestamps_after_its_names() -> None:
    file = parse_one(f"--- a/x.py\t2024-03-01 10:00:00.000 +0100\n+++ b/x.py\t2024-03-02 11:00:00.000 +0100\n{HUNK}")
    assert (file.old_path, file.new_path, file.git) == ("x.py", "x.py", False)


def test_a_timestamp_of_1970_means_that_the_file_is_not_there() -> None:
    new = (
        "--- a/x.py\t1970-01-01 01:00:00.000000000 +0100\n+++ b/x.py\t2024-03-02 11:00:00 +0100\n@@ -0,0 +1 @@\n+one\n"
    )
    assert parse_one(new).old_path is None


def test_of_two_names_of_one_file_the_shorter_one_is_meant() -> None:
    assert parse_one(f"--- a/x.py.orig\n+++ b/x.py\n{HUNK}").path == "x.py"


@pytest.mark.parametrize(("strip", "root", "path"), [(0, "", "b/v/x.py"), (1, "", "v/x.py"), (2, "src", "src/x.py")])
def test_strip_and_root_decide_what_the_names_mean(strip: int, root: str, path: str) -> None:
    assert parse_one(f"--- a/v/x.py\n+++ b/v/x.py\n{HUNK}", strip, root).path == path


def test_a_name_with_fewer_parts_than_strip_is_refused() -> None:
    assert "x.py: has fewer than 2 parts, so strip 1 leaves nothing" in refuse(f"--- x.py\n+++ x.py\n{HUNK}")


def test_names_in_c_quotes_are_read() -> None:
    text = 'diff --git "a/na\\303\\257ve \\"x\\".py" "b/na\\303\\257ve \\"x\\".py"\n'
    text += f'--- "a/na\\303\\257ve \\"x\\".py"\n+++ "b/na\\303\\257ve \\"x\\".py"\n{HUNK}'
    assert parse_one(text).path == 'naïve "x".py'


def test_names_with_spaces_are_read_from_the_header_alone() -> None:
    file = parse_one("diff --git a/one b two b/one b two\nold mode 100644\nnew mode 100755\n")
    assert (file.path, file.old_mode, file.new_mode, file.hunks) == ("one b two", 0o100644, 0o100755, ())


def test_an_empty_new_file_and_an_empty_deleted_file_have_no_hunks() -> None:
    new = parse_one("diff --git a/e.py b/e.py\nnew file mode 100644\nindex 0000000..e69de29\n")
    assert (new.old_path, new.new_path, new.new_mode) == (None, "e.py", 0o100644)
    gone = parse_one("diff --git a/e.py b/e.py\ndeleted file mode 100644\nindex e69de29..0000000\n")
    assert (gone.old_path, gone.new_path) == ("e.py", None)


def test_renames_and_copies_have_no_prefix_to_strip() -> None:
    text = "diff --git a/v/old.py b/v/new.py\nsimilarity index 100%\nrename from v/old.py\nrename to v/new.py\n"
    file = parse_one(text)
    assert (file.old_path, file.new_path, file.copies) == ("v/old.py", "v/new.py", False)
    assert parse_one(text.replace("rename", "copy")).copies


def test_a_blank_line_of_context_may_have_lost_its_space() -> None:
    (hunk,) = parse_one("--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n one\n\n-two\n+zwei\n").hunks
    assert hunk.old == [b"one\n", b"\n", b"two\n"]


def test_no_newline_at_end_of_file_belongs_to_the_line_before_it() -> None:
    marker = "\\ No newline at end of file\n"
    (hunk,) = parse_one(f"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-one\n{marker}+eins\n").hunks
    assert (hunk.old, hunk.new) == ([b"one"], [b"eins\n"])


def test_lines_that_look_like_names_of_files_stay_lines_of_the_hunk() -> None:
    (hunk,) = parse_one("--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n---- a/y\n-+++ b/y\n+++++ c\n+--- d\n").hunks
    assert hunk.old == [b"--- a/y\n", b"+++ b/y\n"]
    assert hunk.new == [b"++++ c\n", b"--- d\n"]


def test_a_lone_carriage_return_does_not_end_a_line() -> None:
    assert split_lines(b"a\rb\nc\r\nd") == [b"a\rb\n", b"c\r\n", b"d"]


def test_a_patch_file_turned_to_crlf_is_read_as_what_it_was() -> None:
    file = parse_one(f"--- a/x\n+++ b/x\n{HUNK}".replace("\n", "\r\n"))
    assert file.crlf
    assert file.hunks[0].old == [b"one\n", b"two\n", b"three\n"]


def test_a_patch_of_a_crlf_file_keeps_its_line_ends() -> None:
    file = parse_one("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-one\r\n+eins\r\n")
    assert not file.crlf
    assert file.hunks[0].new == [b"eins\r\n"]


def test_hunks_out_of_order_are_put_in_order() -> None:
    late, early = "@@ -9 +9 @@\n-nine\n+neun\n", "@@ -1 +1 @@\n-one\n+eins\n"
    assert [hunk.old_start for hunk in parse_one(f"--- a/x\n+++ b/x\n{late}{early}").hunks] == [1, 9]


def test_hunks_that_overlap_are_refused() -> None:
    assert (
        refuse(f"--- a/x\n+++ b/x\n{HUNK}@@ -3,1 +3,1 @@\n-three\n+drei\n") == "line 8: this hunk overlaps another one"
    )


@pytest.mark.parametrize(
    ("hunk", "message"),
    [
        ("@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n", "line 7: the patch ends in the middle of a hunk"),
        ("@@ -1,2 +1,2 @@\n one\n-two\n+zwei\n three\n", "line 7: the hunk has more lines than its header says"),
        ("@@ -1,3 +1,3 @@\n one\n-two\n+zwei\nIndex: y\n", "line 7: the hunk has fewer lines than its header says"),
        ("@@ -1,2 +1,1 @@\n one\n two\n", "line 5: the hunk of line 3 has other line counts than its header says"),
        ("@@ -1,b +1 @@\n one\n", "line 3: a hunk header that cannot be read"),
        ("@@ -1 +1 @@\n one\n", "line 3: a hunk that changes nothing"),
        ("", "line 3: a hunk must follow the names of a file"),
    ],
)
def test_a_hunk_that_is_not_what_its_header_says_is_refused_with_its_line(hunk: str, message: str) -> None:
    assert refuse(f"--- a/x\n+++ b/x\n{hunk}") == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no diff"),
        ("only prose\n", "holds no diff"),
        (HUNK, "a hunk without the name of its file"),
        ("diff --git a/x b/x\nindex 0123456..789abcd 100644\n", "the header of a file, but no change to it"),
        ("diff --git a/x b/x\nnew file mode 100644\nindex 0000000..789abcd\n", "no change to it"),  # cut off
        ("diff --git a/x b/y\nrename from x\nrename to y\nindex 0123456..789abcd\n", "no change to it"),
        (f"diff --git a/x b/x\n--- a/x\n+++ b/y\n{HUNK}", "names two files, x and y, but is no rename"),
        ("diff --git a/x b/x\nold mode 644\n", "no octal number of six digits"),
        ("diff --git a/x b/y\nrename from x\n", "needs both its names"),
        ("diff --git a/x b/x\nold mode 100644\n", "needs both its modes"),
        ("diff --git a/x b/x\nnew file mode 120000\ndeleted file mode 100644\n", "two things of a file"),
        ("diff --git a/x b/y\nnew file mode 100644\nrename from x\nrename to y\n", "two things of a file"),
        ("diff --git a/x b/y\ndeleted file mode 100644\ncopy from x\ncopy to y\n", "two things of a file"),
        ("diff --git a/x b/x\ndeleted file mode 100644\nold mode 100644\nnew mode 100755\n", "two things of a file"),
        ("diff --cc x\nindex 1,2..3\n", "combined diff"),
        ("*** a/x\n--- b/x\n***************\n*** 1 ****\n", "context diff"),
        (
            "diff --git a/x.so b/x.so\nindex 0123456..789abcd\nBinary files a/x.so and b/x.so differ\n",
            "git diff --binary",
        ),
        ("Binary files a/x.so and b/x.so differ\n", "git diff --binary"),
        (f"diff --git a/x b/x\n--- /dev/null\n+++ b/x\n{HUNK}", "disagree on whether it is new"),
        (f"diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n{HUNK}", "cannot have lines before"),
        (f"diff --git a/x b/x\ndeleted file mode 100644\n--- a/x\n+++ /dev/null\n{HUNK}", "cannot have lines left"),
    ],
)
def test_what_is_no_unified_diff_is_refused_with_what_is_wrong(text: str, message: str) -> None:
    assert message in refuse(text)


@pytest.mark.parametrize(
    "name", ["../x", "v/../../x", "v//x", "v/./x", ".git/config", "v/.GIT/hooks/x", "v/git~1/x", "/etc/passwd"]
)
def test_a_name_that_leaves_the_tree_is_refused(name: str) -> None:
    absolute = name if name.startswith("/") else f"a/{name}"
    message = refuse(f"--- {absolute}\n+++ {absolute}\n{HUNK}")
    assert message.startswith("line 1: refused: ")


def test_the_target_of_a_rename_may_not_leave_the_tree_either() -> None:
    assert "refused" in refuse("diff --git a/x b/y\nrename from x\nrename to ../../y\n")


def test_a_name_that_is_no_utf8_is_refused() -> None:
    assert "no UTF-8" in refuse(b"--- a/\xff.py\n+++ b/\xff.py\n" + HUNK.encode())


def test_a_diff_of_800_kilobytes_is_read_in_a_tenth_of_a_second() -> None:
    body = "".join(
        f" context line number {n} of some length\n-old line number {n}\n+new line number {n}\n" for n in range(80)
    )
    file = "diff --git a/f{0}.py b/f{0}.py\n--- a/f{0}.py\n+++ b/f{0}.py\n@@ -1,160 +1,160 @@\n" + body
    data = "".join(file.replace("{0}", str(number)) for number in range(124)).encode()
    assert len(data) > 750_000
    durations = []
    for _ in range(3):  # the best of three, in processor time: the machine may be busy
        began = time.process_time()
        (patch,) = parse_patches(data)
        durations.append(time.process_time() - began)
    assert len(patch.files) == 124
    assert min(durations) < 0.1


@pytest.mark.parametrize("header", ["@@", "@@ @@", "@@ ... @@ def f(x):", "@@ def f(x):"])
@pytest.mark.parametrize("before", ["", HUNK])
@pytest.mark.parametrize("git", ["", "diff --git a/x b/x\n"])
def test_a_hunk_without_line_numbers_is_refused_with_what_to_do(header: str, before: str, git: str) -> None:
    said = refuse(f"{git}--- a/x\n+++ b/x\n{before}{header}\n one\n-two\n+zwei\n")
    line = 3 + bool(git) + before.count("\n")
    assert said.startswith(f"line {line}: a hunk header without line numbers")
    assert "git diff" in said
