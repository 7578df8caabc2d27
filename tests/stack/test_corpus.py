"""Patches as they come: what the other tests of this folder do not have, each once, through the whole of a series.

CRLF, missing newlines, modes, renames, binary, encodings, symlinks, submodules and names that leave the tree are tested
where they are decided: `ladder/test_exact.py`, `patch/`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from patchkit.recipe.model import ChangePatch
from patchkit.stack.apply import apply_series
from patchkit.stack.outcome import Outcome, PatchRecord, SeriesResult
from patchkit.stack.series import StackPatch
from tests.stack.bench import Desk, GivenFacts, RepositorySource, commit_of, lines, numbered
from tests.stack.realgit import RealGit
from tests.support.repositories import Files

EDIT = "--- a/{0}\n+++ b/{0}\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n"
TEXT, DONE = lines("one", "two", "three"), lines("one", "zwei", "three")
HEAD = "From 0123456 Mon Sep 17 00:00:00 2001\nFrom: A <a@example.org>\nSubject: [PATCH] s\n\nWhy.\n---\n"
MAIL = HEAD + "{0}-- \n2.39.5\n\n"


def patch(folder: Path, name: str, data: str | bytes) -> StackPatch:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return StackPatch(name, folder, (ChangePatch.model_validate({"patch": name}),), name)


def apply(desk: Desk, files: Files, *series: StackPatch) -> SeriesResult:
    return apply_series(RepositorySource(desk.git), commit_of(desk, desk.tree(files)), series, GivenFacts())


def one(result: SeriesResult) -> PatchRecord:
    (record,) = result.records
    return record


def files_of(desk: Desk, result: SeriesResult) -> dict[str, bytes]:
    assert result.patched is not None, result.records
    return desk.files(result.patched.id)


@pytest.mark.parametrize("data", [b"", b"\n", b"\0\0\0", b"From: A <a@example.org>\nSubject: s\n\nno diff\n"])
def test_an_empty_patch_is_broken_and_says_so(desk: Desk, tmp_path: Path, data: bytes) -> None:
    record = one(apply(desk, {"x": TEXT}, patch(tmp_path, "p.patch", data)))
    assert (record.outcome, record.detail) == (Outcome.BROKEN, "p.patch: line 1: holds no diff")


CUTS = {
    "in the header": len(MAIL.format("")) // 2,
    "in a name": MAIL.index("{0}") + 9,
    "before the hunk": MAIL.index("{0}") + EDIT.format("x").index("@@"),
    "in the hunk": MAIL.index("{0}") + EDIT.format("x").index("+zwei"),
    "in its last line": MAIL.index("{0}") + len(EDIT.format("x")) - 4,
}


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_a_mailbox_that_was_cut_off_is_broken_or_a_conflict_and_writes_nothing(
    desk: Desk, tmp_path: Path, cut: int
) -> None:
    whole, second = MAIL.format(EDIT.format("y")), MAIL.format(EDIT.format("x"))[:cut]
    result = apply(desk, {"x": TEXT, "y": TEXT}, patch(tmp_path, "p.mbox", whole + second))
    if cut == CUTS["in the header"]:  # what is left of the second mail is a cover letter, as far as anybody can tell
        assert files_of(desk, result) == {"x": TEXT.encode(), "y": DONE.encode()}
        return
    assert result.patched is None
    assert one(result).outcome in {Outcome.BROKEN, Outcome.CONFLICT}
    assert one(result).files == ()


def test_mails_that_were_glued_together_or_garbled_are_refused_with_their_line(desk: Desk, tmp_path: Path) -> None:
    glued = MAIL.format(EDIT.format("x")).replace("-- \n2.39.5\n\n", "") + EDIT.format("y").replace(" three", "three")
    record = one(apply(desk, {"x": TEXT, "y": TEXT}, patch(tmp_path, "p.mbox", glued)))
    assert (record.outcome, record.detail) == (
        Outcome.BROKEN,
        f"p.mbox: line {glued.count(chr(10))}: the hunk has fewer lines than its header says",
    )


def test_two_patches_with_one_name_are_two_patches(desk: Desk, tmp_path: Path) -> None:
    first = patch(tmp_path / "a", "fix.patch", EDIT.format("x"))
    second = patch(tmp_path / "b", "fix.patch", EDIT.format("y"))
    result = apply(desk, {"x": TEXT, "y": TEXT}, first, second)
    assert [(record.patch, record.files) for record in result.records] == [("fix.patch", ("x",)), ("fix.patch", ("y",))]
    assert files_of(desk, result) == {"x": DONE.encode(), "y": DONE.encode()}
    again = apply(desk, {"x": TEXT, "y": TEXT}, first, first)
    assert [record.outcome for record in again.records] == [Outcome.CLEAN, Outcome.ALREADY_UPSTREAM]


def test_a_diff_of_800_kilobytes_over_124_files_gives_what_git_gives(
    desk: Desk, real_git: RealGit, tmp_path: Path
) -> None:
    def text(number: int, word: str) -> bytes:
        changed = {line: f"{word} of line {line} in file {number}, and a good deal more\n" for line in range(2, 402, 8)}
        return numbered(410, changed).encode()

    before = {f"v/d{number % 7}/f{number}.txt": text(number, "the old text") for number in range(124)}
    after = {path: text(number, "what it says now") for number, path in enumerate(before)}
    diff = real_git.diff(before, after)
    assert len(diff) > 800_000
    result = apply(desk, before, patch(tmp_path, "large.patch", diff))
    assert one(result).outcome is Outcome.CLEAN
    assert files_of(desk, result) == after == real_git.apply(before, diff)


@pytest.mark.parametrize("setting", ["true", "input"])
def test_autocrlf_and_attributes_change_no_byte(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    config = tmp_path / ".gitconfig"
    config.write_text(f"[core]\n\tautocrlf = {setting}\n\teol = crlf\n\tsafecrlf = true\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    with (desk.git.path / "config").open("a", encoding="utf-8") as file:
        file.write(f"[core]\n\tautocrlf = {setting}\n")
    (desk.git.path / "info").mkdir(exist_ok=True)
    (desk.git.path / "info" / "attributes").write_text("* text=auto eol=crlf\n")
    unix, windows = TEXT.encode(), TEXT.replace("\n", "\r\n").encode()
    files: Files = {"unix": unix, "windows": windows, ".gitattributes": b"* text eol=crlf\n"}
    crlf = EDIT.format("windows").encode().split(b"@@\n")
    diff = EDIT.format("unix").encode() + crlf[0] + b"@@\n" + crlf[1].replace(b"\n", b"\r\n")
    made = files_of(desk, apply(desk, files, patch(tmp_path, "p.patch", diff)))
    assert (made["unix"], made["windows"]) == (DONE.encode(), DONE.replace("\n", "\r\n").encode())


def test_what_surrounds_links_and_modules_is_patched_and_they_stay(desk: Desk, tmp_path: Path) -> None:
    link = desk.git.symlink("v/x")
    module = type(link)(0o160000, "1" * 40)
    files: Files = {"v/x": TEXT, "v/link": link, "v/module": module}
    result = apply(desk, files, patch(tmp_path, "p.patch", EDIT.format("v/x")))
    assert result.patched is not None
    entries = desk.entries(result.patched.id)
    assert (entries["v/link"], entries["v/module"]) == (link, module)
    for path in ("v/link", "v/module", "v/link/deeper", "v/module/deeper"):
        record = one(apply(desk, files, patch(tmp_path, "q.patch", EDIT.format(path))))
        assert record.outcome is Outcome.BROKEN, record


@pytest.mark.parametrize("name", ["../x", "v/../../x", "/etc/passwd", ".git/config", "v/.git/hooks/x"])
def test_a_patch_that_leaves_the_tree_touches_no_file(desk: Desk, tmp_path: Path, name: str) -> None:
    text = EDIT.format("x") + EDIT.replace("a/{0}", "{1}").replace("b/{0}", "{1}").format(
        "", name if name.startswith("/") else f"a/{name}"
    )
    broken = patch(tmp_path / "patches", "p.patch", text)
    before = sorted(path for path in tmp_path.rglob("*") if "objects" not in path.parts)
    result = apply(desk, {"x": TEXT}, broken)
    assert (one(result).outcome, result.patched) == (Outcome.BROKEN, None)
    assert "refused" in one(result).detail
    assert sorted(path for path in tmp_path.rglob("*") if "objects" not in path.parts) == before
