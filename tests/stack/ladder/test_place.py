"""Where hunks land. The lie each test prevents is a patch in the wrong place with exit 0."""

from __future__ import annotations

from patchkit.stack.ladder.attempt import HunkState
from patchkit.stack.ladder.place import Placed, place_hunks
from patchkit.stack.patch import parse_patches

BLOCK = "def {0}():\n    a = 1\n    b = 2\n    return a\n\n"


def place(text: str, *hunks: str) -> Placed:
    (patch,) = parse_patches(("--- a/x\n+++ b/x\n" + "".join(hunks)).encode())
    return place_hunks(text.encode(), patch.files[0].hunks)


def text_of(placed: Placed) -> str:
    return placed.data.decode()


def change(line: int, delta: int = 0) -> str:
    """A hunk that turns `b = 2` of a BLOCK into `b = 3`; `line` is where its three lines begin."""
    return f"@@ -{line},3 +{line + delta},3 @@\n     a = 1\n-    b = 2\n+    b = 3\n     return a\n"


def test_a_hunk_at_its_line_is_applied_there() -> None:
    placed = place(BLOCK.format("f"), change(2))
    assert [(hunk.state, hunk.line, hunk.offset) for hunk in placed.hunks] == [(HunkState.APPLIED, 2, 0)]
    assert text_of(placed) == BLOCK.format("f").replace("b = 2", "b = 3")


def test_a_hunk_that_fits_at_one_other_place_is_applied_there_with_its_offset() -> None:
    placed = place("new\n" * 40 + BLOCK.format("f"), change(2))
    assert [(hunk.line, hunk.offset) for hunk in placed.hunks] == [(42, 40)]
    assert text_of(placed).endswith("    b = 3\n    return a\n\n")


def test_of_several_places_the_stated_one_is_taken() -> None:
    text = BLOCK.format("f") + BLOCK.format("g")
    placed = place(text, change(7))
    assert text_of(placed) == BLOCK.format("f") + BLOCK.format("g").replace("b = 2", "b = 3")


def test_several_places_none_of_them_stated_are_ambiguous() -> None:
    (result,) = place("new\n" + BLOCK.format("f") + BLOCK.format("g"), change(2)).hunks
    assert (result.state, result.message) == (HunkState.FAILED, "ambiguous: matches at lines 3, 8")


def test_two_places_equally_near_are_ambiguous_too() -> None:
    (result,) = place(BLOCK.format("f") + "new\n" * 5 + BLOCK.format("g"), change(7)).hunks
    assert result.message == "ambiguous: matches at lines 2, 12"


def test_after_a_hunk_that_moved_the_stated_line_is_no_evidence() -> None:
    """f came into the file above g: hunk 2 is for g, but its stated line now is in f."""
    head = "@@ -1,2 +1,2 @@\n-import os\n+import sys\n \n"
    text = "# license\n" * 5 + "import os\n\n" + BLOCK.format("f") + BLOCK.format("g")
    one, two = place(text, head, change(9)).hunks
    assert (one.state, one.offset) == (HunkState.FAILED, 0)  # begins without context: belongs to the begin
    moved = "@@ -1,3 +1,3 @@\n # first\n-import os\n+import sys\n \n"
    text = "# license\n" * 5 + "# first\nimport os\n\n" + BLOCK.format("f") + BLOCK.format("g")
    one, two = place(text, moved, change(10)).hunks
    assert (one.state, one.offset) == (HunkState.APPLIED, 5)
    assert text.split("\n")[9] == "    a = 1"
    assert (two.state, two.message) == (HunkState.FAILED, "ambiguous: matches at lines 10, 15")


def test_a_twin_elsewhere_is_not_patched_when_the_change_is_there_already() -> None:
    """Upstream fixed f, for which the hunk was made; g still has the text that f had."""
    text = BLOCK.format("f").replace("b = 2", "b = 3") + BLOCK.format("g")
    placed = place(text, change(2))
    assert placed.hunks[0].state is HunkState.UPSTREAM
    assert text_of(placed) == text


def test_a_twin_elsewhere_is_ambiguous_when_the_change_may_be_there_already() -> None:
    text = "new\n" + BLOCK.format("f").replace("b = 2", "b = 3") + BLOCK.format("g")
    (result,) = place(text, change(2)).hunks
    assert result.message == "ambiguous: fits at line 8, but what it makes stands at line 3 already"


def test_one_line_of_context_that_differs_is_enough_to_refuse() -> None:
    text = BLOCK.format("f").replace("return a", "return b")
    (result,) = place(text, change(2)).hunks
    assert result.state is HunkState.FAILED
    assert result.message == "line 4 is `return b`, the patch expects `return a`"


def test_the_nearest_mismatch_is_shown_where_most_lines_fit() -> None:
    text = "x\n" * 30 + BLOCK.format("f").replace("b = 2", "b = 22")
    assert place(text, change(2)).hunks[0].message == "line 33 is `b = 22`, the patch expects `b = 2`"


def test_a_file_with_nothing_in_common_says_so() -> None:
    assert place("x\ny\n", change(2)).hunks[0].message == "nothing like it in the file (2 lines)"


def test_a_hunk_without_context_after_it_belongs_to_the_end() -> None:
    hunk = "@@ -1,2 +1,3 @@\n one\n two\n+three\n"
    assert text_of(place("one\ntwo\n", hunk)) == "one\ntwo\nthree\n"
    assert "belongs to the end" in place("one\ntwo\nmore\n", hunk).hunks[0].message


def test_a_hunk_without_context_before_it_belongs_to_the_begin() -> None:
    hunk = "@@ -1,2 +1,3 @@\n+zero\n one\n two\n"
    assert text_of(place("one\ntwo\nmore\n", hunk)) == "zero\none\ntwo\nmore\n"
    assert "belongs to the begin" in place("more\none\ntwo\n", hunk).hunks[0].message


def test_a_hunk_without_any_context_is_not_placed_in_the_middle() -> None:
    assert "belongs to the end" in place("one\ntwo\nthree\n", "@@ -2 +2 @@\n-two\n+zwei\n").hunks[0].message


def test_hunks_whose_places_are_in_another_order_are_refused() -> None:
    first, second = "@@ -1,2 +1,2 @@\n a\n-b\n+B\n", "@@ -11,2 +11,2 @@\n c\n-d\n+D\n"
    tail = "e\n"
    hunks = [hunk.replace(",2 ", ",3 ").replace(",2 @@", ",3 @@") + f" {tail}" for hunk in (first, second)]
    one, two = place("x\nc\nd\ne\ny\na\nb\ne\n", *hunks).hunks
    assert one.state is HunkState.APPLIED
    assert two.message == "matches at line 2, before the end of the hunk that precedes it"


def test_line_ends_that_differ_are_named_and_not_mended() -> None:
    text = BLOCK.format("f").replace("\n", "\r\n")
    assert place(text, change(2)).hunks[0].message == "the line ends differ: LF in the patch, CRLF in the file"
    back = change(2).replace("\n ", "\r\n ").replace("\n-", "\r\n-").replace("\n+", "\r\n+")
    crlf = back.replace("@@\r\n", "@@\n").removesuffix("\n") + "\r\n"
    assert place(BLOCK.format("f"), crlf).hunks[0].message == "the line ends differ: CRLF in the patch, LF in the file"


def test_a_missing_newline_at_the_end_is_context_as_well() -> None:
    hunk = "@@ -1,2 +1,2 @@\n-one\n+eins\n two\n"
    assert place("one\ntwo", hunk).hunks[0].state is HunkState.FAILED
    marked = hunk + "\\ No newline at end of file\n"
    assert text_of(place("one\ntwo", marked)) == "eins\ntwo"
    assert "(no newline at end of file)" in place("one\ntwo\n", marked).hunks[0].message


def test_hunks_that_are_there_already_are_left_and_the_others_applied() -> None:
    text = BLOCK.format("f").replace("b = 2", "b = 3").replace("a = 1", "aa = 1").replace("return a", "return aa")
    other = "@@ -2,3 +2,3 @@\n     aa = 1\n-    b = 2\n+    b = 3\n     return aa\n"
    placed = place(text + BLOCK.format("g"), other, change(7))
    assert [hunk.state for hunk in placed.hunks] == [HunkState.UPSTREAM, HunkState.APPLIED]
    assert text_of(placed) == text + BLOCK.format("g").replace("b = 2", "b = 3")


def test_text_that_stands_already_at_several_places_is_no_proof() -> None:
    done = BLOCK.format("f").replace("b = 2", "b = 3")
    (result,) = place("new\n" + done + done, change(2)).hunks
    assert result.state is HunkState.FAILED
    assert result.message == "ambiguous: matches at lines 3, 8, where what it makes stands already"
