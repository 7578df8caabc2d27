"""Measure patchkit beside kas, StGit and mozregression, each at its own job: `python -m benchmarks.neighbours`.

    python -m benchmarks.neighbours --clone PATH [--quick] [--json FILE]

`--clone` is any git clone of vLLM with its history; nothing is written into it. kas and mozregression come with
`pip install -e '.[bench]'`, StGit is the package `stgit` of the distribution. All run for real, in the same run.

- kas: from a YAML file to a tree with 30 patches, both as whole commands; the repository is cloned already.
- StGit: 30 patches onto another commit, with commits; theirs is `stg push --all`, ours the engine in process.
- mozregression: its own bisection (`mozregression.bisector`), told of builds that are not there to download. It bisects
  builds of a line, so ours are lines too; builds that cannot be tested come in stretches, as in vLLM's history.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.bisect.worlds import World, line, make_world, search
from benchmarks.patch_clone import Clone, find_upstream_tip, run_git
from benchmarks.patch_rivals import ENVIRONMENT
from benchmarks.patch_rows import Bench, Row, clock, conclude, least, middle, ratio
from benchmarks.patch_series import SERIES, Command, Course, prepare, trees_of
from patchkit.search import Settings

KAS = "header: {version: 14}\nrepos:\n  here:\n"
SKIPPED = ("--skip", "setup_environ", "--skip", "write_bbconfig")  # steps for Yocto builds only
ANSWERS = {"good": "g", "bad": "b", "skip": "s"}


def measure_kas(course: Course, rounds: int) -> Iterable[Row]:
    """Apply the series of a YAML file, both as people type it; both trees are compared."""
    folder, ours = lay_out_kas(course), Command.of(course)
    kas = [str(Path(sys.executable).with_name("kas")), "checkout", *SKIPPED, "kas.yml"]
    taken: dict[str, list[float]] = {"kas": [], "patchkit": []}
    call(folder, *kas)  # clones
    for _ in range(rounds):
        run_git(folder / "vllm", "reset", "-q", "--hard", course.start)
        taken["kas"].append(clock(lambda: call(folder, *kas)))
        ours.reset()
        taken["patchkit"].append(clock(ours.run))
    typical = middle(taken)
    course.reset_engine()
    same = trees_of(course.made, course.run_engine(commit=True)) == trees_of(folder / "vllm", "HEAD")
    yield ratio(
        f"{SERIES} patches of a YAML file, whole commands", "kas checkout", typical["kas"], typical["patchkit"], 2
    )
    yield least("kas: its commits have the trees of ours", "kas checkout", None, float(same), 1)


def lay_out_kas(course: Course) -> Path:
    """Write the file that kas reads, beside the patches."""
    folder = course.folder / "kas"
    shutil.copytree(course.folder / "patches", folder / "patches")
    entries = "".join(f"      p{patch.name}: {{repo: here, path: patches/{patch.name}}}\n" for patch in course.series)
    head = f"{KAS}  vllm:\n    url: '{course.work}'\n    commit: {course.start}\n    patches:\n"
    (folder / "kas.yml").write_text(head + entries)
    return folder


def measure_stgit(course: Course, rounds: int) -> Iterable[Row]:
    """Push the series onto a commit that is not the one it was made on."""
    course.reset_am()
    start_stgit(course)
    taken: dict[str, list[float]] = {"StGit": [], "engine": []}
    for _ in range(rounds):
        call(course.work, "stg", "pop", "--all")
        other = run_git(course.work, "commit-tree", "-p", course.start, "-m", "x", f"{course.start}^{{tree}}")
        call(course.work, "stg", "rebase", "--nopush", other.decode().strip())
        taken["StGit"].append(clock(lambda: call(course.work, "stg", "push", "--all")))
        course.reset_engine()
        taken["engine"].append(clock(lambda: course.run_engine(commit=True)))
    typical = middle(taken)
    course.reset_engine()
    same = trees_of(course.work, "HEAD") == trees_of(course.made, course.run_engine(commit=True))
    yield ratio(f"{SERIES} patches with commits, engine", "stg push --all", typical["StGit"], typical["engine"], 4)
    yield least("StGit: its commits have the trees of ours", "stg push --all", None, float(same), 1)


def start_stgit(course: Course) -> None:
    """Make a stack of the mails."""
    call(course.work, "stg", "init")
    mails = course.folder / "series.mbox"
    mails.write_bytes(course.mails)
    call(course.work, "stg", "import", "--mbox", str(mails))


def call(folder: Path, *command: str) -> None:
    """Run a rival; its failure ends the measurement."""
    name = {f"GIT_{who}_{what}": "b@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {**ENVIRONMENT, **name, "KAS_WORK_DIR": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} in {folder}: exit {done.returncode}\n{done.stdout}{done.stderr}")


def measure_mozregression(worlds: int) -> Iterable[Row]:
    """Count probes on lines: all builds there, builds that cannot be tested, and builds that are not there."""
    for size in (100, 1000):
        for skips in (0.0, 0.3):
            cases = [make_world(line(size), seed, skips=skips) for seed in range(worlds)]
            ours = [search(world, Settings(confirmations=0)) for world in cases]
            theirs = [mozregression(world) for world in cases]
            name = f"line of {size}, {skips:.0%} cannot be tested"
            yield share(f"{name}: probes, mean", [probes for probes, _ in theirs], [one.runs for one in ours])
            named = [world.culprit in suspects for world, (_, suspects) in zip(cases, theirs, strict=True)]
            right = 100 * sum(one.right for one in ours) / worlds
            yield least(f"{name}: culprit in the answer, %", "mozregression", 100 * sum(named) / worlds, right, 100)


def share(name: str, theirs: Sequence[int], ours: Sequence[int]) -> Row:
    """Return a row whose bar is the rival's own mean, and a tenth of a probe."""
    mine, rival = sum(ours) / len(ours), sum(theirs) / len(theirs)
    return Row(name, "mozregression", round(rival, 2), round(mine, 2), round(rival + 0.1, 2), mine <= rival + 0.1)


def mozregression(world: World) -> tuple[int, range]:
    """Run mozregression's bisection; return its probes and the commits of the range that it ends with."""
    from mozregression.bisector import Bisection, BisectorHandler
    from mozregression.build_range import BuildRange

    class Quiet(BisectorHandler):
        def initialize(self) -> None: ...

        def _print_progress(self, new_data: Any) -> None: ...

    run, probes = world.runner(), 0
    builds = BuildRange(None, [Ready(position) for position in range(-1, world.size)])
    bisection = Bisection(Quiet(), builds, None, None, dl_in_background=False)
    while bisection.init_handler(middle_ := bisection.search_mid_point()) == bisection.RUNNING:
        probes += 1
        bisection.handle_verdict(middle_, ANSWERS[run(bisection.build_range[middle_].position)])
    left = bisection.build_range
    return probes, range(left[0].position + 1, left[-1].position + 1)


class Ready:
    """A build that is there; its information is itself."""

    def __init__(self, position: int) -> None:
        self.position, self.build_info = position, self

    def is_available(self) -> bool:
        return True

    def is_valid(self) -> bool:
        return True


def missing() -> list[str]:
    """Return the rivals that are not installed."""
    kas = Path(sys.executable).with_name("kas")
    try:
        import mozregression  # noqa: F401
    except ImportError:
        return ["mozregression"]
    return [name for name, there in (("stg", shutil.which("stg")), ("kas", kas.exists())) if not there]


def main() -> None:
    """Measure, print a table, write the rows where asked, and exit 1 when a row does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clone", type=Path, default=os.environ.get("PATCHKIT_VLLM_CLONE"), metavar="PATH")
    parser.add_argument("--tip", metavar="REF", help="the newest commit to look at (default: upstream's newest)")
    parser.add_argument("--quick", action="store_true", help="few rounds and culprits")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.clone is None:
        parser.exit(1, "give a clone of vLLM: --clone PATH (git clone --bare https://github.com/vllm-project/vllm)\n")
    if absent := missing():
        parser.exit(1, f"not installed: {', '.join(absent)}\n")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="patchkit-bench-") as name:
        clone = Clone.over(options.clone, Path(name) / "vllm.git", options.tip or find_upstream_tip(options.clone))
        course = prepare(Bench(clone, clone.resolve("HEAD").id, Path(name), options.quick))
        rounds = 3 if options.quick else 9
        for measured in (
            measure_stgit(course, rounds),
            measure_kas(course, rounds),
            measure_mozregression(20 if options.quick else 200),
        ):
            for row in measured:
                rows.append(row)
                print(row, flush=True)
    conclude(rows, options.json)


if __name__ == "__main__":
    main()
