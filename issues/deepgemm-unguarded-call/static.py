"""Looks for calls of DeepGEMM's kernels that run where the tree itself says that DeepGEMM is not supported.

The single sites have issues of their own; this one asks of the whole tree, so that the next site is found by the
commit that adds it. `deepgemm_reader` does the reading. Counted are the kernels with another way to compute the same:
matrix products, the einsum, hyper-connections. The sparse indexer's logits and MegaMoE's gate have none in the tree:
without DeepGEMM the model cannot run, whatever is asked. They are told as notes, once a file.

Exit code: 0 good, 1 bad, 125 cannot tell. `patchkit: absent` means that the tree has no DeepGEMM.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from deepgemm_reader import PREDICATE_NAME, Site, Survey
from static_repro import run

COUNTED = re.compile(r".*(gemm|einsum|mhc).*")


def place(site: Site) -> str:
    root = "" if site.root.name.endswith(site.function) else f", entered by {site.root.name}"
    return f"{site.path}:{site.line}: in {site.function}{root}"


def answer(root: Path) -> int:
    survey = Survey(root)
    if not survey.kernels:
        print("patchkit: absent")
        return 0
    first: dict[tuple[str, int], Site] = {}
    for site in survey.run():
        first.setdefault((site.path, site.line), site)
    noted: set[str] = set()
    bad = False
    for site in first.values():
        relies = survey.declared(site)
        if not COUNTED.fullmatch(site.kernel):
            if site.path not in noted:
                print(f"note: not counted, there is no other way: {place(site)}: {site.kernel}")
            noted.add(site.path)
        elif relies:
            print(f"note: not followed: {place(site)}: {site.kernel} relies on {relies}(), which says no")
        else:
            print(f"{place(site)}: {site.kernel} not guarded: it runs when {PREDICATE_NAME}() is False")
            bad = True
    if not bad:
        print(f"good: none of {len(survey.kernels)} kernels is called where {PREDICATE_NAME}() is False")
    return int(bad)


if __name__ == "__main__":
    sys.exit(run(answer))
