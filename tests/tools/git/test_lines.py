"""Lines of files: where they differ, and merges that say what git says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patchkit.tools.git.lines import Region, diff_lines, find_blob, merge_lines
from tests.support.repositories import GitRepository

BASE = b"".join(b"line %d\n" % number for number in range(40))


@pytest.fixture
def git(tmp_path: Path) -> GitRepository:
    return GitRepository(tmp_path / "repository")


@pytest.mark.parametrize(
    ("old", "new", "regions"),
    [
        (b"a\nb\nc\n", b"a\nx\nc\n", (Region(1, 1, 1, 1),)),
        (b"a\nb\n", b"x\na\nb\n", (Region(0, 0, 0, 1),)),
        (b"a\nb\n", b"a\n", (Region(1, 1, 1, 0),)),
        (b"a\n", b"a\n", ()),
        (b"", b"a\n", (Region(0, 0, 0, 1),)),
    ],
)
def test_regions_count_from_0_on_both_sides(old: bytes, new: bytes, regions: tuple[Region, ...]) -> None:
    assert diff_lines(old, new) == regions


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({3: b"ours\n"}, {30: b"theirs\n"}),
        ({3: b"ours\n"}, {3: b"theirs\n"}),
        ({3: b"same\n"}, {3: b"same\n"}),
        ({3: b"ours\n"}, {4: b"theirs\n"}),
        ({3: b""}, {5: b"line 5\nmore\n"}),
        ({3: b"ours\n", 20: b"\xff\n"}, {30: b"\xfe\n"}),
        ({39: b"line 39"}, {0: b"first\n"}),
        (dict.fromkeys(range(10), b""), {5: b"theirs\n"}),
    ],
)
def test_a_merge_is_what_git_merge_file_makes_of_it(
    git: GitRepository, tmp_path: Path, ours: dict[int, bytes], theirs: dict[int, bytes]
) -> None:
    sides = [
        b"".join(changes.get(number, line) for number, line in enumerate(BASE.splitlines(True)))
        for changes in (ours, {}, theirs)
    ]
    names = [str(tmp_path / name) for name in ("ours", "base", "theirs")]
    for name, data in zip(names, sides, strict=True):
        Path(name).write_bytes(data)
    done = subprocess.run(["git", "merge-file", "-p", *names], capture_output=True, check=False)
    assert merge_lines(git.objects, sides[1], sides[0], sides[2]) == (done.stdout if done.returncode == 0 else None)


WORDS = st.lists(st.sampled_from([b"a", b"b", b"c", b"", b"}", b"odd\r", b"\xff"]), max_size=14)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), base=WORDS, end=st.sampled_from([b"", b"\n"]))
def test_any_merge_is_what_git_merge_file_makes_of_it(
    git: GitRepository, tmp_path: Path, data: st.DataObject, base: list[bytes], end: bytes
) -> None:
    def edited() -> bytes:
        lines = list(base)
        for _ in range(data.draw(st.integers(0, 3))):
            at = data.draw(st.integers(0, len(lines)))
            lines[at : at + data.draw(st.integers(0, 2))] = data.draw(
                st.lists(st.sampled_from([b"x", b"a"]), max_size=2)
            )
        return b"\n".join(lines) + end

    sides = [edited(), b"\n".join(base) + end, edited()]
    names = [str(tmp_path / name) for name in ("ours", "base", "theirs")]
    for name, text in zip(names, sides, strict=True):
        Path(name).write_bytes(text)
    done = subprocess.run(["git", "merge-file", "-p", *names], capture_output=True, check=False)
    ours, middle, theirs = sides
    assert merge_lines(git.objects, middle, ours, theirs) == (done.stdout if done.returncode == 0 else None)


def test_contents_with_nul_bytes_are_merged_as_a_whole_or_not_at_all(git: GitRepository) -> None:
    assert merge_lines(git.objects, b"a\0\nb\nc\n", b"A\0\nb\nc\n", b"a\0\nb\nC\n") is None


def test_a_side_that_did_not_change_takes_the_other(git: GitRepository) -> None:
    assert merge_lines(git.objects, b"a\n", b"a\n", b"b\n") == b"b\n"
    assert merge_lines(git.objects, b"a\n", b"b\n", b"a\n") == b"b\n"


def test_a_blob_is_found_by_the_begin_of_its_id(git: GitRepository) -> None:
    blob = git.objects.write_blob(BASE)
    commit = git.commit({"x": "1\n"})
    assert find_blob(git.objects, blob[:9]) == blob
    assert find_blob(git.objects, commit) is None
    assert find_blob(git.objects, "0" * 12) is None
    assert find_blob(git.objects, "no id") is None
