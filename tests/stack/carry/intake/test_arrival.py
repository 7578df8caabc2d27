"""What comes from outside: how many parts of a name are to go, what is set beside, what a folder is called."""

from __future__ import annotations

import pytest

from patchkit.errors import RequestError
from patchkit.stack.carry.intake.arrival import guess_strip, make_slug, take_text

HUNK = "@@ -1 +1 @@\n-1\n+2\n"


def diff(*paths: str) -> bytes:
    return "".join(f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n{HUNK}" for path in paths).encode()


@pytest.mark.parametrize(
    ("old", "new", "strip"),
    [
        ("a/v/x.py", "b/v/x.py", 1),
        ("v/x.py", "v/x.py", 0),
        ("v/x.py.orig", "v/x.py", 0),
        ("v.orig/x.py", "v/x.py", 1),
        ("/usr/lib/python3/dist-packages/v/x.py", "/usr/lib/python3/dist-packages/v/x.py", 5),
        ("a/lib/site-packages/v/x.py", "b/lib/site-packages/v/x.py", 3),
        ("site-packages/v/x.py", "site-packages/v/x.py", 1),
        ("a/site-packages.py", "b/site-packages.py", 1),
        ("/dev/null", "v/x.py", 0),
        ("/dev/null", "b/v/x.py", 1),
    ],
)
def test_the_strip_level_is_what_the_names_look_like(old: str, new: str, strip: int) -> None:
    hunk = "@@ -0,0 +1 @@\n+2\n" if old == "/dev/null" else HUNK
    assert guess_strip(f"--- {old}\n+++ {new}\n{hunk}".encode()) == strip


def test_a_given_level_wins() -> None:
    (arrival,) = take_text("x", b"--- a/b/v/x.py\n+++ a/b/v/x.py\n" + HUNK.encode(), strip=2)
    assert list(arrival.parts) == ["v/x.py"]
    with pytest.raises(RequestError, match="leaves nothing") as caught:
        take_text("x", diff("x"), strip=5)
    assert "--strip" in caught.value.hint


def test_tests_docs_and_ci_are_set_beside_and_what_globs_name() -> None:
    paths = [
        "v/x.py",
        "csrc/x.cu",
        "v/attention/tests/t.py",
        "tests/t.py",
        "v/test_y.py",
        "docs/a.md",
        "README.md",
        ".github/w.yml",
    ]
    (arrival,) = take_text("x", diff(*paths))
    split = arrival.set_aside(())
    assert sorted(split.parts.keys() - split.aside) == ["csrc/x.cu", "v/x.py"]
    assert split.native == ("csrc/x.cu",)
    python = arrival.set_aside(("csrc/**",))
    assert (sorted(python.parts.keys() - python.aside), python.native) == (["v/x.py"], ())
    assert python.text.count(b"diff --git") + python.aside_text.count(b"diff --git") == len(paths)


def test_where_nothing_else_is_all_of_it_stays_but_what_globs_name() -> None:
    (arrival,) = take_text("x", diff("tests/t.py", "docs/a.md"))
    assert arrival.set_aside(()).aside == frozenset()
    assert arrival.set_aside(("docs/**",)).aside == {"docs/a.md"}


@pytest.mark.parametrize(
    ("title", "slug"),
    [
        ("[Bugfix][MoE] Fix the thing (#12)", "fix-the-thing"),
        ("Größer: größer?", "gr-er-gr-er"),
        ("日本語", "patch"),
        ("[WIP]", "wip"),
        ("v0.26 -- now", "v0.26-now"),
        ("x" * 90, "x" * 50),
        ("word " * 30, "word-word-word-word-word-word-word-word-word-word"),
    ],
)
def test_a_title_becomes_the_name_of_a_folder(title: str, slug: str) -> None:
    assert make_slug(title) == slug


def test_a_diff_without_a_title_is_called_by_its_files() -> None:
    (one,) = take_text("x", diff("v/x.py"))
    (two,) = take_text("x", diff("v/x.py", "v/y.py", "tests/t.py"))
    assert (one.title, two.set_aside(()).title) == ("Change v/x.py", "Change v/x.py and 1 more")
