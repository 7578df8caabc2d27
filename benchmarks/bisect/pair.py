"""Bisect vLLM-Ascend with each commit beside its own vLLM, on real regressions that a pin move brought.

`python -m benchmarks.bisect.pair --clones DIR [--json FILE]`: DIR holds bare clones named OWNER+NAME (or with a folder
repo in it) of vllm-project/vllm-ascend and of 1CatAI/1Cat-vLLM, whose history is vLLM's until 2026-05-29. The repro
reads whether what a file of vLLM-Ascend imports from vLLM is there. Both culprits of each case were found beforehand by
reading every commit of both ranges, which takes minutes. The rival judges all commits beside one vLLM, that of the bad
end, as a container does.

The parts `pins` and `pairs` of `benchmarks.bisect`.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pygit2

from benchmarks.bisect.clones import NEEDED, find_clone, place_mirror, read_or_empty
from benchmarks.bisect.history import History, load_history
from benchmarks.bisect.real import REPROS
from benchmarks.bisect.rows import Options, Row, leave_out
from benchmarks.bisect.table import tell
from patchkit.pipeline import Question, judge, open_recipe
from patchkit.source.pins.find import Pin, PinReader
from patchkit.tools.cache import Cache
from patchkit.tools.git.history import first_parents
from patchkit.tools.git.objects import Repository
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.bisect import BisectRequest, bisect

ASCEND, VLLM = "vllm-project/vllm-ascend", "1CatAI/1Cat-vLLM"
SCRIPT = "pair_imports.py"
LAST = 500
FOUND, LOST = "commits whose vLLM is found", f"lost to another pin, last {LAST}"
RECIPE = """format: 1
name: pair
upstream:
  vllm: {{git: "{vllm}", ref: main}}
  vllm-ascend: {{git: "{ascend}", ref: "{bad}", pairs-with: vllm}}
pins: {{file: "{file}"}}
issues: [regression]
"""
ISSUE = f"""format: 1
title: An import from vLLM that is not there
upstream: vllm-ascend
signature: "REGRESSION"
repros: [{{name: imports, fidelity: static, script: {SCRIPT}, pair: true}}]
"""


@dataclass(frozen=True)
class Case:
    """A file of vLLM-Ascend, a range, the commit that moved the pin, and vLLM's commit that took a name away."""

    name: str
    file: str
    good: str
    bad: str
    moved: str
    taken: str


CASES = (
    Case(
        "mamba-cache",
        "vllm_ascend/models/qwen3_next.py",
        "12bcbd02bb52e1a47f9c93b49af1a24eb32d175a",
        "9caf6fbaf59c74a8600c75e6b9af36f8b0e8890b",
        "a055183821120f66b44b514b1795c51ec142df2e",
        "a903669e10cc98507fa5c2ae099b7161f7140cf7",
    ),
    Case(
        "eagle-speculator",
        "vllm_ascend/worker/v2/spec_decode/eagle.py",
        "41eb71d665ab9f0b72b6d3bc15d41dee7fcc0f5f",
        "1f71da80eba7cefe4b4a9f459d00e5409678bbb7",
        "e4458b2d2bc292b82af2387ec25442e942323ee0",
        "a4047d4ea993fd52038433d87c16e603bee4f214",
    ),
    Case(
        "gated-delta-net",
        "vllm_ascend/patch/worker/patch_qwen3_5_310.py",
        "c53c3f58180dcd50fd485926e81532151bb19035",
        "dae3c99ea7615b1ff0a3e0e7680972ac91296fc4",
        "4140e84ef3e14967cc67f0347a0ce1693b09dfc7",
        "a8eab8f30dda380a67c515c743365840b4347ccd",
    ),
    Case(
        "kv-offload",
        "vllm_ascend/kv_offload/npu.py",
        "8e5b20b859a536ff07a6f824dd53bef8a58d74cb",
        "5b329d5450b07bdc64fec71cce0bc0ff17956992",
        "3636a3dc9e7abe08e9eb27ef56d0c6ef89d71ab3",
        "c42981d034713da814913ebd2e53269346f3ecea",
    ),
)


def measure_pins(options: Options, _history: History) -> Iterator[Row]:
    """Count the commits of the main branch whose vLLM is not found; a quick run reads the newest alone."""
    if options.clones is None:
        yield from (leave_out(name, "%", NEEDED) for name in (FOUND, LOST))
        return
    repository = Repository(find_clone(options.clones, ASCEND))
    reader, tip = PinReader(repository, "vllm"), repository.find_commit("HEAD")
    history = [commit for commit, _ in first_parents(repository, str(tip))][: LAST if options.quick else None]
    found = [reader.read(repository.read_commit(commit).tree) for commit in history]
    places = Counter((pins[0].kind, pins[0].path) for pins in found if pins).most_common()
    without = [commit[:12] for commit, pins in zip(history, found, strict=True) if not pins]
    share = round(100 * (1 - len(without) / len(history)), 2)
    said = ", ".join(f"{count} by the {kind} in {path}" for (kind, path), count in places)
    note = f"{len(history) - len(without)} of {len(history)}: {said}; none in {', '.join(without) or 'no commit'}"
    yield Row(FOUND, "none", None, share, None, "%", len(without) <= 1, note=note)
    last = [pins for pins in found[:LAST] if pins]
    container = release_of(found[0])
    lost = round(100 * sum(release_of(pins) != container for pins in last) / LAST, 1)
    ours = round(100 * (1 - len(last) / LAST), 1)
    yield Row(LOST, f"a container with {container}", lost, ours, 0, "%", ours == 0)


def measure_pairs(options: Options, _history: History) -> Iterator[Row]:
    """Bisect each case; a quick run takes the first alone."""
    chosen = CASES[: 1 if options.quick else None] if options.clones else ()
    if options.clones is not None:
        pygit2.option(pygit2.enums.Option.ENABLE_STRICT_OBJECT_CREATION, False)  # the clones may lack large files
        clones = {name: find_clone(options.clones, name) for name in (ASCEND, VLLM)}
        with tempfile.TemporaryDirectory(prefix="patchkit-bench-", dir=options.scratch or options.clones) as folder:
            for case in chosen:
                yield from measure_case(case, clones, Path(folder))
    why = "a quick run takes one case" if options.clones else NEEDED
    for case in CASES[len(chosen) :]:
        yield leave_out(f"pair {case.name}: culprits missed", "of 2", why)
        yield leave_out(f"pair {case.name}: skipped for a pin", "probes", why)


def release_of(pins: tuple[Pin, ...]) -> str:
    """Return the release that a commit names; '' when it names none."""
    return next((pin.ref for pin in pins if pin.kind == "tag"), "")


def measure_case(case: Case, clones: dict[str, Path], folder: Path) -> Iterator[Row]:
    """Bisect a case, and judge its ends beside the one vLLM that a container has."""
    toolkit = Toolkit(Cache(folder / "store"), env=dict(os.environ))
    for clone in clones.values():
        place_mirror(toolkit, clone)
    recipe = write_library(case, clones, folder / case.name)
    events: list[dict[str, Any]] = []
    request = BisectRequest(recipe, "git", "", case.good, case.bad, axis="pair", restart=True)
    started = time.monotonic()
    with mock.patch.object(Repository, "read_blob", read_or_empty):
        result = bisect(toolkit, request, lambda event: events.append(dict(event)))
        alone = judge_alone(toolkit, recipe, case)
    probes = [event for event in events if event["event"] == "probe"]
    moves = count_moves(clones[ASCEND], case)
    inside = result.get("inside") or {}
    right = (result["first_bad"], inside.get("first_bad")) == (case.moved, case.taken) and result["confirmed"]
    per_probe = (time.monotonic() - started) / len(probes)
    searched = sum(event["stage"] == "search" for event in probes)
    wrong = 0 if right and moves >= 2 else 2
    fooled = 0 if alone == {"good": "good", "bad": "bad"} else 2
    note = (
        f"{moves} pin moves in the range; {searched} probes and {len(probes) - searched} of ends and confirmation, "
        f"{per_probe:.2f} s a probe; beside the bad end's vLLM the good end is {alone['good']}"
    )
    yield Row(f"pair {case.name}: culprits missed", "one vLLM", fooled, wrong, 0, "of 2", not wrong, note=note)
    skipped = sum(event["reason"] == "no-pair" for event in probes)
    yield Row(f"pair {case.name}: skipped for a pin", "none", None, skipped, 0, "probes", skipped == 0)


def judge_alone(toolkit: Toolkit, recipe: Path, case: Case) -> dict[str, str]:
    """Return the answers at both ends beside the vLLM of the bad end."""
    opened = open_recipe(toolkit, recipe, "git")
    issue, repro = opened.loaded.repros_named("regression")[0]
    ends = {name: opened.sources["vllm-ascend"].resolve(ref) for name, ref in (("good", case.good), ("bad", case.bad))}
    pair = opened.paired.find(ends["bad"])
    return {
        name: str(judge(opened, Question(commit, issue, repro, "others", pair=pair)).answer)
        for name, commit in ends.items()
    }


def count_moves(clone: Path, case: Case) -> int:
    """Return how many commits of the range move the pin."""
    repository = Repository(clone)
    reader = PinReader(repository, "vllm")
    named = []
    for commit, _ in first_parents(repository, case.bad):
        named.append(next((pin.ref for pin in reader.read(repository.read_commit(commit).tree)), ""))
        if commit == case.good:
            break
    return sum(newer != older for newer, older in itertools.pairwise(named))


def write_library(case: Case, clones: dict[str, Path], folder: Path) -> Path:
    """Write the recipe and the issue of a case; return the recipe."""
    issue, recipe = folder / "issues" / "regression", folder / "recipes" / "pair" / "recipe.yaml"
    issue.mkdir(parents=True)
    recipe.parent.mkdir(parents=True)
    shutil.copy(REPROS / SCRIPT, issue)
    (issue / "issue.yaml").write_text(ISSUE)
    recipe.write_text(RECIPE.format(vllm=clones[VLLM], ascend=clones[ASCEND], bad=case.bad, file=case.file))
    return recipe


def main() -> int:
    """Measure, print a table, and return 1 when a row misses."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clones", type=Path, required=True, metavar="DIR")
    parser.add_argument("--scratch", type=Path, metavar="DIR", help="on the same disk; default: the clones' folder")
    parser.add_argument("--quick", action="store_true", help="one case, and the newest pins")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args()
    options = Options(clones=given.clones, scratch=given.scratch, quick=given.quick)
    history = load_history(None)
    return tell(itertools.chain(measure_pins(options, history), measure_pairs(options, history)), given.json)


if __name__ == "__main__":
    sys.exit(main())
