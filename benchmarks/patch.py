"""Measure the patch engine beside what people use today.

    python -m benchmarks.patch --clone PATH [--tip REF] [--quick] [--json FILE]

`--clone` (or PATCHKIT_VLLM_CLONE) is any git clone of vLLM with its history, a fork's too; nothing is written into it.
The history is upstream's: the newest commit of upstream's own line behind HEAD is found (see `find_upstream_tip`) and
told, since a fork's own commits rewrite whole files at once; `--tip` names another one. Rivals must be installed (git,
patch, quilt) and run in the same run. Times are medians in seconds, shares are in percent. PATCHKIT_ASCEND_CLONE and
PATCHKIT_SPARK_CLONE name clones of vllm-project/vllm-ascend and eugr/spark-vllm-docker for the rows that need them.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.patch_cases import measure_cases
from benchmarks.patch_clone import Clone, NoFacts, find_upstream_tip, patch_of, run_git
from benchmarks.patch_drift import Case, Judge, first_parents, make_cases, read_change
from benchmarks.patch_rivals import DriftDesk, missing_tools
from benchmarks.patch_rows import Bench, Row, conclude, least, most, told
from benchmarks.patch_series import SERIES, measure_series
from benchmarks.symbols import measure_symbols
from patchkit.search import Answer, build_graph, find_turn
from patchkit.source.source import FactSettings
from patchkit.stack.gate import check_gate
from patchkit.stack.ladder.climb import Footing, climb
from patchkit.stack.lineage.lineage import Lineage
from patchkit.stack.outcome import Outcome
from patchkit.stack.patch import parse_patches
from patchkit.stack.status.examine import examine_series
from patchkit.stack.status.window import DryRun

CARRIED_DISTANCE = 200  # commits after a patch was taken: it must still be told
HISTORY = 5000


def measure_drift(bench: Bench) -> list[Row]:
    """Bring real commits to older trees; a judge that follows lines through history tells right from wrong."""
    cases = make_cases(bench.repository, bench.tip, 120)
    judge = Judge.over(bench.repository, bench.tip, cases)
    ours = [judge_ours(bench, judge, case) for case in cases]
    name = f"drift, {len(cases)} applications: right place"
    rows = [
        least(f"{name}, %", "-", None, percent([right for right, _ in ours]), 86),
        most("drift: wrong place accepted, count", "-", None, sum(wrong for _, wrong in ours), 0),
    ]
    chosen = slice(None, None, 5 if bench.quick else 1)
    desk = DriftDesk(bench.repository, bench.folder / "drift")
    beside = percent([right for right, _ in ours[chosen]])
    for rival in ("git apply", "git apply --3way", "patch -F3"):
        made = [(case, desk.run(rival, case)) for case in cases[chosen]]
        verdicts = [files is not None and judge.is_right(case, files) for case, files in made]
        wrong = sum(files is not None for _, files in made) - sum(verdicts)
        rows += [
            told(f"drift, {len(made)} of them: right place, %", rival, percent(verdicts), beside),
            told("drift: wrong place accepted, count", rival, wrong, sum(wrong for _, wrong in ours[chosen])),
        ]
    return rows


def percent(verdicts: Sequence[bool]) -> float:
    """Return the share of what is true."""
    return round(100 * sum(verdicts) / len(verdicts), 2)


def judge_ours(bench: Bench, judge: Judge, case: Case) -> tuple[bool, bool]:
    """Return whether the engine was right (or told it is upstream), and whether it took a wrong place unreviewed."""
    tree = bench.repository.read_commit(case.target).tree
    with bench.repository.draft():
        attempt = climb(Footing(bench.repository, tree), parse_patches(case.diff))
        if not attempt.outcome.stands or check_gate(bench.repository, bench.repository.diff(tree, attempt.tree)):
            return False, False
        if attempt.outcome is Outcome.ALREADY_UPSTREAM:
            return True, False
        files = {path: bench.repository.read(attempt.tree, path) or b"" for path in case.paths}
        is_right = judge.is_right(case, files)
    return is_right, not is_right


def measure_upstreamed(bench: Bench) -> list[Row]:
    """Ask for real merged patches, as a downstream carries them, 200 commits after the merge and just before it."""
    step = 105 if bench.quick else 13  # a third of the commits is such as people carry
    chain = first_parents(bench.repository.path, bench.tip, 4000)
    later, asked = [], []
    for position in range(CARRIED_DISTANCE, len(chain) - 1, step):
        diff, paths = read_change(bench.repository.path, chain[position])
        if not paths or taken_back(bench, chain[position], chain[position - CARRIED_DISTANCE]):
            continue
        plain = b"".join(line for line in diff.splitlines(keepends=True) if not line.startswith(b"index "))
        later.append(Case(chain[position], chain[position - CARRIED_DISTANCE], CARRIED_DISTANCE, paths, plain))
        asked.append(Case(chain[position], chain[position + 1], 1, paths, plain))
    found = [is_upstream(bench, case) for case in later]
    false = sum(is_upstream(bench, case) for case in asked)
    desk = DriftDesk(bench.repository, bench.folder / "upstreamed")
    theirs = [desk.is_reversed(case) for case in later]
    share = 100 / len(later)
    name = f"upstreamed, {len(later)} patches {CARRIED_DISTANCE} commits later"
    return [
        least(f"{name}: told, %", "git apply -R --check", round(sum(theirs) * share, 2), sum(found) * share, 98),
        most("upstreamed: told before it was merged, count", "git apply -R --check", None, false, 0),
    ]


def taken_back(bench: Bench, commit: str, until: str) -> bool:
    """Return whether a commit was reverted by name: then it is not upstream any more."""
    subject = bench.repository.read_commit(commit).subject
    log = run_git(bench.repository.path, "log", "--format=%s", f"{commit}..{until}").decode()
    return "Revert" in subject or f'Revert "{subject.split(" (#")[0]}' in log


def is_upstream(bench: Bench, case: Case) -> bool:
    """Return whether the engine tells a patch as upstream already."""
    tree = bench.repository.read_commit(case.target).tree
    lineage = Lineage(bench.repository, case.target)
    return climb(Footing(bench.repository, tree, lineage), parse_patches(case.diff)).outcome is Outcome.ALREADY_UPSTREAM


def measure_status(bench: Bench) -> list[Row]:
    """Look at 30 patches against one commit, and find a first conflict among 5,000 commits."""
    chain = first_parents(bench.repository.path, bench.tip, HISTORY + 400)
    folder = bench.folder / "status"
    folder.mkdir()
    patches = []
    for commit in chain[40:]:
        diff, paths = read_change(bench.repository.path, commit)
        if paths:
            patches.append(patch_of(folder, f"{len(patches):04}.patch", diff))
        if len(patches) == SERIES:
            break
    at = bench.clone.resolve(bench.tip)
    started = time.perf_counter()
    examine_series(bench.clone, bench.clone.tree(at), patches, NoFacts())
    rows = [most("status of 30 patches against one commit, s", "-", None, time.perf_counter() - started, 2)]
    return [*rows, first_conflict(bench, chain, folder)]


def first_conflict(bench: Bench, chain: Sequence[str], folder: Path) -> Row:
    """Take a patch made 5,000 commits ago that does not land at the tip, and find the commit that broke it."""
    good = chain[HISTORY]
    for commit in chain[HISTORY - 1 :]:
        _, paths = read_change(bench.repository.path, commit)
        if not paths:
            continue
        backward = run_git(bench.repository.path, "diff", "--full-index", commit, f"{commit}^", "--", *paths)
        patch = patch_of(folder, "first.patch", backward)
        run = DryRun(bench.clone, (patch,), FactSettings(), Lineage(bench.repository, bench.tip))
        if run.outcomes(good)[0].stands and not run.outcomes(bench.tip)[0].stands:
            break
    run = DryRun(bench.clone, (patch,), FactSettings(), Lineage(bench.repository, bench.tip))
    started = time.perf_counter()
    history = bench.repository.parents_between(good, bench.tip)
    graph = build_graph(history, good, bench.tip)
    turn = find_turn(graph, lambda node: "good" if run.outcomes(node)[0].stands else "bad")
    taken = time.perf_counter() - started
    if not isinstance(turn, Answer):
        raise SystemExit(f"first conflict: {turn}")
    return most(f"first conflict in {len(history)} commits, s", "-", None, taken, 20)


def main() -> None:
    """Measure everything, print a table, write the rows where asked, and exit 1 when a row does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clone", type=Path, default=os.environ.get("PATCHKIT_VLLM_CLONE"), metavar="PATH")
    parser.add_argument("--tip", metavar="REF", help="the newest commit to look at (default: upstream's newest)")
    parser.add_argument("--quick", action="store_true", help="fewer cases and rounds, under 50 s")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.clone is None:
        parser.exit(1, "give a clone of vLLM: --clone PATH (git clone --bare https://github.com/vllm-project/vllm)\n")
    if missing := missing_tools():
        parser.exit(1, f"not installed: {', '.join(missing)}\n")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="patchkit-bench-") as name:
        folder = Path(name)
        clone = Clone.over(Path(options.clone), folder / "vllm.git", options.tip or find_upstream_tip(options.clone))
        bench = Bench(clone, clone.resolve("HEAD").id, folder, options.quick)
        print(f"history behind {bench.tip[:12]}: {clone.repository.read_commit(bench.tip).subject}")
        measures: Sequence[Any] = (measure_series, measure_drift, measure_upstreamed, measure_cases)
        measures = (*measures, measure_status, measure_symbols)
        for measure in measures:
            started = time.perf_counter()
            for row in measure(bench):
                rows.append(row)
                print(row)
            print(f"({measure.__name__}: {time.perf_counter() - started:.1f} s)")
    conclude(rows, options.json)


if __name__ == "__main__":
    main()
