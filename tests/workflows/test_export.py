"""The workflow of `export`: `git am` makes of the files the very tree that `apply` makes, and nobody's files go."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from patchkit.errors import RequestError
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.apply import ApplyRequest, apply_recipe
from patchkit.workflows.export import ExportReport, ExportRequest, export_recipe
from tests.support.repositories import GitRepository

TEXT = "".join(f"line {number}\n" for number in range(1, 31))
PYTHON = "import os\n\n\ndef load(name):\n    return os.path.join('a', name)\n"
MAIL = """From: "J. Döe" <j@example.org>
Date: Tue, 14 Nov 2023 22:13:20 +0100
Subject: [PATCH 1/2] Count in German (=?UTF-8?q?f=C3=BCr?= all)

For:
From: is what this text is not about.

---
diff --git a/x b/x
--- a/x
+++ b/x
@@ -9,3 +9,3 @@
 line 9
-line 10
+zehn
 line 11
"""
PATCH = """format: 1
title: Log what is loaded
why: |
  Nobody knows.
  --- not even us
author: Eva <eva@example.org>
upstream-status: "Inappropriate [ours]"
change: [{rewrite: steps.yaml}]
"""
STEPS = """- {file: v/load.py, inside: load, match: "return $X", replace: "return print($X) or $X"}
- {file: v/new.py, create: new.py}
"""
SERIES = 'logging, {file: local/x.patch}, {cherry-pick: "%s"}, {revert: "%s"}, {pull: 7}'

Export = Callable[..., ExportReport]


@pytest.fixture
def upstream(tmp_path: Path) -> GitRepository:
    upstream = GitRepository(tmp_path / "upstream")
    odd = {
        "crlf": TEXT.replace("\n", "\r\n"),
        "latin": b"caf\xe9\nend",
        "bin": bytes(range(256)),
        "link": upstream.symlink("x"),
    }
    upstream.commit({"x": TEXT, "v/load.py": PYTHON, "run": "#!/bin/sh\n", "gone": "1\n", **odd})
    upstream.branch("side")
    upstream.branch("work")
    upstream.commit({"later": "1\n"}, "later\n\nIt comes late.")
    upstream.tag("v1")
    changed = {
        "crlf": TEXT.replace("\n", "\r\n").replace("line 7", "sept"),
        "latin": b"th\xe9\nend",
        "bin": b"\0\1" * 999,
    }
    upstream.commit(
        {"run": upstream.executable("#!/bin/sh\n"), "gone": None, "a b/nä": "1\n", **changed}, "odd ones", "side"
    )
    upstream.commit({"pulled": "1\n"}, "the pull request", branch="work")
    upstream.ref("refs/pull/7/head", "work")
    return upstream


@pytest.fixture
def folder(upstream: GitRepository, tmp_path: Path) -> Path:
    library = tmp_path / "library"
    write(library, upstream, SERIES % (upstream.find("side"), upstream.find("v1")))
    for name, text in {"logging/patch.yaml": PATCH, "logging/steps.yaml": STEPS, "logging/new.py": "X = 1\n"}.items():
        (library / "patches" / name).parent.mkdir(parents=True, exist_ok=True)
        (library / "patches" / name).write_text(text)
    (library / "local").mkdir()
    (library / "local/x.patch").write_text(MAIL)
    return library


def write(library: Path, upstream: GitRepository, series: str) -> None:
    library.mkdir(exist_ok=True)
    (library / "recipe.yaml").write_text(
        f'format: 1\nname: product\nupstream: {{vllm: {{git: "{upstream.url}", ref: v1}}}}\nseries: [{series}]\n'
    )


@pytest.fixture
def export(toolkit: Toolkit, folder: Path, tmp_path: Path) -> Export:
    def call(**options: object) -> ExportReport:
        return export_recipe(toolkit, ExportRequest(folder / "recipe.yaml", tmp_path / "out", **options))  # type: ignore[arg-type]

    return call


def git(folder: Path, *arguments: str) -> str:
    env = {
        **os.environ,
        "GIT_CONFIG_NOSYSTEM": "1",
        "HOME": str(folder),
        "GIT_COMMITTER_NAME": "c",
        "GIT_COMMITTER_EMAIL": "c@x",
    }
    done = subprocess.run(["git", *arguments], cwd=folder, env=env, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    return done.stdout.decode()


def checkout(upstream: GitRepository, folder: Path, commit: str) -> Path:
    folder.mkdir()
    git(folder, "clone", "-q", upstream.url, "work")
    git(folder / "work", "checkout", "-q", commit)
    return folder / "work"


def tree_of(toolkit: Toolkit, folder: Path) -> str:
    patched = apply_recipe(toolkit, ApplyRequest(folder / "recipe.yaml")).result.patched
    assert patched is not None
    return patched.id


def test_git_am_makes_the_tree_that_apply_makes(
    export: Export, folder: Path, toolkit: Toolkit, upstream: GitRepository, tmp_path: Path
) -> None:
    report = export()
    assert report.tree == tree_of(toolkit, folder)
    assert report.files == (
        "0001-logging.patch",
        "0002-x.patch",
        f"0003-cherry-pick-{upstream.find('side')[:12]}.patch",
        f"0004-revert-{upstream.find('v1')[:12]}.patch",
        "0005-pull-7.patch",
    )
    work = checkout(upstream, tmp_path / "clone", report.commit.id)
    git(work, "am", "-q", "--keep-cr", *(str(tmp_path / "out" / name) for name in report.files))
    assert git(work, "rev-parse", "HEAD^{tree}").strip() == report.tree
    told = git(work, "log", "--reverse", "--date=raw", "--format=%an|%ae|%ad|%s", "v1..HEAD").splitlines()
    assert told[0] == "Eva|eva@example.org|1700000060 +0000|Log what is loaded"
    assert told[1] == "J. Döe|j@example.org|1699996400 +0100|Count in German (für all)"
    assert [line.split("|")[3] for line in told[2:]] == ["odd ones", 'Revert "later"', "the pull request"]
    body = git(work, "log", "-1", "--format=%b", "HEAD~4")
    assert body.rstrip().splitlines() == [
        "Nobody knows.",
        " --- not even us",
        "",
        "Upstream-Status: Inappropriate [ours]",
    ]
    assert "From: is what this text is not about." in git(work, "log", "-1", "--format=%b", "HEAD~3")


def test_one_diff_makes_the_same_tree(
    export: Export, toolkit: Toolkit, upstream: GitRepository, tmp_path: Path
) -> None:
    report = export(form="diff")
    assert report.files == ("product.diff",)
    work = checkout(upstream, tmp_path / "clone", report.commit.id)
    git(work, "apply", "--index", str(tmp_path / "out/product.diff"))
    assert git(work, "write-tree").strip() == report.tree


def test_a_second_export_changes_no_byte_and_a_new_one_replaces(
    export: Export, tmp_path: Path, upstream: GitRepository, folder: Path
) -> None:
    out = tmp_path / "out"
    assert export().changed
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    stamp = out.stat().st_ino
    assert not export().changed
    assert ({path.name: path.read_bytes() for path in out.iterdir()}, out.stat().st_ino) == (first, stamp)
    write(folder, upstream, "logging")
    assert export().changed
    assert sorted(path.name for path in out.iterdir()) == ["0001-logging.patch", "series"]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_the_list_says_what_the_files_are_for(export: Export, tmp_path: Path) -> None:
    report = export()
    lines = (tmp_path / "out/series").read_text().splitlines()
    assert lines[0].startswith("# Written by `patchkit export` for v1")
    assert lines[1:3] == [f"# base {report.commit.id}", f"# tree {report.tree}"]
    assert tuple(lines[3:]) == report.files


def test_nothing_is_written_when_a_patch_does_not_stand(export: Export, folder: Path, tmp_path: Path) -> None:
    (folder / "local/x.patch").write_text(MAIL.replace("-line 10", "-line ten"))
    report = export()
    assert (report.tree, report.files) == (None, ())
    assert not (tmp_path / "out").exists()


def test_a_mailbox_stays_one_commit_a_mail(
    export: Export, folder: Path, upstream: GitRepository, tmp_path: Path
) -> None:
    second = MAIL.replace("line 10", "zehn").replace("+zehn", "+dix").replace("German", "French")
    head = "From 0123456789012345678901234567890123456789 Mon Sep 17 00:00:00 2001\n"
    (folder / "local/x.patch").write_text(f"{head}{MAIL}{head}{second}".replace("-zehn\n+zehn", "-zehn\n+dix"))
    write(folder, upstream, "{file: local/x.patch}")
    report = export()
    assert report.files == ("0001-x.patch", "0002-x.patch")
    work = checkout(upstream, tmp_path / "clone", report.commit.id)
    git(work, "am", "-q", *(str(tmp_path / "out" / name) for name in report.files))
    assert git(work, "rev-parse", "HEAD^{tree}").strip() == report.tree
    assert git(work, "log", "--format=%s", "v1..HEAD").count("Count in") == 2


def test_what_changes_nothing_has_no_file(
    export: Export, folder: Path, upstream: GitRepository, tmp_path: Path
) -> None:
    write(folder, upstream, '{file: local/x.patch, when: "vllm >= 99"}')
    report = export()
    assert (report.files, report.tree) == ((), report.commit.tree)


@pytest.mark.parametrize("spoil", ["foreign", "extra", "file", "link", "their series"])
def test_a_folder_of_somebody_else_s_is_left_alone(export: Export, tmp_path: Path, spoil: str) -> None:
    out = tmp_path / "out"
    if spoil == "file":
        out.write_text("mine")
    elif spoil == "link":
        out.symlink_to("nowhere")
    else:
        if spoil == "extra":
            export()
        out.mkdir(exist_ok=True)
        (out / "mine.patch").write_text("mine")
        if spoil == "their series":
            (out / "series").write_text("mine.patch\n")
    with pytest.raises(RequestError):
        export(form="diff")
    assert spoil in {"file", "link"} or (out / "mine.patch").read_text() == "mine"


def test_another_upstream_of_a_pair_has_its_own_series(export: Export, folder: Path, upstream: GitRepository) -> None:
    other = GitRepository(folder / "other")
    other.commit({"y": "1\n"})
    text = (folder / "recipe.yaml").read_text()
    (folder / "recipe.yaml").write_text(
        text.replace("ref: v1}", f'ref: v1}}, other: {{git: "{other.url}", ref: main}}').replace(
            "[logging", "[logging, theirs"
        )
    )
    (folder / "patches/theirs").mkdir()
    (folder / "patches/theirs/patch.yaml").write_text(
        "format: 1\ntitle: theirs\nupstream: other\nchange: [{file: z, source: z.txt}]\n"
    )
    (folder / "patches/theirs/z.txt").write_text("z\n")
    report = export(upstream="other")
    assert (report.files, report.commit.id) == (("0001-theirs.patch",), other.head())
    with pytest.raises(RequestError, match="no upstream named nix"):
        export(upstream="nix")
