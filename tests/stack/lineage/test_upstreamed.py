"""Whether upstream took a patch: by what its commits did to the files, however long ago; never by likeness."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchkit.stack.lineage import lineage
from patchkit.stack.lineage.lineage import Lineage
from patchkit.stack.lineage.upstreamed import Upstreamed, find_upstreamed
from patchkit.stack.outcome import Outcome
from patchkit.stack.patch import parse_patches
from patchkit.tools.git.objects import Entry
from tests.stack.upstreams import MODULE, Upstream
from tests.support.repositories import Files

READ, STRIPPED = "stream.read()", "stream.read().strip()"


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream.at(tmp_path / "upstream")


def find(upstream: Upstream, diff: bytes, at: str = "main") -> Upstreamed | None:
    return find_upstreamed(Lineage(upstream.git.objects, upstream.git.find(at)), parse_patches(diff))


def take(upstream: Upstream, message: str = "[Fix] Strip (#12)") -> tuple[bytes, str]:
    """Carry a patch, let upstream go on and take it; return the diff and the commit."""
    diff = upstream.plain(upstream.carried(READ, STRIPPED))
    upstream.edit("import os\n", "import os\nimport re\n")
    return diff, upstream.edit(READ, STRIPPED, message)


def test_the_commit_that_took_a_patch_is_found_years_later(upstream: Upstream) -> None:
    diff, took = take(upstream)
    upstream.edit(STRIPPED, "stream.read().strip().lower()", "change it again")
    upstream.edit("            return stream", "            text = stream")
    upstream.edit("def check(name):", "def check(name, strict=True):")
    assert find(upstream, diff) == Upstreamed(took, "[Fix] Strip (#12)", "change")
    attempt = upstream.climb(diff)
    assert (attempt.outcome, attempt.method, attempt.detail) == (
        Outcome.ALREADY_UPSTREAM,
        "history",
        f"by {took[:12]} [Fix] Strip (#12)",
    )
    assert attempt.tree == upstream.git.tree_of(upstream.git.head())


def test_before_that_commit_it_is_not_upstream(upstream: Upstream) -> None:
    diff, took = take(upstream)
    assert find(upstream, diff, f"{took}^") is None


def test_it_is_found_also_when_the_file_is_gone(upstream: Upstream) -> None:
    diff, took = take(upstream)
    upstream.git.commit({"x.py": None})
    found = find(upstream, diff)
    assert found is not None
    assert found.commit == took
    assert upstream.climb(diff).outcome is Outcome.ALREADY_UPSTREAM


def test_a_patch_that_was_taken_back_is_not_upstream_until_it_is_taken_again(upstream: Upstream) -> None:
    diff, _ = take(upstream)
    upstream.edit(STRIPPED, READ, "Revert")
    assert find(upstream, diff) is None
    again = upstream.edit(READ, STRIPPED, "again")
    found = find(upstream, diff)
    assert found is not None
    assert found.commit == again


def test_who_put_right_what_others_had_changed_is_not_who_took_it(upstream: Upstream) -> None:
    diff, took = take(upstream)
    for other in ("stream.read().strip().lower()", "stream.read().strip().upper()"):
        upstream.edit(STRIPPED, other, "change the line that it brought")
        upstream.edit(other, STRIPPED, "change it back")
    found = find(upstream, diff)
    assert found is not None
    assert (found.commit, found.how) == (took, "change")


def test_a_patch_of_which_a_part_was_taken_is_not_upstream(upstream: Upstream) -> None:
    upstream.git.commit({"y.py": "y = 1\n"})
    carried = upstream.patch({"x.py": upstream.text().replace(READ, STRIPPED), "y.py": "y = 2\n"})
    diff = upstream.diff(carried)
    first = upstream.edit(READ, STRIPPED)
    assert find(upstream, diff) is None
    second = upstream.edit("y = 1", "y = 2", path="y.py")
    assert find(upstream, diff, first) is None
    found = find(upstream, diff)
    assert found is not None
    assert found.commit == second


def test_likeness_is_not_enough(upstream: Upstream) -> None:
    diff, _ = upstream.plain(upstream.carried(READ, STRIPPED)), upstream.edit(READ, "stream.read().rstrip()", "carried")
    assert find(upstream, diff) is None
    other = upstream.carried("    return name.isidentifier()", "    return stream.read().strip()")
    assert find(upstream, upstream.diff(other)) is None


def test_tests_that_upstream_wrote_otherwise_do_not_count(upstream: Upstream) -> None:
    carried = upstream.patch({"x.py": upstream.text().replace(READ, STRIPPED), "tests/test_x.py": "assert 1\n"})
    took = upstream.git.commit({"x.py": upstream.text().replace(READ, STRIPPED), "tests/test_x.py": "assert 2\n"})
    found = find(upstream, upstream.diff(carried))
    assert found is not None
    assert found.commit == took


def test_new_and_deleted_files_are_found(upstream: Upstream) -> None:
    upstream.git.commit({"old.py": "x = 1\n"})
    carried = upstream.patch({"new.py": "y = 1\n", "old.py": None})
    took = upstream.git.commit({"new.py": "y = 1\n", "old.py": None})
    upstream.git.commit({"new.py": "y = 2\n"})
    found = find(upstream, upstream.diff(carried))
    assert found is not None
    assert found.commit == took


@pytest.mark.parametrize(
    ("title", "how"), [("Strip what is read (#12)", "pull request"), ("[fix] strip", "title"), ("other", "change")]
)
def test_it_is_told_how_a_person_recognises_the_commit(upstream: Upstream, title: str, how: str) -> None:
    diff, _ = take(upstream)
    found = find(upstream, f"From: A <a@b>\nSubject: {title}\n\n".encode() + diff)
    assert found is not None
    assert found.how == how


def test_a_rename_is_found_years_later_with_and_without_changes(upstream: Upstream) -> None:
    upstream.git.commit({"plain.py": MODULE.replace("Loader", "Plain")})
    moved = {"x.py": None, "y.py": upstream.text().replace(READ, STRIPPED)}
    moved |= {"plain.py": None, "other.py": upstream.text(path="plain.py")}
    diff = upstream.diff(upstream.patch(moved), "-M")
    only = upstream.diff(upstream.patch({"plain.py": None, "other.py": moved["other.py"]}, "only"), "-M")
    assert diff.count(b"rename from") == 2
    assert b"@@" not in only
    assert (find(upstream, diff), find(upstream, only)) == (None, None)
    took = upstream.git.commit(moved, "[Fix] Move (#4)")
    upstream.edit(STRIPPED, "stream.read().strip().lower()", path="y.py")
    upstream.git.commit({"other.py": "changed\n"})
    assert upstream.climb(diff).detail == f"by {took[:12]} [Fix] Move (#4)"
    found = find(upstream, only)
    assert found is not None
    assert found.commit == took


def test_a_file_that_was_written_anew_under_the_new_name_is_no_rename(upstream: Upstream) -> None:
    diff = upstream.diff(upstream.patch({"x.py": None, "y.py": upstream.text()}), "-M")
    upstream.git.commit({"x.py": None, "y.py": "quite = 'another'\n"})
    assert find(upstream, diff) is None


def test_a_copy_beside_the_old_name_is_no_rename(upstream: Upstream) -> None:
    diff = upstream.diff(upstream.patch({"x.py": None, "y.py": upstream.text()}), "-M")
    upstream.git.commit({"y.py": upstream.text()})
    assert find(upstream, diff) is None


def test_a_rename_that_was_taken_back_is_not_upstream(upstream: Upstream) -> None:
    text = upstream.text()
    diff = upstream.diff(upstream.patch({"x.py": None, "y.py": text}), "-M")
    took = upstream.git.commit({"x.py": None, "y.py": text})
    upstream.git.commit({"x.py": "another file\n"}, "the old name serves something else")
    found = find(upstream, diff)
    assert found is not None
    assert found.commit == took
    upstream.git.commit({"x.py": None})
    upstream.git.commit({"x.py": text, "y.py": None}, "Revert")
    assert find(upstream, diff) is None


def executable(upstream: Upstream) -> Entry:
    return Entry(0o100755, upstream.git.objects.write_blob(b"run\n"))


def test_empty_files_binary_changes_and_modes_hide_nothing(upstream: Upstream) -> None:
    upstream.git.commit({"logo.png": b"\x89PNG\0old", "tool.sh": "run\n"})
    files: Files = {
        "x.py": upstream.text().replace(READ, STRIPPED),
        "package/__init__.py": "",
        "logo.png": b"\x89PNG\0new",
        "tool.sh": executable(upstream),
    }
    diff = upstream.diff(upstream.patch(files), "--binary", "--full-index")
    took = upstream.git.commit(files, "take all")
    upstream.edit(STRIPPED, "stream.read().strip().lower()")
    upstream.git.commit({"package/__init__.py": "import os\n", "logo.png": b"\x89PNG\0newer"})
    found = find(upstream, diff)
    assert found is not None
    assert found.commit == took


def test_a_change_without_its_binary_or_mode_is_not_the_whole_patch(upstream: Upstream) -> None:
    upstream.git.commit({"logo.png": b"\x89PNG\0old", "tool.sh": "run\n"})
    text = upstream.text().replace(READ, STRIPPED)
    picture = upstream.diff(upstream.patch({"x.py": text, "logo.png": b"\0new"}, "a"), "--binary", "--full-index")
    mode = upstream.diff(upstream.patch({"x.py": text, "tool.sh": executable(upstream)}, "b"))
    upstream.git.commit({"x.py": text, "logo.png": b"\0third"})
    assert (find(upstream, picture), find(upstream, mode)) == (None, None)


def test_what_upstream_took_whole_and_changed_again_is_not_applied_in_part(upstream: Upstream) -> None:
    two = upstream.text().replace(READ, STRIPPED).replace("name.isidentifier()", "bool(name.isidentifier())")
    diff = upstream.diff(upstream.patch({"x.py": two}), "-U1")
    took = upstream.git.commit({"x.py": two}, "take both")
    upstream.edit("bool(name.isidentifier())", "name.isidentifier()", "one of them is not needed")
    attempt = upstream.climb(diff)
    assert (attempt.outcome, attempt.detail) == (Outcome.ALREADY_UPSTREAM, f"by {took[:12]} take both")
    assert attempt.tree == upstream.git.tree_of(upstream.git.head())


def test_history_before_the_newest_commits_is_read_when_it_is_asked_for(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    diff, took = take(upstream)
    for number in range(6):
        upstream.git.commit({"other": f"{number}\n"})
        upstream.edit("import re\n", f"import re\nimport m{number}\n")
    whole = Lineage(upstream.git.objects, upstream.git.find("main"))
    (path,) = (file.path for patch in parse_patches(diff) for file in patch.files)
    for commits in (1, 2, 5, 11, 12, 13, 14, 15, 100):
        monkeypatch.setattr(lineage, "RECENT", commits)
        some = Lineage(upstream.git.objects, whole.commit)
        assert tuple(some.recent(path)) == whole.log(path)
        assert [change.commit for change in Lineage(upstream.git.objects, whole.commit).recent(path, 1 << 40)] == [
            change.commit for change in some.newest[path]
        ]
        found = find(upstream, diff)
        assert found is not None
        assert found.commit == took
