"""Proves, without importing vLLM, that no mHC call reaches DeepGEMM where DeepGEMM is declared unavailable.

A text search cannot tell a guard from a comment: 0.30 to 0.33 call DeepGEMM under `if use_deep_gemm:`, where that is
`is_deep_gemm_supported() or not use_tilelang_fallback` and the caller has switched the fallback off. `deepgemm_reader`
follows such values: the module's functions are entered with any arguments, and a call of `tf32_hc_prenorm_gemm` that
may still run with `is_deep_gemm_supported()` False is an unguarded site. A second reading with True catches the
opposite mistake, a patch that switches DeepGEMM off everywhere.

Exit code: 0 good, 1 bad, 125 cannot tell. `patchkit: absent` means that the broadcast pre-block is not there yet.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

from deepgemm_reader import PREDICATE_NAME, WRAPPER, Machine, Root, Site, Survey
from static_repro import run
from values import UNKNOWN, Constant

KERNEL = "tf32_hc_prenorm_gemm"
FUNCTION = "mhc_pre_broadcast_tilelang"
HOME = "vllm/model_executor/kernels/mhc/"
OLDER_FORM = "vllm/model_executor/layers/mhc.py"


class Reader(Machine):
    """Knows besides that a test for Hopper or datacenter Blackwell is false where DeepGEMM is not served."""

    def builtin(self, node: ast.Call, values: list[Any]) -> Any:
        name = getattr(node.func, "attr", "")
        number = values[0].value if values and isinstance(values[0], Constant) else None
        if name in ("is_device_capability", "is_device_capability_family") and isinstance(number, int):
            return Constant(False) if not self.supported and number // 10 in (9, 10) else UNKNOWN
        return super().builtin(node, values)


def read(root: Path, supported: bool) -> Survey:
    survey = Survey(root, [KERNEL], supported)
    survey.machine = Reader(survey.tree, supported)
    return survey


def files(survey: Survey) -> tuple[list[str], bool]:
    """The files that define the function or hold its siblings, and whether the function is there at all."""
    definition = f"def {FUNCTION}(".encode()
    found = {path for path, text in survey.tree.texts.items() if path.startswith(HOME) and KERNEL.encode() in text}
    defining = {path for path, text in survey.tree.texts.items() if definition in text}
    return sorted(found | defining), bool(defining)


def sites(survey: Survey, paths: list[str]) -> list[Site]:
    """The calls that may run when the files' functions are entered; private ones are when their callers are."""
    inner: set[Root] = set()
    for path in paths:
        module = survey.machine.load(path, anyway=True)
        if module is not None:
            survey.machine.run_roots(module, {KERNEL})
            inner |= {Root(path, name) for name in only_called(module.tree)}
    found = [site for site in survey.machine.sites if site.kernel == KERNEL and site.path in paths]
    return sorted(site for site in found if site.root not in inner)


def only_called(tree: ast.Module) -> set[str]:
    """Private names that the module itself calls, and never hands on as a value."""
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    called = {id(func): func.id for func in calls if isinstance(func, ast.Name) and func.id.startswith("_")}
    handed = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called}
    return set(called.values()) - handed


def describe(site: Site) -> str:
    through = "" if site.root.name == site.function else f", entered by {site.root.name}"
    return f"{site.path}:{site.line}: in {site.function}{through}"


def answer(root: Path) -> int:
    survey = read(root, supported=False)
    paths, present = files(survey)
    if not present:
        for site in sites(survey, [*paths, OLDER_FORM]):
            print(f"note: not counted, an older form: {describe(site)}")
        print("patchkit: absent")
        return 0
    if KERNEL not in survey.kernels:
        print(f"cannot tell: {WRAPPER} has no {KERNEL}")
        return 125
    unguarded = sites(survey, paths)
    for site in unguarded:
        print(f"{describe(site)}: DeepGEMM call not guarded: it runs when {PREDICATE_NAME}() is False")
    if unguarded:
        return 1
    taken = {site.root.name for site in sites(read(root, supported=True), paths)}
    if taken and FUNCTION not in taken:
        print(f"{FUNCTION}: DeepGEMM is not taken even when {PREDICATE_NAME}() is True")
        return 1
    print(f"good: {len(taken)} functions use DeepGEMM, each only when {PREDICATE_NAME}() is True")
    return 0


if __name__ == "__main__":
    sys.exit(run(answer))
