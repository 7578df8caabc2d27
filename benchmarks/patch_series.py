"""30 real patches in a row: `git am` and `quilt push -a` beside the engine and beside the command `patchkit apply`.

What is compared. Theirs is the process that people type, in a work tree that is checked out and in the disk cache and
whose repository lacks the results. Ours is the engine in process: patch files from disk, parsed anew each time, in a
repository that is opened anew and lacks the results; with commits, thirty of them are stored, and git must find each
with the tree of the rival's. git writes loose objects, compressed at level 1; ours are one pack, not compressed. Both
stand on the same store. Every round measures all of them one after the other; medians are told.

The command's row is what a user waits for: Python starts, the recipe is read, the ref resolved, the series applied with
the gate on every result, the tree stored and told. It makes neither commits nor a work tree. A run that is not measured
compiles its modules, as installers do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.patch_clone import Clone, NoFacts, patch_of, run_git
from benchmarks.patch_drift import first_parents, read_change
from benchmarks.patch_rivals import ENVIRONMENT, apply_am, check_out, prepare_quilt, push_quilt
from benchmarks.patch_rows import Bench, Row, clock, least, middle, ratio
from patchkit.stack.apply import open_lineage, walk_series
from patchkit.stack.change import Ground, parse_once
from patchkit.stack.ladder.climb import Footing, climb
from patchkit.stack.outcome import Outcome
from patchkit.stack.patch import parse_patches
from patchkit.stack.series import StackPatch
from patchkit.tools.cache import Cache
from patchkit.tools.git.mirror import Mirror
from patchkit.tools.git.objects import Repository
from patchkit.tools.toolkit import Toolkit

SERIES = 30
TIME = 1_700_000_000  # of the commits that we make


@dataclass(frozen=True)
class Course:
    """What is run: the patches as files and as mails, the commit that they go onto, and a folder for who runs."""

    bench: Bench
    start: str
    mails: bytes
    series: tuple[StackPatch, ...]
    folder: Path

    @property
    def work(self) -> Path:
        """Return git's work tree."""
        return self.folder / "am"

    @property
    def made(self) -> Path:
        """Return the repository that the engine writes to."""
        return self.folder / "engine.git"

    def reset_am(self) -> None:
        """Bring git's work tree back to the start, and forget the objects that git made."""
        run_git(self.work, "update-ref", "HEAD", self.start)
        for folder in (self.work / ".git/objects").glob("??"):
            shutil.rmtree(folder)
        run_git(self.work, "reset", "-q", "--hard", self.start)
        run_git(self.work, "update-index", "-q", "--refresh")

    def reset_quilt(self) -> None:
        """Lay out a tree for quilt."""
        quilt = self.folder / "quilt"
        shutil.rmtree(quilt, ignore_errors=True)
        subprocess.run(["cp", "-r", str(self.work), str(quilt)], check=True)
        prepare_quilt(quilt, [(patch.folder / patch.name).read_bytes() for patch in self.series])

    def reset_engine(self) -> None:
        """Make an empty repository over the same store, and forget the patches that were read."""
        shutil.rmtree(self.made, ignore_errors=True)
        subprocess.run(["git", "init", "-q", "--bare", str(self.made)], check=True)
        shutil.copy(self.work / ".git/objects/info/alternates", self.made / "objects/info/alternates")
        parse_once.cache_clear()

    def run_engine(self, commit: bool, dry: bool = False) -> str:
        """Apply the series in a repository that is opened for it; return the last commit, or '' where none is made."""
        clone = Clone(Repository(self.made))
        at = clone.resolve(self.start)
        parent = self.start
        ground = Ground(clone, at, at.tree, open_lineage(clone, at), dry)
        with clone.repository.draft(rough=dry) as keep:
            for step in walk_series(ground, self.series, NoFacts()):
                if not step.record.outcome.stands:
                    raise SystemExit(f"{step.record}")
                if commit:
                    parent = clone.repository.create_commit(step.attempt.tree, (parent,), step.patch.name, TIME)
            if commit:
                keep(parent)
        return parent if commit else ""


def measure_series(bench: Bench) -> list[Row]:
    """Run everybody, interleaved, and compare the trees of all commits."""
    course = prepare(bench)
    command = Command.of(course)
    command.reset()
    command.run()
    taken: dict[str, list[float]] = {name: [] for name in ("git am", "quilt", "commits", "dry", "command")}
    for number in range(5 if bench.quick else 15):
        course.reset_am()
        taken["git am"].append(clock(lambda: apply_am(course.work, course.mails)))
        for name, commit in (("commits", True), ("dry", False), ("commits", True), ("dry", False)):
            course.reset_engine()
            taken[name].append(clock(lambda commit=commit: course.run_engine(commit, dry=not commit)))  # type: ignore[misc]
        if number < (3 if bench.quick else 7):
            command.reset()
            taken["command"].append(clock(command.run))
            theirs = trees_of(course.work, "HEAD")
            course.reset_am()
            course.reset_quilt()
            taken["quilt"].append(clock(lambda: push_quilt(course.folder / "quilt")))
    course.reset_engine()
    same = trees_of(course.made, course.run_engine(commit=True)) == theirs
    typical = middle(taken)
    name = f"{SERIES} real patches"
    return [
        ratio(f"{name} with commits, engine", "git am", typical["git am"], typical["commits"], 4),
        ratio(f"{name} with commits, engine", "quilt push -a", typical["quilt"], typical["commits"], 8),
        ratio(f"{name}, dry run, engine", "git am", typical["git am"], typical["dry"], 8),
        ratio(f"{name}, the whole command `patchkit apply`", "git am", typical["git am"], typical["command"], None),
        least(f"{name}: all {SERIES} commits have the trees of git am's", "git am", None, float(same), 1),
    ]


def trees_of(folder: Path, tip: str) -> list[str]:
    """Return the trees of the newest commits, as git reads them."""
    return run_git(folder, "log", f"--max-count={SERIES}", "--format=%T", tip).decode().split()


def prepare(bench: Bench) -> Course:
    """Choose the patches and lay out git's work tree."""
    folder = bench.folder / "series"
    (folder / "patches").mkdir(parents=True)
    chain = first_parents(bench.repository.path, bench.tip, 400)[::-1]
    tree = bench.repository.read_commit(chain[0]).tree
    with bench.repository.draft():  # the store that everybody stands on must not have the results
        commits, diffs = choose_series(bench, tree, chain[1:])
    start = check_out(bench.repository, tree, folder / "am")
    form = ("format-patch", "--stdout", "--binary", "--full-index", "-1")
    mails = b"".join(run_git(bench.repository.path, *form, commit) for commit in commits)
    series = [patch_of(folder / "patches", f"{number:04}.patch", diff) for number, diff in enumerate(diffs)]
    return Course(bench, start, mails, tuple(series), folder)


def choose_series(bench: Bench, tree: str, chain: Sequence[str]) -> tuple[list[str], list[bytes]]:
    """Choose 30 real patches of a size that people carry which stand on a tree one after the other, whole."""
    commits, diffs = [], []
    for commit in chain:
        if not read_change(bench.repository.path, commit)[1]:
            continue
        diff = run_git(bench.repository.path, "diff", "--binary", "--full-index", f"{commit}^", commit)
        attempt = climb(Footing(bench.repository, tree), parse_patches(diff))
        if attempt.method == "exact" and attempt.outcome in {Outcome.CLEAN, Outcome.OFFSET}:
            tree = attempt.tree
            commits.append(commit)
            diffs.append(diff)
        if len(commits) == SERIES:
            break
    return commits, diffs


@dataclass(frozen=True)
class Command:
    """`patchkit apply` on a recipe of the series, the upstream in the store already."""

    toolkit: Toolkit
    upstream: Path
    recipe: Path

    @classmethod
    def of(cls, course: Course) -> Command:
        """Write the recipe."""
        upstream, recipe = course.bench.repository.path, course.folder / "recipe.yaml"
        files = "".join(f"  - file: patches/{patch.name}\n" for patch in course.series)
        head = f"format: 1\nname: bench\nupstream:\n  vllm: {{git: '{upstream}', ref: {course.start}}}\nseries:\n"
        recipe.write_text(head + files)
        return cls(Toolkit(Cache(course.folder / "store"), Quiet(), offline=True), upstream, recipe)

    def reset(self) -> None:
        """Put the upstream where its mirror lies, without what was made of it."""
        mirror = Mirror(self.toolkit, str(self.upstream))
        shutil.rmtree(mirror.path, ignore_errors=True)
        shutil.copytree(self.upstream, mirror.path, copy_function=os.link, symlinks=True)

    def run(self) -> None:
        """Run it."""
        call = [sys.executable, "-c", "from patchkit.cli.run import main; main()", "apply", str(self.recipe)]
        compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(self.recipe.with_name("compiled"))}
        environment = {**ENVIRONMENT, **compiled, "PATCHKIT_CACHE": str(self.toolkit.cache.root)}
        done = subprocess.run([*call, "--source", "git"], env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{done.stdout}{done.stderr}")


class Quiet:
    """Progress that nobody watches."""

    def step(self, message: str) -> None: ...

    def advance(self, message: str, done: int, total: int | None) -> None: ...

    def warn(self, message: str, hint: str = "") -> None: ...
