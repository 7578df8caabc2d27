"""Random edits of random files: what our engine makes of a diff, held against the edit itself and against git."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from patchkit.stack.outcome import Outcome
from patchkit.stack.patch import parse_patches
from patchkit.stack.patch.lines import split_lines
from tests.stack.bench import Desk
from tests.stack.realgit import RealGit

FEW_WORDS = st.sampled_from([b"a", b"b", b"c", b"", b"    return x", b"\ttab \xff", b"-- d", b"+++ e", b"odd\r"])
NAMES = st.sampled_from(["x", "v/y", "v/a b", "nä", 'q"\n'])
FEW = st.lists(FEW_WORDS, max_size=25)
MODERATE = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
WITH_PROCESS = settings(MODERATE, max_examples=90)


@st.composite
def edits(draw: st.DrawFn, base: list[bytes]) -> list[bytes]:
    """Return a file with some of its lines replaced, dropped and doubled."""
    edited = []
    for line in base:
        kind = draw(st.integers(0, 9))
        if kind == 0:
            edited.append(draw(FEW_WORDS))
        elif kind == 1:
            edited += [line, draw(FEW_WORDS)]
        elif kind != 2:
            edited.append(line)
    return edited + draw(st.lists(FEW_WORDS, max_size=2))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """Return a file before and after an edit, each with or without a newline at its end."""
    base = draw(FEW)
    return tuple(b"\n".join(one) + draw(st.sampled_from([b"", b"\n"])) for one in (base, draw(edits(base))))  # type: ignore[return-value]


def unified(before: bytes, after: bytes, name: str = "x") -> bytes:
    """Return the unified diff that Python's difflib makes, with git's marks for a missing newline."""
    return b"".join(_unified(split_lines(before), split_lines(after), name.encode()))


def _unified(before: list[bytes], after: list[bytes], name: bytes) -> Iterator[bytes]:
    for line in difflib.diff_bytes(difflib.unified_diff, before, after, b"a/" + name, b"b/" + name):
        yield line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n"


@pytest.fixture(scope="module")
def one_desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return Desk.at(tmp_path_factory.mktemp("desk") / "repository")


@pytest.fixture(scope="module")
def one_git(tmp_path_factory: pytest.TempPathFactory, one_desk: Desk) -> RealGit:
    return RealGit(tmp_path_factory.mktemp("real-git"), one_desk)


@MODERATE
@given(pair=pairs())
@example(pair=(b"a\na\na\na", b"a\na\na"))
@example(pair=(b"", b"a"))
@example(pair=(b"a", b""))
def test_a_diff_makes_the_edit_and_its_reverse_takes_it_back(one_desk: Desk, pair: tuple[bytes, bytes]) -> None:
    before, after = pair
    if not (diff := unified(before, after)):
        return
    attempt, files = one_desk.apply({"x": before}, diff)
    assert (attempt.outcome, files) == (Outcome.CLEAN, {"x": after})
    back = one_desk.apply_patches(attempt.tree, [patch.reverse() for patch in parse_patches(diff)])
    assert (back.outcome, one_desk.files(back.tree)) == (Outcome.CLEAN, {"x": before})


@MODERATE
@given(data=st.data())
def test_on_a_file_that_has_moved_a_diff_makes_the_edit_or_nothing(one_desk: Desk, data: st.DataObject) -> None:
    before = [b"line %d" % number for number in range(data.draw(st.integers(1, 25)))]
    after = data.draw(edits(before))
    ahead, behind = ([b"%s %d" % (name, n) for n in range(data.draw(st.integers(0, 9)))] for name in (b"new", b"more"))
    every = (before, after, ahead + before + behind, ahead + after + behind)
    old, new, moved, wanted = (b"".join(line + b"\n" for line in one) for one in every)
    if not (diff := unified(old, new)):
        return
    attempt, files = one_desk.apply({"x": moved}, diff)
    if attempt.outcome.stands:
        assert attempt.outcome is (Outcome.OFFSET if ahead else Outcome.CLEAN)
        assert files == {"x": wanted}
    else:  # a hunk at the begin or the end of the file belongs there
        assert attempt.outcome is Outcome.CONFLICT
        assert files == {"x": moved}


@WITH_PROCESS
@given(data=st.data())
def test_where_git_apply_and_we_both_succeed_the_bytes_are_equal(
    one_desk: Desk, one_git: RealGit, data: st.DataObject
) -> None:
    before, after = data.draw(pairs())
    drifted = split_lines(before)
    if data.draw(st.booleans()):
        drifted = [line if line.endswith(b"\n") else line + b"\n" for line in data.draw(edits(drifted))]
    target = b"".join(drifted)
    if not (diff := unified(before, after)):
        return
    theirs = one_git.apply({"x": target}, diff)
    attempt, ours = one_desk.apply({"x": target}, diff)
    if attempt.outcome is Outcome.CLEAN:
        assert theirs == ours
    if attempt.outcome is Outcome.OFFSET and theirs is not None:
        assert theirs == ours


@WITH_PROCESS
@given(before=st.dictionaries(NAMES, st.binary(max_size=40), max_size=3), data=st.data())
def test_a_diff_of_git_over_several_files_gives_what_git_gives(
    one_desk: Desk, one_git: RealGit, before: dict[str, bytes], data: st.DataObject
) -> None:
    """New, deleted, renamed, empty and binary files, quoted names, files without a newline at their end."""
    after = {name: text for name, text in before.items() if data.draw(st.booleans())}
    after |= data.draw(st.dictionaries(st.sampled_from(["x", "new", "v/w"]), st.binary(max_size=40), max_size=2))
    if data.draw(st.booleans()) and before:
        after["v/moved"] = next(iter(before.values())) + data.draw(st.sampled_from([b"", b"\nmore\n"]))
    diff = one_git.diff(before, after, "-M30%")
    if not diff:
        return
    attempt, files = one_desk.apply(before, diff)
    assert (attempt.outcome, files) == (Outcome.CLEAN, after), attempt.detail
    back = one_desk.apply_patches(attempt.tree, [patch.reverse() for patch in reversed(parse_patches(diff))])
    assert one_desk.files(back.tree) == before, back.detail


@MODERATE
@given(junk=st.binary(max_size=200), pair=pairs(), data=st.data())
def test_a_damaged_patch_file_is_refused_or_read_and_never_a_crash(
    one_desk: Desk, junk: bytes, pair: tuple[bytes, bytes], data: st.DataObject
) -> None:
    diff = unified(*pair)
    at = data.draw(st.integers(0, len(diff)))
    damaged = diff[:at] + junk + diff[at + data.draw(st.integers(0, 20)) :]
    try:
        patches = parse_patches(damaged)
    except ValueError:
        return
    assert one_desk.apply_patches(one_desk.tree({"x": pair[0]}), patches).outcome in set(Outcome)
