"""Measure the spine beside what a user would otherwise run: `python -m benchmarks.spine [--json FILE]`.

Every row is measured in one run on one machine: `theirs` and `ours` in seconds; `bar` is the least theirs / ours. Rows
with no rival carry an absolute bar in seconds, which holds on a quiet machine with two cores. Needs the package index.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.patch_rows import Row, clock, conclude, most, ratio
from patchkit.environment.pool import hold_slot
from patchkit.recipe.model import Upstream
from patchkit.source.commit import Commit
from patchkit.source.open import open_source
from patchkit.tools.cache import Cache
from patchkit.tools.index import PackageIndex
from patchkit.tools.toolkit import Toolkit

ROOT = Path(__file__).parents[1]
OLD, NEW = "v0.25.1", "v0.26.0"
GIT = ("git", "-c", "gc.auto=0", "-c", "user.name=b", "-c", "user.email=b@example.org")


def git(folder: Path, *arguments: str) -> None:
    """Run git quietly."""
    subprocess.run([*GIT, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def patchkit(folder: Path, *arguments: str) -> None:
    """Run the program as a user does, with a store below `folder`."""
    environment = {**os.environ, "PATCHKIT_CACHE": str(folder / "store"), "HOME": str(folder)}
    command = [sys.executable, "-m", "patchkit", "--quiet", *arguments]
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)


def measure_readme(folder: Path) -> list[Row]:
    """Build the quickstart on an empty store, then again; set-up of the virtual environment is not in it."""
    recipe = str(ROOT / "recipes" / "quickstart" / "recipe.yaml")
    build = ("build", recipe, "--engine", "oci", "--output", str(folder / "out.tar"))
    cold = clock(lambda: patchkit(folder, *build))
    warm = clock(lambda: patchkit(folder, *build))
    return [most("quickstart, empty store, s", "-", None, cold, 60), most("quickstart again, s", "-", None, warm, 10)]


def measure_releases(folder: Path) -> list[Row]:
    """Take two releases into git objects, then switch a work tree between them, beside tar and git."""
    toolkit = Toolkit(Cache(folder / "store"), env=dict(os.environ))
    source = open_source(toolkit, "vllm", Upstream(package="vllm", ref=NEW), "package")
    ours: list[float] = []
    theirs: list[float] = []
    commits: list[Commit] = []
    work = folder / "work"
    git(folder, "init", "-q", str(work))
    for version in (OLD, NEW):
        archive = download(toolkit, version, folder)
        theirs.append(clock(lambda archive=archive: commit_archive(work, archive)))
        git(work, "tag", version)
        fetch = clock(lambda version=version: download(toolkit, version, folder))
        ours.append(clock(lambda version=version: commits.append(source.resolve(version))) - fetch)
    rows = [ratio("release to commit", "tar, git add, git commit", sum(theirs), max(sum(ours), 0.01), 1.0)]
    git(work, "checkout", "-q", OLD)
    trees = [commit.tree for commit in commits]
    with hold_slot(toolkit.cache, source.repository, trees[0]) as slot:
        slot.switch(trees[0])
        mine = clock(lambda: slot.switch(trees[1]))
    checkout = clock(lambda: git(work, "checkout", "-q", NEW))
    return [*rows, ratio("switch to the next release", "git checkout", checkout, mine, 0.7)]


def download(toolkit: Toolkit, version: str, folder: Path) -> Path:
    """Fetch a release's sdist anew and return its path."""
    index = PackageIndex(toolkit)
    sdist = next(one for one in index.sdists("vllm") if f"v{one.version}" == version)
    target = folder / f"{version}.tar.gz"
    target.unlink(missing_ok=True)
    index.download(sdist, target)
    return target


def commit_archive(work: Path, archive: Path) -> None:
    """Do by hand what makes a commit of an sdist."""
    for path in work.iterdir():
        if path.name != ".git":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    subprocess.run(["tar", "xzf", str(archive), "--strip-components=1"], cwd=work, check=True)
    git(work, "add", "-A", "-f")
    git(work, "commit", "-q", "-m", "release")


def measure_start() -> list[Row]:
    """Start the program beside an empty Python."""

    def start(*arguments: str) -> float:
        return min(
            clock(lambda: subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL))
            for _ in range(5)
        )

    return [most("patchkit --help, s", "-", None, start("-m", "patchkit", "--help"), 0.3)]


def main() -> None:
    """Measure everything, print a table, write the rows where asked, and exit 1 when a row does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    rows = measure_start()
    for measure in (measure_releases, measure_readme):
        with tempfile.TemporaryDirectory(prefix="patchkit-bench-") as folder:
            rows += measure(Path(folder))
    print("\n".join(map(str, rows)))
    conclude(rows, options.json)


if __name__ == "__main__":
    main()
