"""A range-diff: what belongs together, and what is said of it; a rebase must not look like a change, nor hide one."""

from __future__ import annotations

from patchkit.stack.carry.compare import Sign, compare_series, same_change
from patchkit.stack.patch import Patch, parse_patches

MAIL = "From: A <a@x.org>\nSubject: {title}\n\n---\n{diff}"


def diff(number: int = 1, new: str = "zwei", path: str = "x", above: str = "one") -> str:
    return f"--- a/{path}\n+++ b/{path}\n@@ -{number},3 +{number},3 @@ def f\n {above}\n-two\n+{new}\n three\n"


def patch(title: str = "t", **options: object) -> Patch:
    return parse_patches(MAIL.format(title=title, diff=diff(**options)).encode())[0]  # type: ignore[arg-type]


def test_another_place_is_the_same_change() -> None:
    assert same_change([patch()], [patch(number=40)])
    (pair,) = compare_series([patch()], [patch(number=40)])
    assert (pair.sign, pair.old, pair.new, pair.lines) == (Sign.SAME, 1, 1, ())


def test_other_lines_around_it_are_told_apart_from_another_change() -> None:
    assert not same_change([patch()], [patch(above="uno")])
    assert same_change([patch()], [patch(above="uno")], context=False)
    assert not same_change([patch()], [patch(new="deux")], context=False)
    assert not same_change([patch()], [patch(path="y")], context=False)


def test_what_changed_in_a_patch_is_shown_with_two_signs() -> None:
    (pair,) = compare_series([patch()], [patch(new="deux")])
    assert pair.sign is Sign.CHANGED
    assert {"-+zwei", "++deux"} <= set(pair.lines)
    assert pair.lines[0] == "@@"


def test_patches_find_each_other_by_change_then_title_then_file() -> None:
    old = [patch("a"), patch("b", path="y"), patch("c", path="z"), patch("gone", path="w")]
    new = [
        patch("c", path="z", new="drei"),
        patch("renamed"),
        patch("other", path="y", new="2"),
        patch("new", path="v"),
    ]
    pairs = compare_series(old, new)
    assert [(pair.sign, pair.old, pair.new) for pair in pairs] == [
        (Sign.CHANGED, 3, 1),
        (Sign.CHANGED, 1, 2),
        (Sign.CHANGED, 2, 3),
        (Sign.NEW, 0, 4),
        (Sign.GONE, 4, 0),
    ]
    assert "-t" not in pairs[1].lines
    assert {"-a", "+renamed"} <= set(pairs[1].lines)


def test_a_diff_without_a_title_is_known_by_its_file() -> None:
    (one,) = parse_patches(diff().encode())
    assert compare_series([one], [one])[0].title == "x"
