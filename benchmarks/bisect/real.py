"""Bisect real regressions whose first bad commit is known, beside `git bisect run` on the same ranges.

`python -m benchmarks.bisect.real --clones DIR [--json FILE]`: DIR holds bare clones named OWNER+NAME (or with a folder
repo in it) of vllm-project/vllm-ascend, ROCm/vllm, 1CatAI/1Cat-vLLM and eugr/spark-vllm-docker. Ours runs the repros;
git's probe looks up whether the known commit is an ancestor, so its count is that of a probe that never errs; it checks
every commit out, as `git bisect run` does. A file whose content a clone lacks is written empty by ours and left out of
git's work tree: no repro here reads files of that size. The part `real` of `benchmarks.bisect`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.bisect.cases import ASCEND, CASES, CAT, PATCH, Case
from benchmarks.bisect.clones import NEEDED, ask_git, find_clone, missing_paths, place_mirror, read_or_empty
from benchmarks.bisect.history import History, load_history
from benchmarks.bisect.rows import Options, Row, leave_out
from benchmarks.bisect.table import tell
from patchkit.tools.cache import Cache
from patchkit.tools.git.objects import Repository
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.bisect import BisectRequest, bisect
from patchkit.workflows.status import StatusRequest, tell_status

REPROS = Path(__file__).parent / "repros"
RECIPE = """format: 1
name: regression
upstream: {{{upstream}: {{git: "{url}", ref: "{bad}"}}}}
pins: {{case: "{case}"}}
issues: [regression]
"""
ISSUE = """format: 1
title: {case}
upstream: {upstream}
signature: "REGRESSION"
repros: [{{name: check, fidelity: static, script: {script}}}]
"""


@dataclass(frozen=True)
class Result:
    """What a case took: probes of the search without the two ends, and seconds of a probe besides the repro.

    `first_seconds` is that of the first, which writes the whole tree; `overhead_seconds` the median of the others.
    """

    name: str
    right: bool
    ours: int
    theirs: int
    overhead_seconds: float
    first_seconds: float
    overhead_cpu: float
    git_seconds: float
    git_cpu: float
    reverted: str | None
    warnings: tuple[str, ...]


SPARK = "eugr/spark-vllm-docker"
QUICK_CASE = "ascend-polib-import"
MEANS = (
    ("real: mean probes", "probes"),
    ("real: a probe besides the repro, wall", "s"),
    ("real: a probe besides the repro, CPU", "s"),
    ("real: non-monotonic warns", "cases"),
)


def run_case(case: Case, clone: Path, folder: Path) -> Result:
    """Bisect one case with both tools."""
    toolkit = Toolkit(Cache(folder / "store"), env=dict(os.environ))
    place_mirror(toolkit, clone)
    recipe = write_library(case, clone, folder / case.name)
    events: list[tuple[float, float, Mapping[str, Any]]] = []
    request = BisectRequest(recipe, "git", "regression", case.good, case.bad, axis="commits")
    with mock.patch.object(Repository, "read_blob", read_or_empty):
        result = bisect(toolkit, request, lambda event: events.append((time.monotonic(), time.process_time(), event)))
    probes = [event for _, _, event in events if event["event"] == "probe"]
    searched = [event for event in probes if event["stage"] == "search"]
    right = any((result["first_bad"] or "-").startswith(known) for known in case.first_bad.split(","))
    walls, cpus = overheads(events)
    theirs, git_seconds, git_cpu = run_git(case, clone, folder)
    return Result(
        case.name,
        right and (bool(result["confirmed"]) or "," in case.first_bad),
        len(searched),
        theirs,
        round(statistics.median(walls[1:]), 3),
        round(walls[0], 3),
        round(statistics.median(cpus[1:]), 3),
        git_seconds,
        git_cpu,
        result["reverted"],
        tuple(warning["kind"] for warning in result["warnings"]),
    )


def overheads(events: Sequence[tuple[float, float, Mapping[str, Any]]]) -> tuple[list[float], list[float]]:
    """Return what each probe that ran took from the answer before it to its own, the decision and the journal with it:
    the wall time without the repro's own, and the time that this process worked; in seconds. The second does not depend
    on what else the machine does.
    """
    walls, cpus, before = [], [], (0.0, 0.0)
    for at, worked, event in events:
        if event["event"] == "probe" and not event["reused"]:
            walls.append(at - before[0] - event["duration_seconds"])
            cpus.append(worked - before[1])
        if event["event"] != "ask":
            before = (at, worked)
    return walls, cpus


def find_conflict(clone: Path, spark: Path, folder: Path) -> tuple[bool, float]:
    """Find the commit at which a patch of another repository stops applying; return if it is right, and the seconds."""
    library = folder / PATCH.name
    show = ["git", "--git-dir", str(spark), "show", f"HEAD:{PATCH.script}"]
    library.mkdir()
    (library / PATCH.script).write_bytes(subprocess.run(show, check=True, capture_output=True).stdout)
    series = f"[{{file: {PATCH.script}}}]"
    text = f'format: 1\nname: p\nupstream: {{vllm: {{git: "{clone}", ref: "{PATCH.good}"}}}}\nseries: {series}\n'
    (library / "recipe.yaml").write_text(text)
    toolkit = Toolkit(Cache(folder / "store"), env=dict(os.environ))
    place_mirror(toolkit, clone)
    started = time.monotonic()
    request = StatusRequest(library / "recipe.yaml", (PATCH.bad,), first_conflict=True, source="git")
    report = tell_status(toolkit, request)
    seconds = time.monotonic() - started
    found = [one.by.commit for one in report.first_conflicts if one.by is not None]
    return found == [PATCH.first_bad], round(seconds, 2)


def write_library(case: Case, clone: Path, folder: Path) -> Path:
    """Write the recipe and the issue of a case; return the recipe."""
    names = {"case": case.name, "url": str(clone), "bad": case.bad, "script": case.script}
    names["upstream"] = "vllm-ascend" if case.repository == ASCEND else "vllm"
    issue, recipe = folder / "issues" / "regression", folder / "recipes" / "regression" / "recipe.yaml"
    issue.mkdir(parents=True)
    recipe.parent.mkdir(parents=True)
    shutil.copy(REPROS / case.script, issue)
    (issue / "issue.yaml").write_text(ISSUE.format(**names))
    recipe.write_text(RECIPE.format(**names))
    return recipe


def run_git(case: Case, clone: Path, folder: Path) -> tuple[int, float, float]:
    """Return how many commits `git bisect run` probes in the same range, and its seconds and CPU seconds a probe."""
    good, bad = (ask_git(clone, "rev-parse", ref).strip() for ref in (case.good, case.bad))
    work = check_out(clone, folder / f"{case.name}-git", good, bad)
    log = work / ".git" / "probes"
    log.touch()
    first_bad = ask_git(clone, "rev-parse", case.first_bad.split(",")[0]).strip()
    probe = f'echo x >> "{log}"; ! git merge-base --is-ancestor {first_bad} HEAD'
    started, worked = time.monotonic(), os.times()
    for arguments in (["start", bad, good], ["run", "sh", "-c", probe]):
        subprocess.run(["git", "bisect", *arguments], cwd=work, check=True, capture_output=True)
    seconds, ended = time.monotonic() - started, os.times()
    cpu = ended.children_user + ended.children_system - worked.children_user - worked.children_system
    count = len(log.read_text().split())
    return count, round(seconds / count, 2), round(cpu / count, 3)


def check_out(clone: Path, work: Path, good: str, bad: str) -> Path:
    """Make a work tree of the bad end without the files that the clone lacks; return it."""
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    (work / ".git" / "objects" / "info" / "alternates").write_text(f"{clone.resolve()}/objects\n")
    (work / ".git" / "HEAD").write_text(f"{bad}\n")
    for setting in ("core.sparseCheckout", "gc.auto=0"):
        name, _, value = setting.partition("=")
        subprocess.run(["git", "config", name, value or "true"], cwd=work, check=True)
    left_out = sorted({path for end in (good, bad) for path in missing_paths(clone, end)})
    (work / ".git" / "info").mkdir(exist_ok=True)
    (work / ".git" / "info" / "sparse-checkout").write_text("/*\n" + "".join(f"!/{path}\n" for path in left_out))
    subprocess.run(["git", "checkout", "-q", "-f", bad], cwd=work, check=True)
    return work


def measure_real(options: Options, _history: History) -> Iterator[Row]:
    """Bisect every case beside git, then give the means that must hold; a quick run takes the first case alone."""
    chosen = [case for case in CASES if not options.quick or case.name == QUICK_CASE]
    results: list[Result] = []
    if options.clones is not None:
        with tempfile.TemporaryDirectory(prefix="patchkit-bench-", dir=options.scratch or options.clones) as folder:
            for case in chosen:
                results.append(run_case(case, find_clone(options.clones, case.repository), Path(folder)))
                yield case_row(results[-1])
            yield conflict_row(options.clones, Path(folder))
    why = "a quick run takes one case" if options.clones else NEEDED
    done = {one.name for one in results}
    yield from (leave_out(f"real: {case.name}", "probes", why) for case in CASES if case.name not in done)
    if len(done) == len(CASES):
        yield from mean_rows(results)
    else:
        yield from (leave_out(name, unit, why) for name, unit in MEANS)
    if options.clones is None:
        yield leave_out(f"real: {PATCH.name}", "s", why)


def case_row(one: Result) -> Row:
    """Return the row of a case: the known commit must be found."""
    note = f"{one.overhead_seconds} s a probe besides the repro, git's {one.git_seconds}; the first {one.first_seconds}"
    name = f"real: {one.name}"
    return Row(name, "git bisect", one.theirs, one.ours, None, "probes", one.right, float(one.right), note=note)


def mean_rows(results: Sequence[Result]) -> Iterator[Row]:
    """Return the rows of all cases together; the case whose commit is one of several is left out of the mean probes."""
    known = [one for one in results if one.name != "non-monotonic"]
    ours, theirs = (round(statistics.mean(getattr(one, name) for one in known), 2) for name in ("ours", "theirs"))
    (probes, of), (wall, seconds), (cpu, _), (warns, cases) = MEANS
    yield Row(probes, "git bisect", theirs, ours, theirs / 2, of, ours <= theirs / 2, note="the bar is half of git's")
    for name, mine, gits in ((wall, "overhead_seconds", "git_seconds"), (cpu, "overhead_cpu", "git_cpu")):
        cost, git_cost = (round(statistics.mean(getattr(one, field) for one in results), 3) for field in (mine, gits))
        yield Row(name, "git bisect run", git_cost, cost, 0.3, seconds, cost <= 0.3)
    warned = any("revert-reland" in one.warnings for one in results if one.name == "non-monotonic")
    yield Row(warns, "-", None, float(warned), 1, cases, warned, note="the bar is a least number")


def conflict_row(clones: Path, folder: Path) -> Row:
    """Return the row of the patch that stops applying."""
    right, seconds = find_conflict(find_clone(clones, CAT), find_clone(clones, SPARK), folder)
    return Row(f"real: {PATCH.name}", "-", None, seconds, 20, "s", right and seconds < 20, float(right))


def main() -> int:
    """Run the cases, print a table, and return 1 when a row misses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clones", type=Path, required=True, metavar="DIR")
    parser.add_argument("--scratch", type=Path, metavar="DIR", help="on the same disk; default: the clones' folder")
    parser.add_argument("--quick", action="store_true", help="one case")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    options = Options(clones=given.clones, scratch=given.scratch, quick=given.quick)
    return tell(measure_real(options, load_history(None)), given.json)


if __name__ == "__main__":
    sys.exit(main())
