"""Probes on a stale native binary: what each probe really ran on, ours beside a tool that reuses what is built.

Both bisect the same real commits, whose native input is what the history's was: a build copies it, and every probe
notes the input of its commit and the copy that it finds. The rival is what vLLM-Ascend's `tools/bisect` does as it
comes (`--native-check per-commit`): the bad end is built, and another commit is built only if its own diff touches
native files; `git bisect run` chooses the commits.
"""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bisect.history import History
from benchmarks.bisect.rivals import GIT
from benchmarks.bisect.rows import Options, Row, spread
from patchkit.tools.cache import Cache
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.bisect import BisectRequest, bisect

SIZE, QUICK_SIZE, WINDOW = 1000, 100, 50  # commits; culprits that share a window of the history
RECIPE = """format: 1
name: product
upstream: {{vllm: {{git: "{url}", ref: main}}}}
issues: [fault]
environment:
  native: {{inputs: ["csrc/**"], outputs: ["pkg/*.so"], build: [cp, csrc/core.c, pkg/core.so]}}
"""
ISSUE = """format: 1
title: A fault
signature: "FAULT"
repros: [{name: read, fidelity: static, script: repro.py}]
"""
REPRO = """import os, pathlib, sys
tree = pathlib.Path(os.environ["PATCHKIT_TREE"])
source, built = (tree / name for name in ("csrc/core.c", "pkg/core.so"))
with open({log!r}, "a") as stream:
    stream.write(source.read_text().strip() + " " + built.read_text().strip() + "\\n")
if int((tree / "pkg/commit.txt").read_text()) >= {culprit}:
    sys.exit("FAULT")
"""
RIVAL = """
git diff --quiet HEAD~1 HEAD -- csrc || cp csrc/core.c "$1/built"
echo $(cat csrc/core.c "$1/built") >> "$1/probes"
test $(cat pkg/commit.txt) -lt $2
"""


@dataclass(frozen=True)
class Window:
    """A piece of history, and the culprits to find in it: positions from 1 on, of the commits above the good end."""

    keys: tuple[str, ...]
    culprits: tuple[int, ...]


@dataclass(frozen=True)
class Count:
    """How many probes ran, how many of them on another binary than their commit's, and was the culprit named?"""

    probes: int
    stale: int
    right: bool


def measure_stale(options: Options, history: History) -> Iterator[Row]:
    """Count the probes that ran on a binary of another commit's native files, in percent."""
    size, rng = QUICK_SIZE if options.quick else SIZE, random.Random(17)
    culprits = [rng.randrange(1, size + 1) for _ in options.few(2)]
    parts = [tuple(culprits[start : start + WINDOW]) for start in range(0, len(culprits), WINDOW)]
    windows = [Window(history.window(size, seed), part) for seed, part in enumerate(parts)]
    found = [pair for part in spread(_count_all, windows) for pair in part]
    ours, theirs = zip(*found, strict=True)
    mine, right = _share(ours), sum(one.right for one in ours) / len(ours)
    note = f"{sum(one.probes for one in ours)} probes looked at, {len(windows)} {history.kind} windows"
    name = f"probes on a stale binary, line of {size}"
    rival = "git bisect, builds as vLLM-Ascend's tool"
    counts = (len(ours), len(theirs))
    yield Row(name, rival, _share(theirs), mine, 0, "%", mine == 0 and right == 1, right, None, None, note, *counts)


def _share(counts: Sequence[Count]) -> float:
    return round(100 * sum(one.stale for one in counts) / sum(one.probes for one in counts), 1)


def _count_all(windows: Sequence[Window]) -> list[list[tuple[Count, Count]]]:
    return [_count(window) for window in windows]


def _count(window: Window) -> list[tuple[Count, Count]]:
    with tempfile.TemporaryDirectory(prefix="patchkit-bench-") as made:
        folder = Path(made)
        commits = make_repository(folder / "product", window.keys)
        pairs = []
        for culprit in window.culprits:
            ours = bisect_ours(folder, commits, culprit)
            pairs.append((ours, bisect_theirs(folder / "product", folder, commits, culprit)))
        return pairs


def make_repository(folder: Path, keys: Sequence[str]) -> list[str]:
    """Make a repository with a commit for each key, and return their ids."""
    subprocess.run([*GIT, "init", "-q", "-b", "main", str(folder)], check=True)
    stream = ""
    for number, key in enumerate(keys):
        files = {"csrc/core.c": f"{key}\n", "pkg/commit.txt": f"{number}\n"}
        stream += f"commit refs/heads/main\nmark :{number + 1}\n"
        stream += f"committer b <b@example.org> {1_700_000_000 + number} +0000\ndata 1\nx\n"
        stream += "".join(f"M 644 inline {path}\ndata {len(text)}\n{text}" for path, text in files.items())
    command = [*GIT, "fast-import", "--quiet"]
    subprocess.run(command, cwd=folder, input=stream, text=True, check=True)
    told = subprocess.run(
        [*GIT, "rev-list", "--reverse", "main"], cwd=folder, check=True, capture_output=True, text=True
    )
    return told.stdout.split()


def bisect_ours(folder: Path, commits: Sequence[str], culprit: int) -> Count:
    """Bisect with patchkit: every probe counts, those of the ends and of the confirmation, too."""
    library, log = folder / f"library-{culprit}", folder / f"ours-{culprit}"
    for path, text in {
        "recipes/product/recipe.yaml": RECIPE.format(url=folder / "product"),
        "issues/fault/issue.yaml": ISSUE,
        "issues/fault/repro.py": REPRO.format(log=str(log), culprit=culprit),
    }.items():
        (library / path).parent.mkdir(parents=True, exist_ok=True)
        (library / path).write_text(text)
    log.unlink(missing_ok=True)
    toolkit = Toolkit(Cache(folder / "store"), env=dict(os.environ))
    recipe = library / "recipes/product/recipe.yaml"
    request = BisectRequest(recipe, "git", "fault", commits[0], commits[-1], axis="commits", restart=True)
    result = bisect(toolkit, request, lambda _: None)
    return _read(log, result["first_bad"] == commits[culprit])


def bisect_theirs(work: Path, folder: Path, commits: Sequence[str], culprit: int) -> Count:
    """Bisect with git, and build by the rival's rule."""
    log = folder / "probes"
    log.write_text("")
    (folder / "rival.sh").write_text(RIVAL)

    def git(*arguments: str) -> str:
        return subprocess.run([*GIT, *arguments], cwd=work, check=True, capture_output=True, text=True).stdout

    git("checkout", "-q", "-f", commits[-1])
    (folder / "built").write_text((work / "csrc" / "core.c").read_text())
    git("bisect", "start", commits[-1], commits[0])
    told = git("bisect", "run", "sh", str(folder / "rival.sh"), str(folder), str(culprit))
    git("bisect", "reset")
    return _read(log, f"{commits[culprit]} is the first bad commit" in told)


def _read(log: Path, right: bool) -> Count:
    pairs = [line.split() for line in log.read_text().splitlines()]
    return Count(len(pairs), sum(source != built for source, built in pairs), right)
