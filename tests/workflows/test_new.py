"""Scaffolds are valid, do nothing, and cannot pass for evidence: a repro that nobody filled in must not be good."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from patchkit.errors import RequestError
from patchkit.recipe.load import check_files, load_issue, load_recipe
from patchkit.stack.outcome import Outcome
from patchkit.tools.toolkit import Toolkit
from patchkit.verdict.verdict import Answer
from patchkit.workflows.apply import ApplyRequest, apply_recipe
from patchkit.workflows.new import make_new
from patchkit.workflows.repro import ReproRequest, run_repros
from tests.support.repositories import GitRepository

KINDS = ["recipe", "patch", "issue"]
NAMES = ["long-prefill", "0.26", "a_b.c-d", "no", "1e3"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_a_scaffold_is_valid_and_says_what_to_fill_in(toolkit: Toolkit, tmp_path: Path, kind: str, name: str) -> None:
    report = make_new(toolkit, kind, name, tmp_path)  # type: ignore[arg-type]
    assert check_files((report.folder,)) == ()
    assert all("FILL IN" in (report.folder / file).read_text() for file in report.files)
    assert sorted(path.name for path in report.folder.iterdir()) == sorted(report.files)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_overwritten(toolkit: Toolkit, tmp_path: Path, kind: str) -> None:
    folder = make_new(toolkit, kind, "mine", tmp_path).folder  # type: ignore[arg-type]
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(RequestError, match="is there already"):
        make_new(toolkit, kind, "mine", tmp_path)  # type: ignore[arg-type]
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    (folder.parent / "link").symlink_to("nowhere")
    with pytest.raises(RequestError, match="is there already"):
        make_new(toolkit, kind, "link", tmp_path)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "Upper", "../up", "a/b", ".hidden", "-x", "x" * 81])
def test_what_is_no_name_is_refused(toolkit: Toolkit, tmp_path: Path, name: str) -> None:
    with pytest.raises(RequestError, match="must be"):
        make_new(toolkit, "patch", name, tmp_path)
    assert list(tmp_path.glob("patches")) == []


def test_the_library_of_the_current_folder_is_the_default(
    toolkit: Toolkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "library/patches/deep").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "library/patches/deep")
    assert make_new(toolkit, "issue", "mine").folder == tmp_path / "library/issues/mine"
    with pytest.raises(RequestError, match="is no folder"):
        make_new(toolkit, "issue", "mine", tmp_path / "nix")


def test_a_name_of_ours_is_told(toolkit: Toolkit, tmp_path: Path) -> None:
    told: list[str] = []

    class Told:
        def step(self, message: str) -> None: ...
        def advance(self, message: str, done: int, total: int | None) -> None: ...
        def warn(self, message: str, hint: str = "") -> None:
            told.append(message)

    make_new(Toolkit(toolkit.cache, Told()), "patch", "e8m0-upcast", tmp_path)
    assert told == ["patchkit ships patches/e8m0-upcast: yours takes its place in this library"]


@pytest.fixture
def library(toolkit: Toolkit, tmp_path: Path) -> Path:
    """A recipe with a patch and an issue, all three as they were made; only the upstream is filled in."""
    upstream = GitRepository(tmp_path / "upstream")
    upstream.commit({"vllm/engine.py": "WAIT = 5\n"})
    library = tmp_path / "library"
    library.mkdir()
    for kind in KINDS:
        make_new(toolkit, kind, "mine", library)  # type: ignore[arg-type]
    recipe = library / "recipes/mine/recipe.yaml"
    text = recipe.read_text().replace("https://github.com/vllm-project/vllm.git", upstream.url)
    text = text.replace("    package: vllm", "    # package: vllm").replace("latest", "main")
    recipe.write_text(text.replace("issues: []", "issues: [mine]").replace("series: []", "series: [mine]"))
    return library


def test_the_three_fit_together(library: Path) -> None:
    loaded = load_recipe(library / "recipes/mine")
    assert (list(loaded.patches), list(loaded.issues)) == (["mine"], ["mine"])


def test_a_patch_that_nobody_filled_in_does_not_stand(library: Path, toolkit: Toolkit) -> None:
    (record,) = apply_recipe(toolkit, ApplyRequest(library / "recipes/mine")).result.records
    assert record.outcome is Outcome.CONFLICT
    assert "FILL_IN.py" in record.detail


def test_a_repro_that_nobody_filled_in_cannot_tell(library: Path, toolkit: Toolkit) -> None:
    recipe = library / "recipes/mine/recipe.yaml"
    recipe.write_text(recipe.read_text().replace("series: [mine]", "series: []"))
    report = run_repros(toolkit, ReproRequest(recipe))
    assert {verdict.answer for verdict in report.verdicts} == {Answer.SKIP}
    assert report.exit_code == 125


@pytest.mark.parametrize(("text", "code", "word"), [("WAIT = 5\n", 1, "bad"), ("WAIT = 60\n", 0, "good")])
def test_a_repro_that_was_filled_in_tells(library: Path, tmp_path: Path, text: str, code: int, word: str) -> None:
    repro = library / "issues/mine/repro.py"
    filled = repro.read_text().replace("vllm/FILL_IN.py", "vllm/engine.py")
    repro.write_text(
        filled.replace("return None\n\n\ndef main", 'return BAD if "WAIT = 5\\n" in text else GOOD\n\n\ndef main')
    )
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm/engine.py").write_text(text)
    env = {**os.environ, "PATCHKIT_TREE": str(tmp_path)}
    done = subprocess.run([sys.executable, str(repro)], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, f"mine: {word}\n")
    assert load_issue(repro.parent).issue.signature == "mine: bad"
