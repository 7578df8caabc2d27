"""Histories to simulate on: real ones where the data is at hand, else made ones of the same kind.

DIR holds `vllm-chain.tsv.gz` (commit, time, native key, …) and `rocm-dag.tsv.gz` (commit, parents, native key).
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from patchkit.search import CommitGraph, build_graph

DEFAULT = Path(__file__).parents[2].parent / "shared" / "data" / "history"
NATIVE = 0.08  # share of vLLM's 2026 commits that change native inputs
DAG_SIZE = 5071


@dataclass(frozen=True)
class History:
    """`keys`: the build key of each commit of a line, oldest first. `parents`: a history with merges."""

    real: bool
    keys: tuple[str, ...]
    parents: dict[str, tuple[str, ...]]

    @property
    def kind(self) -> str:
        """Return whether rows are about a real history."""
        return "real" if self.real else "made"

    def window(self, size: int, seed: int) -> tuple[str, ...]:
        """Return the keys of a good end and `size` commits above it, from the newer half of the line."""
        start = random.Random(seed).randrange(len(self.keys) // 2, len(self.keys) - size)
        return self.keys[start : start + size + 1]

    def graph(self, size: int = DAG_SIZE) -> CommitGraph:
        """Return the newest commits that some one commit lacks: the range whose size is closest to `size`."""
        newest = next(reversed(self.parents))
        whole = build_graph(self.parents, "nothing", newest)
        tip = whole.ancestors[-1]
        best = min(whole.nodes[:-1], key=lambda node: abs((tip & ~whole.ancestors_of(node)).bit_count() - size))
        inside = set(whole.names(tip & ~whole.ancestors_of(best)))
        return build_graph({node: whole.parents[node] for node in whole.nodes if node in inside}, best, newest)


def load_history(folder: Path | None) -> History:
    """Read the histories of a folder; make them when it has none."""
    chain, dag = ((folder or DEFAULT) / name for name in ("vllm-chain.tsv.gz", "rocm-dag.tsv.gz"))
    if chain.exists() and dag.exists():
        keys = tuple(fields[2] for fields in _read(chain))
        return History(True, keys, {fields[0]: tuple(fields[1].split()) for fields in _read(dag)})
    rng, key, keys = random.Random(8), 0, []
    for _ in range(12_000):
        key += rng.random() < NATIVE
        keys.append(f"k{key}")
    parents = {}
    for number in range(10_014):
        side = (f"c{number - rng.randint(2, 40)}",) if number > 60 and rng.random() < 0.03 else ()
        parents[f"c{number}"] = ((f"c{number - 1}",) if number else ()) + side
    return History(False, tuple(keys), parents)


def _read(path: Path) -> Iterator[list[str]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            if not line.startswith("#"):
                yield line.rstrip("\n").split("\t")
