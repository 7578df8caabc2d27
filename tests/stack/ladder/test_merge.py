"""The second rung: a diff whose context has changed, merged with the content that it was made for."""

from __future__ import annotations

from pathlib import Path

import pytest

from patchkit.stack.outcome import Outcome
from tests.stack.upstreams import MODULE, Upstream

READ = "            return stream.read()\n"
STRIPPED = "            return stream.read().strip()\n"
WITH = "        with open(path) as stream:\n" + READ


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream.at(tmp_path / "upstream")


def moved_on(upstream: Upstream) -> tuple[str, str]:
    """Carry a patch, then change the context that it has: a line two away from the one it changes."""
    carried = upstream.carried(READ, STRIPPED)
    upstream.edit("            return None\n", "            return ''\n")
    return carried, upstream.text().replace(READ, STRIPPED)


@pytest.mark.parametrize("history", [True, False])
def test_a_diff_with_changed_context_is_merged_with_the_blob_it_names(upstream: Upstream, history: bool) -> None:
    carried, wanted = moved_on(upstream)
    attempt = upstream.climb(upstream.diff(carried), history=history)
    assert (attempt.outcome, attempt.method, attempt.detail) == (Outcome.MERGED, "merge", "x.py: three-way merge")
    assert upstream.result(attempt) == wanted


def test_a_diff_that_names_no_blob_is_merged_with_what_it_fits_in_history_for_review(upstream: Upstream) -> None:
    diff = upstream.plain(
        upstream.carried(READ, READ + "            # not reached\n")
    )  # beside a blank line: no anchor
    upstream.edit("            return None\n", "            return ''\n")
    attempt = upstream.climb(diff)
    assert (attempt.outcome, attempt.tree) == (Outcome.REVIEW, upstream.git.tree_of(upstream.git.head()))
    assert "does not name the content that it was made for" in attempt.detail


def test_a_patch_for_a_newer_commit_is_merged_with_what_the_tip_knows(upstream: Upstream) -> None:
    old = upstream.git.head()
    upstream.edit("            return None\n", "            return ''\n")
    diff = upstream.plain(upstream.carried(READ, READ + "            # not reached\n"))
    assert upstream.climb(diff, old, tip="main").outcome is Outcome.REVIEW
    assert upstream.climb(diff, old).outcome is Outcome.CONFLICT


def test_where_only_tests_fail_nothing_is_merged(upstream: Upstream) -> None:
    upstream.git.commit({"tests/test_x.py": MODULE})
    text = upstream.text().replace(READ, STRIPPED)
    carried = upstream.patch({"x.py": text, "tests/test_x.py": text})
    upstream.edit("            return None\n", "            return ''\n", path="tests/test_x.py")
    assert upstream.climb(upstream.diff(carried)).outcome is Outcome.TEST_ONLY


def test_both_sides_on_one_line_is_a_conflict_and_leaves_the_tree(upstream: Upstream) -> None:
    carried = upstream.carried(READ, STRIPPED)
    upstream.edit(READ, "            return stream.read().rstrip()\n")
    attempt = upstream.climb(upstream.diff(carried))
    assert (attempt.outcome, attempt.method) == (Outcome.CONFLICT, "exact")
    assert attempt.tree == upstream.git.tree_of(upstream.git.head())


def test_a_mailbox_is_merged_patch_by_patch(upstream: Upstream) -> None:
    first = upstream.carried(READ, STRIPPED)
    second = upstream.git.commit(
        {"x.py": upstream.text("work").replace("strip()", "strip().lower()")}, "second", branch="work"
    )
    upstream.edit("            return None\n", "            return ''\n")
    diffs = [upstream.diff(first), upstream.plain(second)]
    mails = [b"From 0 Mon Sep 17 00:00:00 2001\nFrom: A <a@b>\nSubject: s\n\n---\n" + diff for diff in diffs]
    attempt = upstream.climb(b"".join(mails))
    assert attempt.outcome is Outcome.MERGED
    assert upstream.result(attempt) == upstream.text().replace("stream.read()", "stream.read().strip().lower()")


def test_a_merge_into_another_definition_is_for_review(upstream: Upstream) -> None:
    carried = upstream.carried(READ, STRIPPED)
    upstream.git.commit(
        {"x.py": upstream.text().replace("def load(self, name):", "def fetch(self, name):").replace("None", "''")}
    )
    attempt = upstream.climb(upstream.diff(carried))
    assert (attempt.outcome, attempt.tree) == (Outcome.REVIEW, upstream.git.tree_of(upstream.git.head()))
    assert attempt.detail == (
        "x.py: merged, but changes Loader.fetch, which the patch does not (it changes Loader.load)"
    )


def test_a_renamed_file_is_merged_under_its_new_name(upstream: Upstream) -> None:
    carried = upstream.patch({"x.py": None, "y.py": upstream.text().replace(READ, STRIPPED)})
    upstream.edit("            return None\n", "            return ''\n")
    attempt = upstream.climb(upstream.diff(carried, "-M"))
    assert attempt.outcome is Outcome.MERGED
    assert upstream.result(attempt, "y.py") == upstream.text().replace(READ, STRIPPED)
    assert upstream.git.objects.entry(attempt.tree, "x.py") is None


def test_the_mode_of_the_tree_stays(upstream: Upstream) -> None:
    carried = upstream.carried(READ, STRIPPED)
    text = upstream.text().replace("return None", "return ''")
    upstream.git.commit({"x.py": upstream.git.executable(text)})
    attempt = upstream.climb(upstream.diff(carried))
    entry = upstream.git.objects.entry(attempt.tree, "x.py")
    assert entry is not None
    assert (attempt.outcome, entry.mode) == (Outcome.MERGED, 0o100755)
