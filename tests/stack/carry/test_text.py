"""The text of diffs: git's own, byte for byte, and readable again: no artefact that drifts with the machine."""

from __future__ import annotations

import pytest
from hypothesis import given

from patchkit.stack.carry.mail import read_naming, read_sheets
from patchkit.stack.carry.text import Naming, join_parts, render_file, render_trees
from patchkit.stack.ladder.exact import apply_exact
from patchkit.stack.outcome import Outcome
from patchkit.stack.patch import parse_patches
from tests.stack.bench import EMPTY_TREE, Desk, numbered
from tests.stack.realgit import RealGit
from tests.stack.test_properties import MODERATE, NAMES, one_desk, pairs  # noqa: F401  # a fixture
from tests.support.repositories import Files

PYTHON = (
    "import os\n\n\nclass A:\n    def one(self):\n"
    + "".join(f"        x = {n}\n" for n in range(30))
    + "\n\ndef b():\n"
)

LONG = "v0.11.0 will be the next official release version of vLLM Ascend. We'll release it\n"  # a space is letter 80
ODD_NAMES = ('odd "name".py', "two words", "nä")


def ours(desk: Desk, before: Files, after: Files) -> bytes:
    return join_parts(render_trees(desk.objects, (desk.tree(before), desk.tree(after))))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"x": numbered(30)}, {"x": numbered(30, {3: "drei\n", 20: "", 29: "a\nb\n"})}),
        ({"x.py": PYTHON}, {"x.py": PYTHON.replace("x = 3\n", "x = 4\n").replace("x = 28", "y = 28")}),
        ({"x": LONG + numbered(9)}, {"x": LONG + numbered(9, {8: "acht\n"})}),
        ({"x": "a\nb"}, {"x": "a\nc"}),
        ({"x": "a\n"}, {"x": "a\r\n"}),
        ({}, {"n/new.py": "x = 1\n"}),
        ({}, {"empty": ""}),
        ({"empty": "", "x": "1\n"}, {}),
        ({"x": b"caf\xe9\n"}, {"x": b"caf\xc3\xa9\n"}),
        (dict.fromkeys(ODD_NAMES, "1\n"), dict.fromkeys(ODD_NAMES, "2\n")),
        ({"b/x": "1\n", "b.x": "1\n", "a": "1\n"}, {"b/x": "2\n", "b.x": "2\n", "a": "2\n"}),
    ],
)  # fmt: skip
def test_a_diff_of_trees_is_the_one_that_git_writes(desk: Desk, real_git: RealGit, before: Files, after: Files) -> None:
    assert ours(desk, before, after) == real_git.diff(before, after, "--no-renames")


def test_modes_links_and_submodules_are_written_as_git_does(desk: Desk, real_git: RealGit) -> None:
    module = desk.git.entry("")
    assert module is not None
    gitlinks = [type(module)(0o160000, digit * 40) for digit in "ab"]
    before = {"run": "x\n", "l": desk.git.symlink("a"), "m": gitlinks[0], "t": "x\n"}
    after = {
        "run": desk.git.executable("x\n"),
        "l": desk.git.symlink("b"),
        "m": gitlinks[1],
        "t": desk.git.symlink("x"),
    }
    assert ours(desk, before, after) == real_git.diff(before, after, "--no-renames")


def test_a_binary_diff_is_one_that_git_applies(desk: Desk, real_git: RealGit) -> None:
    before = {"x.bin": bytes(range(256)) * 400, "gone.bin": b"\0"}
    after = {"x.bin": b"\0" + bytes(range(256)) * 300, "new.bin": b"\0\1\2" * 100_000}
    text = ours(desk, before, after)
    assert real_git.apply(before, text) == after
    patches = parse_patches(text)
    assert desk.apply_patches(desk.tree(before), patches).tree == desk.tree(after)
    assert b"".join(render_file(file) for file in patches[0].files) == text.replace(b" 100644\nGIT", b"\nGIT")


def test_a_rename_stays_one_as_long_as_the_trees_bear_it_out(desk: Desk, real_git: RealGit) -> None:
    before, after = {"old.py": numbered(40)}, {"v/new.py": numbered(40, {9: "neun\n"})}
    (patch,) = parse_patches(real_git.diff(before, after, "-M"))
    moves = {file.path: file for file in patch.files}
    trees = (desk.tree(before), desk.tree(after))
    text = join_parts(render_trees(desk.objects, trees, moves))
    assert b"rename from old.py\nrename to v/new.py\n" in text
    assert real_git.apply({"old.py": numbered(40).encode()}, text) == {"v/new.py": after["v/new.py"].encode()}
    plain = join_parts(render_trees(desk.objects, (EMPTY_TREE, trees[1]), moves))
    assert plain.startswith(b"diff --git a/v/new.py b/v/new.py\nnew file mode 100644\n")


def test_parsed_parts_come_out_as_they_went_in(desk: Desk, real_git: RealGit) -> None:
    before = {"x": numbered(30), "gone": "1\n2\n", "old": numbered(20), "run": "x\n"}
    after = {"x": numbered(30, {3: "", 20: "a"}), "new": "1", "moved": numbered(20), "run": desk.git.executable("x\n")}
    text = real_git.diff(before, after, "-M").replace(b"similarity index 100%\n", b"")
    (sheet,) = read_sheets(text)
    assert b"".join(render_file(file, mode=sheet.modes.get(file.line)) for file in sheet.patch.files) == text


def test_a_traditional_diff_that_may_make_a_file_stays_one(desk: Desk) -> None:
    text = b"--- a/new\n+++ b/new\n@@ -0,0 +1 @@\n+x = 1\n"
    (patch,) = parse_patches(text)
    rendered = render_file(patch.files[0])
    assert desk.apply({}, rendered)[1] == {"new": b"x = 1\n"}


@pytest.mark.parametrize(
    ("strip", "root", "name"),
    [
        (0, "", "v/x.py"),
        (1, "", "a/v/x.py"),
        (4, "", "/usr/lib/site-packages/v/x.py"),
        (1, "v", "a/x.py"),
        (2, "", "q/r/v/x.py"),
    ],
)
def test_names_stand_so_that_the_same_options_read_them(strip: int, root: str, name: str) -> None:
    text = f"--- {name}\n+++ {name}\n@@ -1 +1 @@\n-1\n+2\n".encode()
    patches = parse_patches(text, strip, root)
    assert patches[0].files[0].path == "v/x.py"
    naming = read_naming(text, patches, strip, root)
    again = render_file(patches[0].files[0], naming)
    assert parse_patches(again, strip, root)[0].files[0].path == "v/x.py"
    assert f"--- {name}\n".encode() in again


def test_a_rename_below_a_long_prefix_is_read_again() -> None:
    text = b"diff --git a/usr/lib/x.py b/usr/lib/y.py\nrename from usr/lib/x.py\nrename to usr/lib/y.py\n"
    (patch,) = parse_patches(text, 3)
    assert render_file(patch.files[0], Naming(("a", "usr", "lib"))) == text


@MODERATE
@given(pair=pairs(), name=NAMES)
def test_what_is_written_gives_the_tree_that_it_was_made_from(
    one_desk: Desk,  # noqa: F811
    pair: tuple[bytes, bytes],
    name: str,
) -> None:
    before, after = ({name: data} for data in pair)
    trees = (one_desk.tree(before), one_desk.tree(after))
    text = join_parts(render_trees(one_desk.objects, trees))
    assert (text == b"") == (pair[0] == pair[1])
    if text:
        patches = parse_patches(text)
        attempt = apply_exact(one_desk.objects, trees[0], patches)
        assert (attempt.tree, attempt.outcome) == (trees[1], Outcome.CLEAN)
        assert (
            parse_patches(render_file(patches[0].files[0]))[0].files[0].hunks[0].body
            == patches[0].files[0].hunks[0].body
        )
