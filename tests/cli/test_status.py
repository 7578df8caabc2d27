"""The verb `status`: exit codes, the table, the matrix, the document."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchkit.cli.run import run
from tests.support.repositories import GitRepository

DIFF = "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    upstream = GitRepository(tmp_path / "upstream")
    upstream.commit({"x": "one\ntwo\nthree\n"})
    upstream.tag("v1")
    upstream.commit({"x": "one\nzwei\nthree\n"}, "in German (#7)")
    upstream.tag("v2")
    upstream.branch("other", "v1")
    upstream.commit({"x": "one\nzwo\nthree\n"}, "in the field's German", branch="other")
    path = tmp_path / "recipe.yaml"
    path.write_text(
        f'format: 1\nname: r\nupstream: {{vllm: {{git: "{upstream.url}", ref: v1}}}}\nseries: [{{file: x.patch}}]\n'
    )
    path.with_name("x.patch").write_text(DIFF)
    return path


def test_a_table_tells_by_which_commit_and_release(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", str(recipe), "--against", "v2"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("against  v2  commit ")
    assert out[2].split()[:3] == ["x.patch", "already-upstream", "exact"]
    assert out[2].endswith("in German (#7) (v2)")


def test_a_patch_that_does_not_stand_exits_1_and_names_the_commit(
    recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["status", str(recipe), "--against", "other", "--first-conflict"]) == 1
    out = capsys.readouterr().out
    assert "x hunk 1: superseded by " in out
    assert "first conflict of x.patch up to other: " in out
    assert "in the field's German (last good " in out


def test_several_refs_make_a_matrix(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", str(recipe), "--against", "v1", "--against", "v2", "--against", "other"]) == 1
    out = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert out[:2] == [["patch", "v1", "v2", "other"], ["x.patch", "clean", "already-upstream", "conflict"]]


def test_a_matrix_tells_why_each_patch_stands_as_it_does(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = recipe.read_text().replace("[{file: x.patch}]", '[{file: x.patch, when: "vllm < 2"}, {file: c.patch}]')
    recipe.write_text(text)
    recipe.with_name("c.patch").write_text("--- /dev/null\n+++ b/csrc/a.cu\n@@ -0,0 +1 @@\n+1\n")
    assert run(["status", str(recipe), "--against", "v1", "--against", "v2"]) == 0
    at_v1, at_v2 = capsys.readouterr().out.split("\nat ")[1:]
    assert "c.patch: 1 hunk in 1 file; needs a native build (csrc/a.cu)" in at_v1
    assert "x.patch" not in at_v1
    assert "\n  x.patch: vllm 2 is not < 2\n" in at_v2
    recipe.write_text(text.replace('"vllm < 2"', '"vllm >= 1"'))
    assert run(["status", str(recipe), *(f"--against={ref}" for ref in ("v1", "v2", "other"))]) == 1
    at_v2, at_other = capsys.readouterr().out.split("\nat ")[2:]
    assert "in German (#7) (v2)" in at_v2
    assert at_other.count("x.patch: ") == at_other.count("x.patch: x hunk 1: superseded by ") == 1


def test_a_hunk_that_upstream_took_has_its_commit_and_release(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe.with_name("x.patch").write_text(f"{DIFF}--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+y\n")
    assert run(["status", str(recipe), "--against", "v2"]) == 0
    assert "x hunk 1: already-upstream by " in (out := capsys.readouterr().out)
    assert "in German (#7) (v2)" in out
    assert run(["status", str(recipe), "--against", "v2", "--json"]) == 0
    hunks = json.loads(capsys.readouterr().out)["patches"][0]["hunks"]
    assert [(hunk["answer"], hunk["release"]) for hunk in hunks] == [("already-upstream", "v2"), ("applies", None)]


def test_a_range_is_told_as_rows(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status", str(recipe), "--range", "v1..v2"]) == 0
    out = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[:2] for row in out[-3:]] == [["patch", "stands"], ["x.patch", "clean"], ["x.patch", "already-upstream"]]


def test_the_document_has_patches_hunks_and_commits(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["status", str(recipe), "--against", "v2", "--against", "other", "--first-conflict", "--json"]
    assert run([*arguments, "--range", "v1..other"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert [ref["stands"] for ref in document["against"]] == [True, False]
    upstream, conflict = document["patches"]
    assert (upstream["outcome"], upstream["upstreamed_by"]["release"]) == ("already-upstream", "v2")
    assert upstream["first_conflict"] is None
    (hunk,) = conflict["hunks"]
    assert (hunk["path"], hunk["answer"], hunk["by"]["subject"]) == ("x", "superseded", "in the field's German")
    assert conflict["first_conflict"]["commit"] == hunk["by"]["commit"] == conflict["superseded_by"][0]["commit"]
    assert conflict["conflicts"][0]["ours"] == "one\nzwo\nthree\n"
    assert [one["outcome"] for one in document["windows"][0]["segments"]] == ["clean", "conflict"]


def test_a_diff_needs_a_commit(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    diff, upstream = str(recipe.with_name("x.patch")), str(recipe.with_name("upstream"))
    assert run(["status", diff, "--git", upstream, "--against", "v1"]) == 0
    assert run(["status", diff, "--git", upstream]) == 128
    assert "--against REF" in capsys.readouterr().err
