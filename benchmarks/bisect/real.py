"""Bisect real regressions whose first bad commit is known, beside `git bisect run` on the same ranges.

`python -m benchmarks.bisect.real --clones DIR [--json FILE]`: DIR holds bare clones named OWNER+NAME (or with a folder
repo in it) of vllm-project/vllm-ascend, ROCm/vllm, 1CatAI/1Cat-vLLM and eugr/spark-vllm-docker. Ours runs the repros;
git's probe looks up whether the known commit is an ancestor, so its count is that of a probe that never errs; it checks
every commit out, as `git bisect run` does. A file whose content a clone lacks is written empty by ours and left out of
git's work tree: no repro here reads files of that size. Rows: name, rival, theirs, ours, bar, unit, holds.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from patchkit.tools.cache import Cache
from patchkit.tools.git.mirror import Mirror
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
class Case:
    """A regression: where it lies, and the commit that is known to have brought it (one of several, with commas)."""

    name: str
    repository: str
    script: str
    good: str
    bad: str
    first_bad: str


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


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    rival: str
    theirs: float | None
    ours: float
    bar: float
    unit: str
    holds: bool


ASCEND, ROCM, CAT = "vllm-project/vllm-ascend", "ROCm/vllm", "1CatAI/1Cat-vLLM"
CASES = (
    Case(
        "ascend-eplb-condition",
        ASCEND,
        "ascend_eplb_condition.py",
        "e38ef2c4344e11130a8fae5260b9dad6962d1fd1",
        "e945e919331d8856cd01db7c467b61da4bf76c61",
        "c848da0687a1f74df5c8dcf33f577fa20491dd58",
    ),
    Case(
        "ascend-polib-import",
        ASCEND,
        "ascend_polib_import.py",
        "aabec5efb082c960ca54ac9006e1780f0057378e",
        "753d7ba875e623a83fec86440e8c00603880c0b1",
        "fbbf5167ada3f3b59909bcf947e69036fc4af425",
    ),
    Case(
        "ascend-models-layer-package",
        ASCEND,
        "package_marker.py",
        "6179cb07354ecbd49162c62802cd2d24ace1da7d",
        "b3da374f6489d77a6f6a54c4a885ceb25d45c4fc",
        "7bce23cc0572a7793636ae215015a528e4503f1e",
    ),
    Case(
        "vllm-rpc-port",
        ROCM,
        "vllm_env_default.py",
        "bb2fc08072db2d96e547407b4301fb6ba141d9d6",
        "a3bbbfa1d8c2f30581d37c6f30429d648bbbf87c",
        "ed812a73fae77bb520b739cfeaad36dbd61e2b03",
    ),
    Case(
        "vllm-spec-decode-package",
        ROCM,
        "package_marker.py",
        "bffddd9a05a6d0d3ea04b7baad1966e4f57f94c7",
        "da833b0aeee979bd754e92f7ada3a6709cf51954",
        "80f63a3966a6dbfd492ccd74004da5929cdba2bb",
    ),
    Case(
        "rocm-fused-moe-chunk",
        ROCM,
        "vllm_env_default.py",
        "d5bf9bc9b735bc71e4edb1c5057b1ef329e88710",
        "48c0cb4f2f4d8aa09c80a90faea72cd8d093a878",
        "34a0e96d463d37cf85cee9c2cd01397034e97573",
    ),
    Case(
        "vllm-sched-getaffinity",
        CAT,
        "vllm_sched_getaffinity.py",
        "ecd5443dbcd1de360fff067547c68a1128dcfb1b",
        "93726b2a1c766a27f10ad7c3f709ffbacb94bcf9",
        "abebd9323d7cf8abefd07f976be3be356d873075",
    ),
    Case(
        "non-monotonic",
        CAT,
        "vllm_dummy_sampler_run.py",
        "437b76ff5^",
        "1fc973c0b",
        "437b76ff5,8d5aa466f,1fc973c0b",
    ),
)
PATCH = Case(
    "patch-stops-applying",
    CAT,
    "fastsafetensors.patch",
    "794029f012066e6039b63566ef7d845af1ade831",
    "4ff865c38eac3c3602c064fd43b00836805cd0a4",
    "d9bede0314ba19a3f8336dcaeeeaf9e2c5487053",
)
SPARK = "eugr/spark-vllm-docker"


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


def read_or_empty(
    repository: Repository, blob: str, read: Callable[[Repository, str], bytes] = Repository.read_blob
) -> bytes:
    """Return a file's content, empty where the clone lacks it."""
    try:
        return read(repository, blob)
    except KeyError:
        return b""


def place_mirror(toolkit: Toolkit, clone: Path) -> None:
    """Put a clone where the mirror of its path lies: one that lacks objects cannot be cloned."""
    mirror = Mirror(toolkit, str(clone))
    if not mirror.exists():
        shutil.copytree(clone, mirror.path, copy_function=os.link, symlinks=True)


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
    work = folder / f"{case.name}-git"
    good, bad = (ask_git(clone, "rev-parse", ref).strip() for ref in (case.good, case.bad))
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


def ask_git(clone: Path, *arguments: str, text: str | None = None) -> str:
    """Return what git says in a clone."""
    command = ["git", "--git-dir", str(clone), *arguments]
    return subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout


def missing_paths(clone: Path, commit: str) -> list[str]:
    """Return the files of a commit whose content the clone lacks."""
    entries = [line.split("\t", 1) for line in ask_git(clone, "ls-tree", "-r", commit).splitlines() if " blob " in line]
    wanted = "".join(f"{head.split()[2]}\n" for head, _ in entries)
    answers = ask_git(clone, "cat-file", "--batch-check", text=wanted).splitlines()
    return [path for (_, path), answer in zip(entries, answers) if answer.endswith("missing")]


def make_rows(results: Sequence[Result], patch: tuple[bool, float]) -> list[Row]:
    """Return the rows of the table: the cases one by one, then the means that must hold."""
    rows = [
        Row(
            f"{one.name}: {'right' if one.right else 'WRONG'}",
            "git bisect",
            one.theirs,
            one.ours,
            float("inf"),
            "probes",
            one.right,
        )
        for one in results
    ]
    known = [one for one in results if one.name != "non-monotonic"]
    ours, theirs = (statistics.mean(getattr(one, name) for one in known) for name in ("ours", "theirs"))
    rows.append(
        Row("mean probes", "git bisect", round(theirs, 2), round(ours, 2), theirs / 2, "probes", ours <= theirs / 2)
    )
    for name, mine, gits in (("wall", "overhead_seconds", "git_seconds"), ("CPU", "overhead_cpu", "git_cpu")):
        cost, git_cost = (round(statistics.mean(getattr(one, field) for one in results), 3) for field in (mine, gits))
        rows.append(
            Row(f"a probe besides the repro, {name}", "git bisect run", git_cost, cost, 0.3, "seconds", cost <= 0.3)
        )
    warned = any("revert-reland" in one.warnings for one in results if one.name == "non-monotonic")
    rows.append(Row("non-monotonic warns", "-", None, float(warned), 1, "", warned))
    right, seconds = patch
    holds = right and seconds < 20
    rows.append(Row("patch-stops-applying", "-", None, seconds, 20, "seconds", holds))
    return rows


def main() -> None:
    """Run every case whose clone is there, print a table, and exit 1 when a row does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clones", type=Path, required=True, metavar="DIR")
    parser.add_argument("--only", metavar="NAME", help="one case")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(prefix="patchkit-bench-", dir=options.clones) as folder:
        for case in CASES:
            if options.only in (None, case.name):
                results.append(run_case(case, find_clone(options.clones, case.repository), Path(folder)))
                print(results[-1], flush=True)
        patch = find_conflict(find_clone(options.clones, CAT), find_clone(options.clones, SPARK), Path(folder))
    rows = make_rows(results, patch)
    for row in rows:
        theirs = "" if row.theirs is None else f"{row.rival} {row.theirs:g}"
        state = "holds" if row.holds else "MISSED"
        print(f"{row.name:<42} {row.ours:>7g} {row.unit:<8} bar {row.bar:<6g} {theirs}: {state}")
    if options.json:
        options.json.write_text(json.dumps({"format": 1, "rows": [asdict(one) for one in rows]}, indent=2))
    sys.exit(0 if all(row.holds for row in rows) else 1)


def find_clone(clones: Path, repository: str) -> Path:
    """Return the clone of a repository."""
    clone = clones / repository.replace("/", "+")
    return clone / "repo" if (clone / "repo").is_dir() else clone


if __name__ == "__main__":
    main()
