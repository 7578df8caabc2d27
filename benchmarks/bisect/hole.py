"""A real hole of vLLM: commits that Python 3.11 and older cannot import, and the commit that repaired them.

From 40bb17502 on a module of vLLM has an f-string that only Python 3.12 reads; 694449050 repairs it, 32 commits later.
Among those `think_start_str` is renamed. `git bisect run`, with exit code 125 for what cannot be imported, leaves the
whole hole; ours leaves it, too, and offers the repair, with which it names the commit. Part `hole` of the benchmark.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.bisect.cases import CAT, Case
from benchmarks.bisect.clones import NEEDED, find_clone, place_mirror, read_or_empty
from benchmarks.bisect.history import History
from benchmarks.bisect.real import REPROS, check_out, write_library
from benchmarks.bisect.rows import Options, Row, leave_out
from patchkit.tools.cache import Cache
from patchkit.tools.git.objects import Repository
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.bisect import BisectRequest, bisect

NAME = "real hole: suspects left"
CASE = Case(
    "reasoning-names-in-a-hole",
    CAT,
    "vllm_reasoning_names.py",
    "757068dc65f6760fec1692ae587d8be13e100ee2",
    "188defbd0bad837f59dd3fafe1dd779b4bd434cb",
    "cbe7d1809",
)
REPAIR = "694449050f8dac3d9853e97e518b4a43ec52106a"
PROBE = """
out=$(PATCHKIT_TREE="$PWD" "$0" "$1" 2>&1) && exit 0
case "$out" in *REGRESSION*) exit 1;; esac
exit 125
"""


def measure_hole(options: Options, _history: History) -> Iterator[Row]:
    """Bisect across the hole with git, without the repair and with it."""
    why = NEEDED if options.clones is None else "a quick run takes one real case" if options.quick else ""
    if sys.version_info >= (3, 12):
        why = "Python 3.12 reads what makes the hole"
    if why or options.clones is None:
        yield leave_out(NAME, "commits", why)
        return
    clone = find_clone(options.clones, CASE.repository)
    with tempfile.TemporaryDirectory(prefix="patchkit-bench-", dir=options.scratch or options.clones) as folder:
        theirs, git_probes = ask_git_bisect(clone, Path(folder))
        alone, mended = (run_ours(clone, Path(folder), fix_up) for fix_up in ((), (REPAIR,)))
    found = str(mended["first_bad"]).startswith(CASE.first_bad) and bool(mended["confirmed"])
    offered = f"--fix-up={REPAIR}" in alone["next"]
    note = (
        f"git: {git_probes} probes; ours: {alone['probes']} probes leave {len(alone['candidates'])} suspects and "
        f"{'offer' if offered else 'do not offer'} the repair, with it {mended['probes']} name the commit"
    )
    ours = len(mended["candidates"])
    yield Row(NAME, "git bisect", theirs, ours, 1, "commits", found and offered, float(found), note=note)


def run_ours(clone: Path, folder: Path, fix_up: tuple[str, ...]) -> dict[str, Any]:
    """Return what our bisect answers."""
    toolkit = Toolkit(Cache(folder / "store"), env=dict(os.environ))
    place_mirror(toolkit, clone)
    recipe = write_library(CASE, clone, folder / f"library-{len(fix_up)}")
    more = {"axis": "commits", "fix_up": fix_up, "exhaustive": True}
    request = BisectRequest(recipe, "git", "regression", CASE.good, CASE.bad, **more)  # type: ignore[arg-type]
    with mock.patch.object(Repository, "read_blob", read_or_empty):
        return bisect(toolkit, request, lambda _: None)


def ask_git_bisect(clone: Path, folder: Path) -> tuple[int, int]:
    """Return how many commits `git bisect run` cannot tell apart in the end, and how many it probed."""
    work = check_out(clone, folder / "git", CASE.good, CASE.bad)
    log = work / ".git" / "probes"
    log.touch()
    probe = f'echo x >> "{log}"{PROBE}'
    words = ["sh", "-c", probe, sys.executable, str(REPROS / CASE.script)]
    subprocess.run(["git", "bisect", "start", CASE.bad, CASE.good], cwd=work, check=True, capture_output=True)
    ended = subprocess.run(["git", "bisect", "run", *words], check=False, cwd=work, capture_output=True, text=True)
    told = ended.stdout + ended.stderr
    suspects = [line for line in told.splitlines() if len(line) == 40 and set(line) <= set("0123456789abcdef")]
    return max(len(suspects), 1), len(log.read_text().split())
