"""Look up every name of vLLM that vLLM-Ascend uses in one vLLM tree, beside griffe, which only loads that tree.

    python -m benchmarks.symbols --clone PATH --ascend PATH [--at REF] [--ascend-at REF]

`--clone` is any clone of vLLM, `--ascend` (or PATCHKIT_ASCEND_CLONE) one of vLLM-Ascend; nothing is written into them.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import subprocess
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.patch_rows import Bench, Row, most
from patchkit.stack.symbols.downstream.package import read_downstream
from patchkit.stack.symbols.examine import Judge, find_problems, judge_all
from patchkit.stack.symbols.tree import Outlines, SymbolTree
from patchkit.tools.git.objects import Repository

BAR_SECONDS = 40.0
Place = tuple[Path, str]  # a clone, and a commit of it


@dataclass(frozen=True)
class SymbolsTime:
    """Seconds for all names against one tree, files to problems; griffe's for loading the tree, None without griffe."""

    ours: float
    griffe: float | None
    uses: int
    problems: int


def measure_symbols(bench: Bench) -> list[Row]:
    """Return the row for `benchmarks.patch`; none, and why, without a clone of vLLM-Ascend."""
    ascend = os.environ.get("PATCHKIT_ASCEND_CLONE")
    if ascend is None:
        print("names of vLLM-Ascend: not measured, PATCHKIT_ASCEND_CLONE names no clone of it")
        return []
    found = measure((bench.repository.path, bench.tip), (Path(ascend), "HEAD"), bench.folder, not bench.quick)
    name = f"{found.uses} names of vLLM-Ascend against one vLLM tree, s"
    return [most(name, "griffe, loading the tree", found.griffe and round(found.griffe, 2), found.ours, BAR_SECONDS)]


def measure(vllm: Place, ascend: Place, folder: Path, rival: bool = True) -> SymbolsTime:
    """Measure one look. Raises `CalledProcessError` for an unknown ref."""
    clone, at = vllm
    unpack(*ascend, "vllm_ascend", folder / "ascend")
    repository = Repository(git_dir(clone))
    tree = repository.read_commit(repository.find_commit(at) or at).tree
    started = time.perf_counter()
    downstream = read_downstream(folder / "ascend/vllm_ascend", "vllm")
    names = SymbolTree(Outlines(repository), tree, "vllm")
    judged = judge_all(Judge(names, None, downstream.provided), downstream.uses)
    problems = find_problems(names, judged, {one.use: one for one in judged})
    ours = time.perf_counter() - started
    theirs = load_with_griffe(clone, at, folder) if rival else None
    return SymbolsTime(ours, theirs, len(downstream.uses), len(problems))


def load_with_griffe(clone: Path, at: str, folder: Path) -> float | None:
    """Return the seconds that griffe takes to load the tree's package, None where it is not installed."""
    try:
        griffe = importlib.import_module("griffe")
    except ImportError:
        return None
    unpack(clone, at, "vllm", folder / "vllm")
    started = time.perf_counter()
    griffe.load("vllm", search_paths=[str(folder / "vllm")], allow_inspection=False)
    return time.perf_counter() - started


def git_dir(clone: Path) -> Path:
    """Return where the objects of a clone are."""
    command = ["git", "-C", str(clone), "rev-parse", "--absolute-git-dir"]
    return Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())


def unpack(clone: Path, at: str, inner: str, folder: Path) -> None:
    """Write the files of a folder at a commit."""
    command = ["git", "-C", str(clone), "archive", "--format=tar", at, inner]
    archive = subprocess.run(command, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        opened.extractall(folder, filter="data")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clone", type=Path, default=os.environ.get("PATCHKIT_VLLM_CLONE"), metavar="PATH")
    parser.add_argument("--ascend", type=Path, default=os.environ.get("PATCHKIT_ASCEND_CLONE"), metavar="PATH")
    parser.add_argument("--at", default="HEAD", metavar="REF", help="the vLLM to look at")
    parser.add_argument("--ascend-at", default="HEAD", metavar="REF", help="the vLLM-Ascend to read")
    options = parser.parse_args()
    if options.clone is None or options.ascend is None:
        parser.exit(1, "give clones: --clone PATH of vLLM, --ascend PATH of vLLM-Ascend\n")
    with tempfile.TemporaryDirectory(prefix="patchkit-symbols-") as name:
        places = (Path(options.clone), options.at), (Path(options.ascend), options.ascend_at)
        found = measure(*places, Path(name))
    theirs = "griffe is not installed" if found.griffe is None else f"griffe loads the tree in {found.griffe:.1f} s"
    holds = "holds" if found.ours <= BAR_SECONDS else "MISSED"
    print(
        f"{found.uses} uses, {found.problems} problems: {found.ours:.1f} s (bar {BAR_SECONDS:.0f} s, {holds}); {theirs}"
    )


if __name__ == "__main__":
    main()
