"""Proves, without importing vLLM, that no call of fp8_einsum is reached where DeepGEMM is declared unavailable.

`deepgemm_reader` reads the tree: callers and their guards, operators, classes that say they are not available. Asked of
the whole tree, so that the call is found wherever a release has it. A second reading with `is_deep_gemm_supported()`
True catches the opposite mistake, a patch that switches DeepGEMM off everywhere.

Exit code: 0 good, 1 bad, 125 cannot tell. `patchkit: absent` means that nothing in the tree calls fp8_einsum.
"""

from __future__ import annotations

import sys
from pathlib import Path

from deepgemm_reader import PREDICATE_NAME, Site, Survey
from static_repro import run

KERNEL = "fp8_einsum"


def sites(root: Path, supported: bool) -> dict[tuple[str, int], Site]:
    """The calls that may run, one entry each, with one of the roads that lead there."""
    found: dict[tuple[str, int], Site] = {}
    for site in Survey(root, [KERNEL], supported).run():
        found.setdefault((site.path, site.line), site)
    return found


def answer(root: Path) -> int:
    taken = sites(root, supported=True)
    if not taken and not Survey(root, [KERNEL]).calls():
        print("patchkit: absent")
        return 0
    unguarded = sites(root, supported=False)
    for site in unguarded.values():
        place = f"{site.path}:{site.line}: in {site.function}, entered by {site.root.name}"
        print(f"{place}: {KERNEL} not guarded: it runs when {PREDICATE_NAME}() is False")
    if not unguarded and not taken:
        print(f"{KERNEL}: DeepGEMM is not taken even when {PREDICATE_NAME}() is True")
        return 1
    if not unguarded:
        print(f"good: {len(taken)} calls of {KERNEL}, each only when {PREDICATE_NAME}() is True")
    return int(bool(unguarded))


if __name__ == "__main__":
    sys.exit(run(answer))
