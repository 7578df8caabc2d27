"""Bisect real regressions whose first bad commit is known, beside `git bisect run` on the same ranges.

`python -m benchmarks.bisect.real --clones DIR [--json FILE]`: DIR holds bare clones named OWNER+NAME (or with a folder
repo in it) of vllm-project/vllm-ascend, ROCm/vllm and 1CatAI/1Cat-vLLM. Ours runs the repros; git's probe looks up
whether the known commit is an ancestor, so its count is that of a probe that never errs. A file whose content a clone
lacks is written empty: no repro here reads files of that size.
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
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest import mock

from patchkit.tools.cache import Cache
from patchkit.tools.git.mirror import Mirror
from patchkit.tools.git.objects import Repository
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.bisect import BisectRequest, bisect

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
    """A regression: where it lies, and the commit that is known to have brought it."""

    name: str
    repository: str
    script: str
    good: str
    bad: str
    first_bad: str


@dataclass(frozen=True)
class Result:
    """What a case took: probes of the search without the two ends, and seconds a probe."""

    name: str
    right: bool
    ours: int
    theirs: int
    seconds_a_probe: float


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
)


def run_case(case: Case, clone: Path, folder: Path) -> Result:
    """Bisect one case with both tools."""
    toolkit = Toolkit(Cache(folder / "store"), env=dict(os.environ))
    place_mirror(toolkit, clone)
    recipe = write_library(case, clone, folder / case.name)
    events: list[dict[str, object]] = []
    request = BisectRequest(recipe, "git", "regression", case.good, case.bad, axis="commits")
    started = time.monotonic()
    with mock.patch.object(Repository, "read_blob", read_or_empty):
        result = bisect(toolkit, request, lambda event: events.append(dict(event)))
    seconds = time.monotonic() - started
    probes = [event for event in events if event["event"] == "probe"]
    searched = [event for event in probes if event["stage"] == "search"]
    right = result["first_bad"] == case.first_bad and bool(result["confirmed"])
    return Result(case.name, right, len(searched), count_git(case, clone, folder), round(seconds / len(probes), 2))


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


def count_git(case: Case, clone: Path, folder: Path) -> int:
    """Return how many commits `git bisect run` probes in the same range."""
    work = folder / f"{case.name}-git"
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    (work / ".git" / "objects" / "info" / "alternates").write_text(f"{clone.resolve()}/objects\n")
    (work / ".git" / "HEAD").write_text(f"{case.bad}\n")
    log = work / ".git" / "probes"
    log.touch()
    probe = f'echo x >> "{log}"; ! git merge-base --is-ancestor {case.first_bad} BISECT_HEAD'
    for arguments in (["start", "--no-checkout", case.bad, case.good], ["run", "sh", "-c", probe]):
        subprocess.run(["git", "bisect", *arguments], cwd=work, check=True, capture_output=True)
    return len(log.read_text().split())


def main() -> None:
    """Run every case whose clone is there, print a table, and exit 1 when an answer is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clones", type=Path, required=True, metavar="DIR")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(prefix="patchkit-bench-", dir=options.clones) as folder:
        for case in CASES:
            clone = options.clones / case.repository.replace("/", "+")
            clone = clone / "repo" if (clone / "repo").is_dir() else clone
            result = run_case(case, clone, Path(folder))
            results.append(result)
            verdict = "right" if result.right else "WRONG"
            print(
                f"{result.name:<30} {verdict}  ours {result.ours:>3}  git bisect {result.theirs:>3} probes"
                f"  {result.seconds_a_probe:.2f} s a probe",
                flush=True,
            )
    ours, theirs = (statistics.mean(getattr(one, name) for one in results) for name in ("ours", "theirs"))
    print(f"mean probes: ours {ours:.1f}, git bisect {theirs:.1f}")
    if options.json:
        options.json.write_text(json.dumps({"format": 1, "rows": [asdict(one) for one in results]}, indent=2))
    sys.exit(0 if all(one.right for one in results) else 1)


if __name__ == "__main__":
    main()
