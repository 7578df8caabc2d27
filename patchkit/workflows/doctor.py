"""Tell what is there and what is missing on this machine, and what each missing part costs."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from patchkit.errors import PatchkitError, ToolMissing
from patchkit.tools.cache import write_atomically
from patchkit.tools.docker import open_engine
from patchkit.tools.index import PackageIndex
from patchkit.tools.process import find_program, run_process
from patchkit.tools.toolkit import Toolkit

PROBED_PACKAGE = "vllm"  # what the shipped recipes ask the index for
ROOM_BYTES = 4_000_000_000  # a vLLM mirror or a CPU environment with torch, and space to work

State = Literal["ok", "missing", "broken"]


@dataclass(frozen=True)
class Check:
    """One part: `needed` means no verb works without it; `hint` says what to do and what works all the same."""

    name: str
    state: State
    detail: str
    hint: str = ""
    needed: bool = False


def examine_machine(toolkit: Toolkit) -> tuple[Check, ...]:
    """Return every check; none of them raises, and none takes more than a few seconds."""
    examinations: tuple[Callable[[Toolkit], Check], ...] = (
        _examine_python,
        _examine_git,
        _examine_store,
        _examine_index,
        _examine_engine,
        _examine_hardware,
        _examine_torch,
    )
    return tuple(examine(toolkit) for examine in examinations)


def _examine_python(_toolkit: Toolkit) -> Check:
    release = ".".join(str(part) for part in sys.version_info[:3])
    has_venv = importlib.util.find_spec("ensurepip") is not None
    hint = "" if has_venv else "install python3-venv: repros with an environment of their own need it"
    return Check("python", "ok" if has_venv else "broken", f"{release} at {sys.executable}", hint)


def _examine_git(_toolkit: Toolkit) -> Check:
    if find_program("git") is None:
        return Check("git", "missing", "not on PATH", "install git; package sources work without it")
    return Check("git", "ok", run_process(["git", "--version"]).text.strip())


def _examine_store(toolkit: Toolkit) -> Check:
    root = toolkit.cache.root
    try:
        write_atomically(root / "doctor", b"")
        (root / "doctor").unlink()
    except PatchkitError as error:
        return Check("store", "broken", error.message, error.hint, needed=True)
    free = shutil.disk_usage(root).free
    hint = "" if free > ROOM_BYTES else "a mirror of vLLM or a CPU environment needs about 4 GB: patchkit cache --prune"
    return Check("store", "ok" if not hint else "broken", f"{root}, {free / 1e9:.0f} GB free", hint)


def _examine_index(toolkit: Toolkit) -> Check:
    try:
        found = PackageIndex(toolkit).sdists(PROBED_PACKAGE)
    except PatchkitError as error:
        return Check("package index", "missing", error.message, error.hint or "recipes with `git:` work without it")
    return Check("package index", "ok", f"{len(found)} releases of {PROBED_PACKAGE}")


def _examine_engine(toolkit: Toolkit) -> Check:
    try:
        with open_engine(toolkit):
            return Check("docker engine", "ok", "answers")
    except ToolMissing as error:
        return Check("docker engine", "missing", error.message, "not needed: build writes OCI archives without it")


def _examine_hardware(_toolkit: Toolkit) -> Check:
    for program in ("nvidia-smi", "npu-smi", "rocm-smi"):
        if find_program(program):
            return Check("accelerator", "ok", f"{program} is here")
    devices = [str(path) for path in (Path("/dev/kfd"), Path("/dev/nvidiactl")) if path.exists()]
    if devices:
        return Check("accelerator", "ok", devices[0])
    return Check("accelerator", "missing", "none found", "static and stubbed repros run all the same")


def _examine_torch(_toolkit: Toolkit) -> Check:
    found = [name for name in ("torch", "vllm") if importlib.util.find_spec(name)]
    if found:
        return Check("torch, vllm", "ok", f"{' and '.join(found)} in this interpreter")
    return Check("torch, vllm", "missing", "not in this interpreter", "repros that need torch make a venv of their own")
