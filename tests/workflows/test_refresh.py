"""The workflow of `refresh`: the same change at another place, nothing lost, all or nothing, and never twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from patchkit.errors import RequestError
from patchkit.stack.carry.compare import Sign
from patchkit.stack.outcome import Outcome
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.apply import ApplyRequest, apply_recipe
from patchkit.workflows.refresh import RefreshReport, RefreshRequest, refresh_recipe
from tests.support.repositories import GitRepository

TEXT = "".join(f"line {number}\n" for number in range(1, 31))
DIFF = "--- a/x\n+++ b/x\n@@ -9,3 +9,3 @@\n line 9\n-line 10\n+zehn\n line 11\n"
MAIL = (
    "From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\n"
    "From: Ada <ada@example.org>\nDate: Tue, 14 Nov 2023 22:13:20 +0100\nSubject: [PATCH 1/2] ten\n\n"
    "In German.\n---\n x | 2 +-\n 1 file changed\n\n" + DIFF + "-- \n2.39.5\n\n"
)

Refresh = Callable[..., RefreshReport]


@pytest.fixture
def upstream(tmp_path: Path) -> GitRepository:
    upstream = GitRepository(tmp_path / "upstream")
    upstream.commit({"x": TEXT, "tests/t": TEXT, "keep": ""})
    upstream.tag("v1")
    upstream.commit({"x": "new\n" * 5 + TEXT}, "five lines above")
    upstream.tag("v2")
    return upstream


@pytest.fixture
def folder(upstream: GitRepository, tmp_path: Path) -> Path:
    write(tmp_path, upstream, "{file: x.patch}", {"x.patch": MAIL})
    return tmp_path


def write(folder: Path, upstream: GitRepository, series: str, files: dict[str, str | bytes]) -> None:
    (folder / "recipe.yaml").write_text(
        f'format: 1\nname: r\nupstream: {{vllm: {{git: "{upstream.url}", ref: v1}}}}\nseries: [{series}]\n'
    )
    for name, text in files.items():
        (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)


@pytest.fixture
def refresh(toolkit: Toolkit, folder: Path) -> Refresh:
    def call(*patches: str, **options: object) -> RefreshReport:
        return refresh_recipe(toolkit, RefreshRequest(folder / "recipe.yaml", patches, **options))  # type: ignore[arg-type]

    return call


def tree(toolkit: Toolkit, folder: Path, at: str) -> str:
    patched = apply_recipe(toolkit, ApplyRequest(folder / "recipe.yaml", at)).result.patched
    assert patched is not None
    return patched.id


def test_a_patch_that_moved_is_written_where_it_is_now(refresh: Refresh, folder: Path, toolkit: Toolkit) -> None:
    before = tree(toolkit, folder, "v2")
    report = refresh(at="v2")
    (patch,) = report.patches
    assert (patch.changed, patch.outcome, report.written) == (True, Outcome.OFFSET, (folder / "x.patch",))
    assert [pair.sign for pair in patch.pairs] == [Sign.CHANGED]  # three lines of context, where it had one
    text = (folder / "x.patch").read_text()
    assert text.startswith(MAIL[: MAIL.index("---\n") + 4] + "diff --git a/x b/x\nindex ")
    assert "\n@@ -12,7 +12,7 @@ line 6\n" in text
    assert "1 file changed" not in text
    assert "2.39.5" not in text
    assert tree(toolkit, folder, "v2") == before


def test_a_second_refresh_changes_no_byte(refresh: Refresh, folder: Path) -> None:
    refresh(at="v2")
    first, stamp = (folder / "x.patch").read_bytes(), (folder / "x.patch").stat().st_mtime_ns
    report = refresh(at="v2")
    assert (report.written, report.patches[0].changed) == ((), False)
    assert ((folder / "x.patch").read_bytes(), (folder / "x.patch").stat().st_mtime_ns) == (first, stamp)


def test_there_and_back_is_the_same_text(refresh: Refresh, folder: Path) -> None:
    refresh()
    first = (folder / "x.patch").read_bytes()
    refresh(at="v2")
    assert (folder / "x.patch").read_bytes() != first
    refresh()
    assert (folder / "x.patch").read_bytes() == first


def test_a_dry_run_tells_and_writes_nothing(refresh: Refresh, folder: Path) -> None:
    assert refresh(dry_run=True).patches[0].changed
    assert (folder / "x.patch").read_text() == MAIL


def test_a_conflict_is_refused_and_nothing_is_written(refresh: Refresh, folder: Path, upstream: GitRepository) -> None:
    other = DIFF.replace("10", "20").replace("9", "19").replace("11", "21").replace("zehn", "zwanzig")
    write(folder, upstream, "{file: x.patch}, {file: y.patch}", {"y.patch": other})
    upstream.commit({"x": TEXT.replace("line 20", "vingt")})
    report = refresh(at="main")
    assert [patch.refused != "" for patch in report.patches] == [False, True]
    assert (report.stands, report.written, report.patches[1].outcome) == (False, (), Outcome.CONFLICT)
    assert "first-conflict" in report.patches[1].refused
    assert ((folder / "x.patch").read_text(), (folder / "y.patch").read_text()) == (MAIL, other)
    assert refresh("x.patch", at="main").written == (folder / "x.patch",)


def test_a_patch_behind_one_that_does_not_stand_is_not_made_anew(
    refresh: Refresh, folder: Path, upstream: GitRepository
) -> None:
    bad = DIFF.replace("-line 10", "-line ten")
    write(folder, upstream, "{file: y.patch}, {file: x.patch}", {"y.patch": bad})
    report = refresh("x.patch")
    assert (report.blocked, report.written, report.stands) == (("y.patch",), (), False)


def test_what_exclude_keeps_out_stays_in_the_file(refresh: Refresh, folder: Path, upstream: GitRepository) -> None:
    test = DIFF.replace("/x", "/tests/t").replace("line 10", "line of old")
    write(folder, upstream, '{file: x.patch, exclude: ["tests/**"]}', {"x.patch": DIFF + test})
    assert refresh(at="v2").written
    text = (folder / "x.patch").read_text()
    assert text.index("b/tests/t") < text.index("b/x")
    assert "-line of old\n" in text
    assert refresh(at="v2").written == ()


def test_a_mailbox_is_made_anew_mail_by_mail(
    refresh: Refresh, folder: Path, upstream: GitRepository, toolkit: Toolkit
) -> None:
    second = MAIL.replace("line 10", "zehn").replace("+zehn", "+dix").replace("German", "French")
    write(folder, upstream, "{file: x.patch}", {"x.patch": MAIL + second})
    before = tree(toolkit, folder, "v2")
    assert refresh(at="v2").written
    text = (folder / "x.patch").read_text()
    assert [text.count(one) for one in ("\n-line 10\n+zehn\n", "\n-zehn\n+dix\n", "In German.", "In French.")] == [
        1
    ] * 4
    assert tree(toolkit, folder, "v2") == before
    assert refresh(at="v2").written == ()


def test_what_is_upstream_is_left_alone_and_told(refresh: Refresh, folder: Path, upstream: GitRepository) -> None:
    upstream.commit({"x": TEXT.replace("line 10\n", "zehn\n")})
    (patch,) = refresh(at="main").patches
    assert (patch.changed, patch.data, patch.refused) == (False, None, "")
    assert "nothing is left of it" in patch.detail
    assert (folder / "x.patch").read_text() == MAIL


def test_what_upstream_took_in_part_is_reduced_to_the_rest(
    refresh: Refresh, folder: Path, upstream: GitRepository
) -> None:
    second = "@@ -24,3 +24,3 @@\n line 24\n-line 25\n+fuenfundzwanzig\n line 26\n"
    write(folder, upstream, "{file: x.patch}", {"x.patch": DIFF + second})
    upstream.commit({"x": TEXT.replace("line 10\n", "zehn\n")})
    assert refresh(at="main").patches[0].outcome is Outcome.PARTLY_UPSTREAMED
    text = (folder / "x.patch").read_text()
    assert ("+zehn" in text, "+fuenfundzwanzig" in text) == (False, True)
    assert refresh(at="main").written == ()


def test_odd_strip_levels_stay(refresh: Refresh, folder: Path, upstream: GitRepository) -> None:
    text = DIFF.replace(" a/x", " /usr/lib/site-packages/x").replace(" b/x", " /usr/lib/site-packages/x")
    write(folder, upstream, "{file: x.patch, strip: 4}", {"x.patch": text})
    assert refresh(at="v2").written
    assert "--- /usr/lib/site-packages/x\n" in (folder / "x.patch").read_text()
    assert refresh(at="v2").written == ()


def test_crlf_files_and_files_without_a_last_newline(refresh: Refresh, folder: Path, upstream: GitRepository) -> None:
    upstream.commit({"x": TEXT.replace("\n", "\r\n") + "end"})
    mailed = (
        DIFF + "@@ -30,2 +30,2 @@\n line 30\n-end\n\\ No newline at end of file\n+fin\n\\ No newline at end of file\n"
    )
    write(folder, upstream, "{file: x.patch}", {"x.patch": mailed.replace("\n", "\r\n")})
    assert refresh(at="main").written
    data = (folder / "x.patch").read_bytes()
    assert b"\n+zehn\r\n" in data
    assert b"\n+fin\n\\ No newline" in data
    assert refresh(at="main").written == ()


def test_an_unknown_patch_is_an_error_of_the_request(refresh: Refresh) -> None:
    with pytest.raises(RequestError, match=r"no patch y\.patch in the series") as caught:
        refresh("y.patch")
    assert "x.patch" in caught.value.hint


def test_a_file_that_stands_twice_is_not_overwritten_with_one_of_both(
    refresh: Refresh, folder: Path, upstream: GitRepository
) -> None:
    both = '{file: x.patch, exclude: ["tests/**"]}, {file: x.patch, exclude: [x]}'
    write(folder, upstream, both, {"x.patch": DIFF + DIFF.replace("/x", "/tests/t")})
    with pytest.raises(RequestError, match="stands twice"):
        refresh(at="v2")
