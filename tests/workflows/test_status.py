"""The workflow of `status`: refs, ranges, first conflicts; a recipe or a loose diff."""

from __future__ import annotations

from collections.abc import Callable
from difflib import unified_diff
from pathlib import Path

import pytest

from patchkit.errors import RequestError
from patchkit.report.status.json import refs_document
from patchkit.report.status.text import status_text
from patchkit.stack.outcome import Outcome
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.status import StatusReport, StatusRequest, tell_status
from tests.support.repositories import GitRepository

TEXT = "".join(f"line {number}\n" for number in range(1, 21))
DIFF = "--- a/x\n+++ b/x\n@@ -9,3 +9,3 @@\n line 9\n-line 10\n+zehn\n line 11\n"


@pytest.fixture
def upstream(tmp_path: Path) -> GitRepository:
    return GitRepository(tmp_path / "upstream")


@pytest.fixture
def status(toolkit: Toolkit, upstream: GitRepository, tmp_path: Path) -> Callable[..., StatusReport]:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        f'format: 1\nname: r\nupstream: {{vllm: {{git: "{upstream.url}", ref: v1}}}}\nseries: [{{file: x.patch}}]\n'
    )
    recipe.with_name("x.patch").write_text(DIFF)

    def tell(path: Path = recipe, **options: object) -> StatusReport:
        return tell_status(toolkit, StatusRequest(path, **options))  # type: ignore[arg-type]

    return tell


def history(upstream: GitRepository) -> list[str]:
    """Build: x is made (v1), other files, x changes far away, the lines change, other files (main)."""
    commits = [upstream.commit({"other": "0\n"}), upstream.commit({"x": TEXT}, "make x")]
    upstream.tag("v1")
    commits += [upstream.commit({"other": f"{number}\n"}) for number in range(1, 4)]
    commits.append(upstream.commit({"x": "line 0\n" + TEXT}, "far away"))
    commits.append(upstream.commit({"x": "line 0\n" + TEXT.replace("line 10\n", "dix\n")}, "ten in French"))
    commits += [upstream.commit({"other": f"{number}\n"}) for number in range(4, 7)]
    return commits


def test_the_recipes_own_commit_is_looked_at_unless_others_are_named(
    upstream: GitRepository, status: Callable[..., StatusReport]
) -> None:
    commits = history(upstream)
    own = status()
    assert ([ref.commit.id for ref in own.refs], own.stands) == ([commits[1]], True)
    both = status(against=("v1", "main"))
    assert [ref.patches[0].outcome for ref in both.refs] == [Outcome.CLEAN, Outcome.CONFLICT]
    assert not both.stands


def test_the_first_conflict_is_found_with_few_dry_runs(
    upstream: GitRepository, status: Callable[..., StatusReport]
) -> None:
    commits = history(upstream)
    (found,) = status(against=("main",), first_conflict=True).first_conflicts
    assert found.by is not None
    assert (found.by.commit, found.by.subject, found.last_good) == (commits[6], "ten in French", commits[5])
    assert found.probes <= 6
    assert status(against=("v1",), first_conflict=True).first_conflicts == ()


def test_a_patch_that_never_stood_has_no_first_conflict(
    upstream: GitRepository, status: Callable[..., StatusReport]
) -> None:
    commits = history(upstream)
    (found,) = status(span=f"{commits[6]}..main", first_conflict=True).first_conflicts
    assert (found.by, found.last_good) == (None, "")
    assert "nothing to find" in found.detail


def test_the_first_conflict_of_a_range_that_begins_too_early_is_the_one_behind_where_it_applied(
    upstream: GitRepository, status: Callable[..., StatusReport]
) -> None:
    commits = history(upstream)
    (found,) = status(span=f"{commits[0]}..main", first_conflict=True).first_conflicts
    assert found.by is not None
    assert (found.by.commit, found.last_good) == (commits[6], commits[5])


def test_a_range_tells_from_where_to_where_a_patch_applies(
    upstream: GitRepository, status: Callable[..., StatusReport]
) -> None:
    commits = history(upstream)
    report = status(span=f"{commits[0]}..main")
    assert [ref.commit.id for ref in report.refs] == [commits[-1]]
    (window,) = report.windows
    assert [(one.outcome, one.first, one.last, one.commits) for one in window.segments] == [
        (Outcome.TARGET_GONE, commits[0], commits[0], 1),
        (Outcome.CLEAN, commits[1], commits[5], 5),
        (Outcome.CONFLICT, commits[6], commits[-1], 4),
    ]


def test_in_a_range_what_upstream_took_stays_upstream_when_it_changes_again(
    upstream: GitRepository, status: Callable[..., StatusReport]
) -> None:
    first = upstream.commit({"x": TEXT})
    upstream.tag("v1")
    took = upstream.commit({"x": TEXT.replace("line 10\n", "zehn\n")})
    last = upstream.commit({"x": TEXT.replace("line 10\n", "zehn!\n")})
    (window,) = status(span=f"{first}..{last}").windows
    assert [(one.outcome, one.first, one.last) for one in window.segments] == [
        (Outcome.CLEAN, first, first),
        (Outcome.ALREADY_UPSTREAM, took, last),
    ]


def test_in_a_range_a_part_that_would_apply_again_hides_not_that_upstream_took_all(
    upstream: GitRepository, status: Callable[..., StatusReport], tmp_path: Path
) -> None:
    text = TEXT.replace("line 10\n", "zehn\n").replace("line 20\n", "zwanzig\n")
    first = upstream.commit({"x": TEXT})
    upstream.tag("v1")
    took = upstream.commit({"x": text})
    last = upstream.commit({"x": TEXT.replace("line 10\n", "zehn\n")})
    (tmp_path / "x.patch").write_text("".join(unified_diff(TEXT.splitlines(True), text.splitlines(True), "a/x", "b/x")))
    report = status(span=f"{first}..{last}")
    assert [(one.outcome, one.first, one.last) for one in report.windows[0].segments] == [
        (Outcome.CLEAN, first, first),
        (Outcome.ALREADY_UPSTREAM, took, last),
    ]


def test_a_diff_is_looked_at_without_a_recipe(
    upstream: GitRepository, status: Callable[..., StatusReport], tmp_path: Path
) -> None:
    history(upstream)
    report = status(tmp_path / "x.patch", git=upstream.url, against=("v1", "main"))
    assert [ref.patches[0].outcome for ref in report.refs] == [Outcome.CLEAN, Outcome.CONFLICT]
    with pytest.raises(RequestError, match="says not which commit it is for"):
        status(tmp_path / "x.patch", git=upstream.url)
    with pytest.raises(RequestError, match="there is no such file"):
        status(tmp_path / "none.patch", git=upstream.url, against=("v1",))


@pytest.mark.parametrize("span", ["main", "..main", "v1..", "v1...main"])
def test_what_is_no_range_is_an_error_of_the_request(
    upstream: GitRepository, status: Callable[..., StatusReport], span: str
) -> None:
    history(upstream)
    with pytest.raises(RequestError, match="is no range"):
        status(span=span)


def test_a_window_of_a_patch_has_those_it_requires_below_it(
    upstream: GitRepository, status: Callable[..., StatusReport], tmp_path: Path
) -> None:
    commits = history(upstream)
    library = tmp_path / "patches"
    for name, requires, diff in (
        ("first", "", DIFF),
        ("second", "requires: [first]\n", DIFF.replace("line 10", "zehn").replace("+zehn", "+10")),
    ):
        (library / name).mkdir(parents=True)
        (library / name / "p.patch").write_text(diff)
        (library / name / "patch.yaml").write_text(
            f"format: 1\ntitle: t\nwhy: w\nupstream: vllm\nupstream-status: Pending\n"
            f"{requires}change: [{{patch: p.patch}}]\n"
        )
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("series: [{file: x.patch}]", "series: [first, second]"))
    windows = status(span=f"{commits[1]}..{commits[6]}").windows
    assert [[one.outcome for one in window.segments] for window in windows] == [[Outcome.CLEAN, Outcome.CONFLICT]] * 2


def test_a_patch_is_told_as_not_needed_any_more_from_the_commit_on_that_its_remove_when_names(
    upstream: GitRepository, status: Callable[..., StatusReport], tmp_path: Path
) -> None:
    commits = history(upstream)
    folder = tmp_path / "patches" / "ten"
    folder.mkdir(parents=True)
    (folder / "ten.patch").write_text(DIFF)
    condition = f"remove-when: contains({commits[6]})"
    (folder / "patch.yaml").write_text(f"format: 1\ntitle: Ten\n{condition}\nchange: [{{patch: ten.patch}}]\n")
    recipe = tmp_path / "other.yaml"
    recipe.write_text(f'format: 1\nname: r\nupstream: {{vllm: {{git: "{upstream.url}", ref: v1}}}}\nseries: [ten]\n')
    report = status(recipe, against=(commits[5], commits[6]))
    assert [ref.patches[0].removable for ref in report.refs] == ["", f"contains {commits[6]}"]
    assert f"ten is not needed any more: contains {commits[6]} (remove-when)" in status_text(report.refs[1:])
    documents = refs_document(report.refs)["patches"]
    assert [document["removable"] for document in documents] == [None, f"contains {commits[6]}"]
