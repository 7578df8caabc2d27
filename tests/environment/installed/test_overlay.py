"""An overlay shows one whole package: patched where it is patched, what is installed everywhere else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from patchkit.environment.installed.overlay import Overlay, find_site, make_overlay
from patchkit.errors import BuildFailed
from patchkit.source.commit import Tree
from patchkit.source.installed.folder import read_installed
from patchkit.source.installed.trees import store_commit
from patchkit.stack.outcome import PatchedTree
from patchkit.tools.git.objects import Entry
from patchkit.tools.toolkit import Toolkit
from tests.support.wheels import install, make_wheel

FILES = {
    "torch/__init__.py": "from torch import inner\n",
    "torch/inner/__init__.py": "from torch.inner.deep import value\n",
    "torch/inner/deep.py": "value = 'installed'\n",
    "torch/inner/gone.py": "",
    "torch/other/data.json": "{}\n",
    "torch/lib/libtorch.so": "\x7fELF",
    "functorch/__init__.py": "",
}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    install(make_wheel(tmp_path, FILES, "torch", "2.13.0+cpu"), tmp_path / "python3.12/site-packages")
    return tmp_path / "python3.12/site-packages"


@pytest.fixture
def overlay(site: Path, toolkit: Toolkit) -> Overlay:
    return patched(site, toolkit, {"torch/inner/deep.py": "value = 'patched'\n", "torch/new/x.py": "", **GONE})


GONE = {"torch/inner/gone.py": None}


def patched(site: Path, toolkit: Toolkit, files: dict[str, str | None]) -> Overlay:
    installed = read_installed(site, next(site.glob("*.dist-info")))
    commit, repository = store_commit(toolkit, "torch", installed.distribution, installed.contents)
    entries = {
        path: None if text is None else Entry(0o100644, repository.write_blob(text.encode()))
        for path, text in files.items()
    }
    base = Tree(commit, commit.tree, repository)
    return Overlay("torch", PatchedTree(repository.edit(base.id, entries), base, ()))


def test_python_sees_the_patched_file_and_the_rest_of_the_package(
    toolkit: Toolkit, site: Path, overlay: Overlay
) -> None:
    folder = make_overlay(toolkit, overlay, [site.parent])
    code = "import torch, os; print(torch.inner.value, os.path.dirname(torch.__file__))"
    env = {"PYTHONPATH": f"{folder}:{site}"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["patched", str(folder / "torch")]
    assert (folder / "torch/lib/libtorch.so").read_text() == FILES["torch/lib/libtorch.so"]
    assert (folder / "torch/new/x.py").read_text() == ""
    assert not (folder / "torch/inner/gone.py").exists()
    assert not (folder / "functorch").exists()


def test_what_is_installed_stays_as_it_is(toolkit: Toolkit, site: Path, overlay: Overlay) -> None:
    folder = make_overlay(toolkit, overlay, [site.parent])
    assert (site / "torch/inner/deep.py").read_text() == FILES["torch/inner/deep.py"]
    assert (folder / "torch/__init__.py").is_symlink()
    assert (folder / "torch/other").is_symlink()
    assert not (folder / "torch/inner").is_symlink()


def test_it_is_made_once_and_has_an_id_of_its_trees(toolkit: Toolkit, site: Path, overlay: Overlay) -> None:
    assert make_overlay(toolkit, overlay, [site.parent]) == make_overlay(toolkit, overlay, [site])
    other = patched(site, toolkit, {"torch/inner/deep.py": "value = 'other'\n"})
    assert other.id != overlay.id
    assert make_overlay(toolkit, other, [site]) != make_overlay(toolkit, overlay, [site])


def test_another_version_in_the_environment_is_refused(toolkit: Toolkit, site: Path, overlay: Overlay) -> None:
    (site / "torch/inner/deep.py").write_text("value = 'of another version'\n")
    with pytest.raises(BuildFailed, match=r"deep\.py: is not the file of torch 2\.13\.0\+cpu that is patched"):
        make_overlay(toolkit, overlay, [site])


def test_an_environment_without_the_package_is_told(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match="patches torch, which the environment does not have"):
        find_site("torch", [tmp_path])
