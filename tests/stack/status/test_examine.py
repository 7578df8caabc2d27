"""How each patch and hunk stands on a commit, and which commit made it so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from patchkit.recipe.model import ChangePatch
from patchkit.stack.lineage.breaker import Touch
from patchkit.stack.outcome import Outcome
from patchkit.stack.series import StackPatch
from patchkit.stack.status.examine import examine_series
from patchkit.stack.status.hunks import first_release
from patchkit.stack.status.model import HunkAnswer, PatchStatus
from tests.stack.bench import GivenFacts, RepositorySource
from tests.stack.upstreams import Upstream

READ, STRIPPED = "            return stream.read()\n", "            return stream.read().strip()\n"


@dataclass
class Desk:
    upstream: Upstream
    folder: Path

    def status(self, diff: bytes, at: str = "main", **options: object) -> PatchStatus:
        (self.folder / "p.patch").write_bytes(diff)
        change = ChangePatch.model_validate({"patch": "p.patch"})
        patch = StackPatch("p", self.folder, (change,), "sha", **options)  # type: ignore[arg-type]
        source = RepositorySource(self.upstream.git)
        (status,) = examine_series(
            source, source.tree(source.resolve(at)), (patch,), GivenFacts({"vllm": "0.9"})
        ).patches
        return status


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(Upstream.at(tmp_path / "upstream"), tmp_path)


def answers(status: PatchStatus) -> list[tuple[str, int, HunkAnswer]]:
    return [(hunk.path, hunk.number, hunk.answer) for hunk in status.hunks]


def test_a_patch_that_applies_is_told_with_its_offset(desk: Desk) -> None:
    diff = desk.upstream.diff(desk.upstream.carried(READ, STRIPPED))
    assert answers(desk.status(diff)) == [("x.py", 1, HunkAnswer.APPLIES)]
    desk.upstream.edit("import os\n", "import os\nimport re\n")
    status = desk.status(diff)
    assert (status.outcome, answers(status), status.hunks[0].offset) == (
        Outcome.OFFSET,
        [("x.py", 1, HunkAnswer.OFFSET)],
        1,
    )


def test_what_upstream_took_is_told_by_commit_and_first_release(desk: Desk) -> None:
    upstream = desk.upstream
    diff = upstream.diff(upstream.carried(READ, STRIPPED))
    upstream.git.tag("v1.0")
    took = upstream.edit(READ, STRIPPED, "Strip (#3)")
    status = desk.status(diff)
    assert (status.outcome, status.hunks[0].by) == (Outcome.ALREADY_UPSTREAM, Touch(took, "Strip (#3)"))
    assert status.upstreamed is not None
    assert (status.upstreamed.by.commit, status.upstreamed.release) == (took, "")
    upstream.git.tag("v1.1rc1")
    upstream.git.tag("v1.1", upstream.edit("import os\n", "import os\nimport re\n"))
    upstream.git.tag("v1.2", upstream.edit(STRIPPED, "            return stream.read().strip().lower()\n"))
    status = desk.status(diff)
    assert (status.outcome, status.method) == (Outcome.ALREADY_UPSTREAM, "history")
    assert status.upstreamed is not None
    assert status.upstreamed.release == "v1.1"
    (hunk,) = status.hunks
    assert (hunk.answer, hunk.by, hunk.release) == (HunkAnswer.UPSTREAM, Touch(took, "Strip (#3)"), "v1.1")
    assert status.conflicts == ()
    assert first_release(upstream.git.objects, upstream.git.head()) == "v1.2"


def test_a_part_that_upstream_took_is_told_hunk_by_hunk(desk: Desk) -> None:
    upstream = desk.upstream
    upstream.git.commit({"y.py": "y = 1\n"})
    text = upstream.text().replace(READ, STRIPPED)
    diff = upstream.diff(upstream.patch({"x.py": text, "y.py": "y = 2\n"}))
    took = upstream.edit(READ, STRIPPED)
    status = desk.status(diff)
    assert (status.outcome, status.upstreamed) == (Outcome.PARTLY_UPSTREAMED, None)
    assert answers(status) == [("x.py", 1, HunkAnswer.UPSTREAM), ("y.py", 1, HunkAnswer.APPLIES)]
    assert status.partly == (Touch(took, "change"),)
    upstream.edit(STRIPPED, "            return stream.read().strip().lower()\n")
    later = desk.status(diff)
    assert (later.outcome, later.partly) == (Outcome.CONFLICT, (Touch(took, "change"),))


def test_lines_that_a_commit_changed_are_superseded_by_it(desk: Desk) -> None:
    upstream = desk.upstream
    diff = upstream.diff(upstream.carried(READ, STRIPPED))
    upstream.edit("import os\n", "import os\nimport re\n")
    by = upstream.edit(READ, "            return stream.read().rstrip()\n", "strip the end")
    upstream.edit("rstrip()", "rstrip().lower()", "and more")
    status = desk.status(diff)
    assert (status.outcome, answers(status)) == (Outcome.CONFLICT, [("x.py", 1, HunkAnswer.SUPERSEDED)])
    assert status.superseded_by == (Touch(by, "strip the end"),)
    (record,) = status.conflicts
    assert (record.path, record.hunk, record.function) == ("x.py", 1, "Loader.load")
    assert [touch.subject for touch in record.commits] == ["strip the end", "and more"]
    assert READ in record.base
    assert STRIPPED in record.theirs
    assert "rstrip().lower()" in record.ours


def test_a_hunk_that_would_land_without_the_others_is_no_conflict(desk: Desk) -> None:
    upstream = desk.upstream
    last = "    return name.isidentifier()"
    text = upstream.text().replace(READ, STRIPPED).replace(last, "    return bool(name)")
    diff = upstream.diff(upstream.patch({"x.py": text}))
    upstream.edit("    if not name:", "    if name is None:", "in the context of the second hunk")
    by = upstream.edit(READ, "            return stream.read().rstrip()\n", "strip the end")
    status = desk.status(diff)
    assert status.outcome is Outcome.CONFLICT
    assert answers(status) == [("x.py", 1, HunkAnswer.SUPERSEDED), ("x.py", 2, HunkAnswer.MERGED)]
    assert status.superseded_by == (Touch(by, "strip the end"),)
    assert [record.hunk for record in status.conflicts] == [1]


def test_a_tree_before_the_lines_came_is_too_old(desk: Desk) -> None:
    upstream = desk.upstream
    old = upstream.git.head()
    came = upstream.edit(READ, "            text = stream.read()\n            return text\n", "a name for it")
    status = desk.status(upstream.diff(upstream.carried("return text", "return text.strip()")), old)
    assert answers(status) == [("x.py", 1, HunkAnswer.TOO_OLD)]
    assert status.hunks[0].by == Touch(came, "a name for it")


def test_a_file_that_is_gone_is_told_with_where_it_went(desk: Desk) -> None:
    upstream = desk.upstream
    upstream.git.commit({"y.py": "y = 1\n"})
    diffs = [
        upstream.diff(upstream.carried(READ, STRIPPED)),
        upstream.diff(upstream.patch({"y.py": "y = 2\n"}, "other")),
    ]
    moved = upstream.git.commit({"x.py": None, "folder/x.py": upstream.text()}, "move")
    deleted = upstream.git.commit({"y.py": None}, "delete")
    renamed, gone = (desk.status(diff) for diff in diffs)
    assert (renamed.outcome, renamed.hunks[0].answer) == (Outcome.TARGET_GONE, HunkAnswer.TARGET_GONE)
    assert (renamed.hunks[0].by, renamed.hunks[0].detail) == (Touch(moved, "move"), "renamed to folder/x.py")
    assert (gone.hunks[0].by, gone.hunks[0].detail) == (Touch(deleted, "delete"), "deleted")


def test_a_file_that_comes_later_makes_the_tree_too_old(desk: Desk) -> None:
    old = desk.upstream.git.head()
    came = desk.upstream.git.commit({"new.py": "n = 1\n"}, "a new file")
    status = desk.status(desk.upstream.diff(desk.upstream.patch({"new.py": "n = 2\n"})), old)
    assert (status.hunks[0].answer, status.hunks[0].by) == (HunkAnswer.TOO_OLD, Touch(came, "a new file"))


def test_where_only_tests_fail_their_folder_is_offered_for_exclude(desk: Desk) -> None:
    upstream = desk.upstream
    upstream.git.commit({"tests/test_x.py": "t = 1\n"})
    text = upstream.text().replace(READ, STRIPPED)
    diff = upstream.diff(upstream.patch({"x.py": text, "tests/test_x.py": "t = 2\n"}))
    upstream.git.commit({"tests/test_x.py": "t = 3\n"})
    status = desk.status(diff)
    assert (status.outcome, status.exclude) == (Outcome.TEST_ONLY, ("tests/**",))


def test_a_condition_that_does_not_hold_is_told_with_its_reason(desk: Desk) -> None:
    status = desk.status(desk.upstream.diff(desk.upstream.carried(READ, STRIPPED)), when=("vllm >= 1.0",))
    assert (status.outcome, status.hunks) == (Outcome.NOT_APPLICABLE, ())
    assert "0.9" in status.detail


def test_a_merge_that_needs_a_look_names_the_commit_beside_it(desk: Desk) -> None:
    upstream = desk.upstream
    diff = upstream.plain(upstream.carried(READ, READ + "            # not reached\n"))
    by = upstream.edit("            return None\n", "            return ''\n", "beside it")
    status = desk.status(diff)
    assert (status.outcome, status.superseded_by) == (Outcome.REVIEW, (Touch(by, "beside it"),))


def test_releases_without_history_tell_what_the_tree_tells(desk: Desk) -> None:
    diff = desk.upstream.diff(desk.upstream.carried(READ, STRIPPED))
    desk.upstream.edit(READ, "            return 1\n")
    (desk.folder / "p.patch").write_bytes(diff)
    patch = StackPatch("p", desk.folder, (ChangePatch.model_validate({"patch": "p.patch"}),), "sha")
    source = RepositorySource(desk.upstream.git, kind="package")
    status = examine_series(source, source.tree(source.resolve("main")), (patch,), GivenFacts()).patches[0]
    assert (status.outcome, status.hunks[0].answer, status.hunks[0].by) == (
        Outcome.CONFLICT,
        HunkAnswer.CONFLICT,
        None,
    )
