"""`apply`: the series told patch by patch, and the patched tree on disk, whole or not at all."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from patchkit.errors import BuildFailed, RequestError
from patchkit.stack.outcome import Outcome
from patchkit.tools.toolkit import Silence, Toolkit
from patchkit.workflows.apply import ApplyReport, ApplyRequest, apply_recipe, write_folder
from tests.support.repositories import GitRepository

DIFF = "--- a/v/x.py\n+++ b/v/x.py\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n"


class Bench:
    """An upstream of two commits, a recipe with one diff, and a store."""

    def __init__(self, folder: Path, toolkit: Toolkit) -> None:
        self.toolkit = toolkit
        self.upstream = GitRepository(folder / "upstream")
        link = self.upstream.symlink("x.py")
        files = {"v/x.py": "one\ntwo\nthree\n", "run.sh": self.upstream.executable("#!/bin/sh\n"), "v/link.py": link}
        self.upstream.commit(files)
        self.upstream.tag("v1")
        self.upstream.commit({"v/x.py": "one\nzwo\nthree\n"})
        self.recipe = folder / "recipe.yaml"
        upstream = f'upstream: {{vllm: {{git: "{self.upstream.url}", ref: v1}}}}'
        self.recipe.write_text(f"format: 1\nname: r\n{upstream}\nseries: [{{file: x.patch}}]\n")
        self.patch(DIFF)

    def patch(self, text: str) -> None:
        self.recipe.with_name("x.patch").write_text(text)

    def apply(self, to: Path | None = None, at: str | None = None, dry_run: bool = False) -> ApplyReport:
        return apply_recipe(self.toolkit, ApplyRequest(self.recipe, at, to, dry_run))


@pytest.fixture
def bench(tmp_path: Path, toolkit: Toolkit) -> Bench:
    return Bench(tmp_path, toolkit)


def test_the_series_is_applied_to_the_recipe_s_own_commit(bench: Bench) -> None:
    report = bench.apply()
    assert report.base.commit.ref == "v1"
    assert [record.outcome for record in report.result.records] == [Outcome.CLEAN]
    assert (report.result.patched is not None, report.written) == (True, None)


def test_patches_of_another_upstream_are_told_and_not_applied(bench: Bench) -> None:
    folder = bench.recipe.parent / "patches/theirs"
    folder.mkdir(parents=True)
    (folder / "x.patch").write_text(DIFF)
    patch = "format: 1\ntitle: Theirs\nupstream: other\nchange:\n  - {patch: x.patch}\n"
    (folder / "patch.yaml").write_text(patch)
    url = bench.upstream.url
    series = "series: [{file: x.patch}, theirs]"
    upstreams = f'upstream: {{vllm: {{git: "{url}", ref: v1}}, other: {{git: "{url}", ref: v1}}}}'
    bench.recipe.write_text(f"format: 1\nname: r\n{upstreams}\n{series}\n")
    warnings: list[str] = []

    class Listener(Silence):
        def warn(self, message: str, hint: str = "") -> None:
            warnings.append(message)

    bench.toolkit = Toolkit(bench.toolkit.cache, Listener(), bench.toolkit.env)
    report = bench.apply()
    assert [record.patch for record in report.result.records] == ["x.patch"]
    assert warnings == ["not applied, since not for vllm: theirs"]


def test_the_patched_tree_is_written_with_modes_and_links(bench: Bench, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert bench.apply(out).written == out
    assert (out / "v/x.py").read_text() == "one\nzwei\nthree\n"
    assert os.access(out / "run.sh", os.X_OK)
    assert (out / "v/link.py").readlink() == Path("x.py")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_nothing_is_written_when_a_patch_does_not_stand(bench: Bench, tmp_path: Path) -> None:
    report = bench.apply(tmp_path / "out", at="main")
    assert [record.outcome for record in report.result.records] == [Outcome.CONFLICT]
    assert report.result.patched is None
    assert not (tmp_path / "out").exists()


def test_a_dry_run_writes_nothing(bench: Bench, tmp_path: Path) -> None:
    assert bench.apply(tmp_path / "out", dry_run=True).result.patched is not None
    assert not (tmp_path / "out").exists()


def test_a_folder_that_was_written_before_is_replaced(bench: Bench, tmp_path: Path) -> None:
    out = tmp_path / "out"
    bench.apply(out)
    (out / "v/__pycache__").mkdir()
    (out / "v/__pycache__/x.pyc").write_bytes(b"cached")
    bench.patch(DIFF.replace("zwei", "deux"))
    bench.apply(out)
    assert (out / "v/x.py").read_text() == "one\ndeux\nthree\n"
    assert not (out / "v/__pycache__").exists()


@pytest.mark.parametrize("spoil", ["edit", "add", "remove", "mode", "link"])
def test_a_folder_with_changes_of_the_user_s_is_left_alone(bench: Bench, tmp_path: Path, spoil: str) -> None:
    out = tmp_path / "out"
    bench.apply(out)
    if spoil == "edit":
        (out / "v/x.py").write_text("mine\n")
    elif spoil == "add":
        (out / "mine.txt").write_text("mine\n")
    elif spoil == "remove":
        (out / "v/x.py").unlink()
    elif spoil == "mode":
        (out / "run.sh").chmod(0o644)
    else:
        (out / "v/link.py").unlink()
        (out / "v/link.py").symlink_to("y.py")
    with pytest.raises(RequestError, match="was changed since patchkit wrote it"):
        bench.apply(out)


def test_a_folder_of_someone_else_s_is_left_alone(bench: Bench, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "precious").write_text("mine")
    with pytest.raises(RequestError, match="is not empty"):
        bench.apply(out)
    assert [path.name for path in out.iterdir()] == ["precious"]


def test_what_is_no_folder_is_refused(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("file", "link"):
        with pytest.raises(RequestError, match="is no folder"):
            bench.apply(tmp_path / name)


def test_an_empty_folder_is_filled(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    bench.apply(tmp_path / "out")
    assert (tmp_path / "out/run.sh").exists()


def test_a_tree_with_a_link_out_of_it_is_not_written_and_the_old_folder_stays(bench: Bench, tmp_path: Path) -> None:
    out = tmp_path / "out"
    bench.apply(out)
    objects = bench.upstream.objects
    tree = objects.edit(
        bench.upstream.tree_of(bench.upstream.find("v1")), {"evil": bench.upstream.symlink("../../etc/passwd")}
    )
    with pytest.raises(BuildFailed):
        write_folder(bench.toolkit, objects, tree, out)
    assert (out / "v/x.py").read_text() == "one\nzwei\nthree\n"
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_without_its_record_a_written_folder_is_someone_else_s(bench: Bench, tmp_path: Path) -> None:
    out = tmp_path / "out"
    bench.apply(out)
    shutil.rmtree(bench.toolkit.cache.root / "written-trees")
    with pytest.raises(RequestError, match="is not empty"):
        bench.apply(out)
