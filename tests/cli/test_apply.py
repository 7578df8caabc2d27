"""The verb `apply`: exit codes, the table, the document."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchkit.cli.run import run
from tests.support.installs import EDIT, NATIVE, TEST, Bench
from tests.support.repositories import GitRepository

DIFF = "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n"


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    upstream = GitRepository(tmp_path / "upstream")
    upstream.commit({"x": "one\ntwo\nthree\n"})
    upstream.tag("v1")
    upstream.commit({"x": "one\nzwo\nthree\n"})
    path = tmp_path / "recipe.yaml"
    path.write_text(
        f'format: 1\nname: r\nupstream: {{vllm: {{git: "{upstream.url}", ref: v1}}}}\nseries: [{{file: x.patch}}]\n'
    )
    path.with_name("x.patch").write_text(DIFF)
    return path


def test_a_series_that_stands_is_told_and_exits_0(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["apply", str(recipe)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("base  v1  commit ")
    assert out[1].split() == ["patch", "outcome", "method", "detail"]
    assert out[2].split(maxsplit=3) == ["x.patch", "clean", "exact", "1 hunk in 1 file"]
    assert out[3].startswith("tree  ")


def test_a_conflict_exits_1_and_writes_nothing(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = recipe.with_name("out")
    assert run(["apply", str(recipe), "--at", "main", "--to", str(out)]) == 1
    told = capsys.readouterr()
    assert "x: hunk 1 (-1): line 2 is `zwo`, the patch expects `two`" in told.out
    assert "no result: x.patch does not stand" in told.err
    assert not out.exists()


def test_the_document_has_base_tree_series_and_where_it_was_written(
    recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = recipe.with_name("out")
    assert run(["apply", str(recipe), "--json", "--to", str(out)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["format"], document["base"]["at"], document["written"]) == (1, "v1", str(out))
    assert len(document["tree"]) == len(document["base"]["tree"]) == 40
    (record,) = document["series"]
    assert (record["patch"], record["outcome"], record["method"], record["files"]) == (
        "x.patch",
        "clean",
        "exact",
        ["x"],
    )
    assert (out / "x").read_text() == "one\nzwei\nthree\n"


def test_the_document_of_a_conflict_has_no_tree(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["apply", str(recipe), "--json", "--at", "main"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["tree"], document["written"], document["series"][0]["outcome"]) == (None, None, "conflict")


def test_a_patch_that_cannot_be_read_is_broken_and_exits_1(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe.with_name("x.patch").write_text(DIFF.replace(" three\n", ""))
    assert run(["apply", str(recipe)]) == 1
    assert "x.patch: line 7: the patch ends in the middle of a hunk" in capsys.readouterr().out


def test_a_folder_that_is_not_ours_cannot_be_done(recipe: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["apply", str(recipe), "--to", str(recipe.parent)]) == 128
    assert "is not empty" in capsys.readouterr().err


def test_an_unknown_ref_cannot_be_done(recipe: Path) -> None:
    assert run(["apply", str(recipe), "--at", "v9"]) == 128


def test_an_installed_package_is_patched_and_taken_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench = Bench(tmp_path, EDIT + TEST)
    arguments = ["apply", str(bench.recipe), "--to-site-packages", str(bench.site)]
    assert run(arguments) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("base  vllm 0.26.0 as installed  commit ")
    assert out[3:] == [
        "left out         of       why",
        "tests/test_x.py  x.patch  not-in-package",
        "vllm 0.26.0: applied, 1 files",
        "  vllm/x.py",
    ]
    assert run([*arguments, "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["distributions"]
    assert (one["distribution"], one["state"], one["files"]) == ("vllm 0.26.0", "already-applied", ["vllm/x.py"])
    assert one["left_out"] == [{"patch": "x.patch", "file": "tests/test_x.py", "outcome": "not-in-package"}]
    assert run([*arguments, "--revert"]) == 0
    assert run([*arguments, "--revert"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "vllm 0.26.0: nothing-to-revert"


def test_an_installed_package_that_does_not_take_a_patch_exits_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = Bench(tmp_path, EDIT + NATIVE)
    assert run(["apply", str(bench.recipe), "--to-site-packages", str(bench.site)]) == 1
    told = capsys.readouterr()
    assert "needs a native build: csrc/k.cu" in told.out
    assert "nothing was written" in told.err


def test_a_wheel_is_written_where_it_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bench = Bench(tmp_path, EDIT)
    out = tmp_path / "vllm-0.26.0+mine-py3-none-any.whl"
    assert run(["apply", str(bench.recipe), "--to-wheel", str(bench.wheel), str(out)]) == 0
    assert f"written to {out}" in capsys.readouterr().out
    assert out.exists()


@pytest.mark.parametrize(
    "options",
    [
        ["--revert"],
        ["--empty-compile-caches"],
        ["--to-site-packages", "d", "--at", "v1"],
        ["--to-site-packages", "d", "--to", "e"],
        ["--to-site-packages", "d", "--locked"],
        ["--to-wheel", __file__, "e", "--revert"],
        ["--to-wheel", __file__, "e", "--to-site-packages", "d"],
    ],
)
def test_options_that_do_not_go_together_are_a_usage_error(recipe: Path, options: list[str]) -> None:
    assert run(["apply", str(recipe), *options]) == 129
