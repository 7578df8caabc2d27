"""Asks the tree's real CUDA platform class, told its capability, whether DeepGEMM is supported; compares with the pin.

Whether a yes on sm_120 and sm_121 is a fault depends on the DeepGEMM that is installed, not on the tree. The recipe
says which one that is (`pins: {deepgemm: …}`, seven hex digits of the commit); without a pin it is the one that the
tree itself builds (cmake/external_projects/deepgemm.cmake). What is known of a revision stands below, with its source;
of one that does not stand there, nothing is claimed. On sm_90 and sm_100 the answer must stay yes, on sm_89 no.

Exit code: 0 good, 1 bad, 125 cannot tell.
"""

from __future__ import annotations

import importlib.machinery
import os
import re
import sys
import traceback
import types
from pathlib import Path
from typing import Any

# Revision -> whether csrc/apis/hyperconnection.hpp and the layout code dispatch arch_major 12, and who says so.
REVISIONS = {
    "891d57b": (False, "dispatches 9 and 10 only, deepseek-ai/DeepGEMM#317 and #324"),
    "a6b593d": (True, "sm120_* kernels, vllm-project/vllm#51959 and coreweave/ml-containers#202"),
    "e21c821": (False, "dispatches 9 and 10 only, vllm-project/vllm#51959"),
    "8b1392b": (True, "dispatches 12, DeepSeek-V4 served on two GB10, vllm-project/vllm#52732"),
}
BUILD_FILE = "cmake/external_projects/deepgemm.cmake"
PORTED = re.compile(r"plus\s+(#\s*)?the\s+SM120\s+(#\s*)?port")  # what 0.30 and later say of the fork they pin
SERVED, UNSERVED, IN_QUESTION = ((9, 0), (10, 0)), ((8, 0), (8, 9)), ((12, 0), (12, 1))


def module(name: str, **members: Any) -> None:
    made = types.ModuleType(name)
    made.__spec__ = importlib.machinery.ModuleSpec(name, loader=None)
    made.__dict__.update(members)
    sys.modules[name] = made


def pinned(tree: Path) -> tuple[str, bool | None, str]:
    """The revision (seven digits), whether it has kernels for sm_12x (None: not known), and how that is known."""
    build = tree / BUILD_FILE
    text = build.read_text(encoding="utf-8") if build.is_file() else ""
    own = re.search(r"(?:TAG|tag)\s+\"?([0-9a-f]{7})[0-9a-f]{33}\b", text)
    revision = os.environ.get("PATCHKIT_PIN_DEEPGEMM", "")[:7] or (own[1] if own else "")
    if revision in REVISIONS:
        return (revision, *REVISIONS[revision])
    if own and revision == own[1] and PORTED.search(text):
        return revision, True, f"its comment in {BUILD_FILE}"
    return revision, None, ""


def answers() -> dict[tuple[int, int], bool]:
    """What `is_deep_gemm_supported()` says on each device; it must be what the platform says."""
    for extension in ("_C", "_C_stable_libtorch", "_moe_C", "_moe_C_stable_libtorch"):
        module(f"vllm.{extension}")
    module("deep_gemm", __version__="0")
    from vllm import platforms
    from vllm.platforms import cuda
    from vllm.platforms.interface import DeviceCapability

    told = [DeviceCapability(9, 0)]

    class FakedCudaPlatform(cuda.CudaPlatformBase):
        @classmethod
        def get_device_capability(cls, device_id: int = 0) -> Any:  # noqa: ARG003 — vLLM's signature
            return told[0]

    platforms._current_platform = FakedCudaPlatform()
    from vllm.utils.deep_gemm import is_deep_gemm_supported

    found = {}
    for capability in (*SERVED, *UNSERVED, *IN_QUESTION):
        told[0] = DeviceCapability(*capability)
        is_deep_gemm_supported.cache_clear()
        found[capability] = is_deep_gemm_supported()
        if found[capability] != platforms.current_platform.support_deep_gemm():
            raise TypeError("is_deep_gemm_supported() is no longer what the platform says")
    return found


def judge(tree: Path) -> int:
    found = answers()
    revision, has_kernels, source = pinned(tree)
    for capability, answer in found.items():
        print(f"sm_{capability[0]}{capability[1]}: DeepGEMM {'supported' if answer else 'not supported'}")
    lost = [capability for capability in SERVED if not found[capability]]
    if lost or any(found[capability] for capability in UNSERVED):
        print(f"bad: DeepGEMM is lost where it works, or taken where it never did: {found}")
        return 1
    counted = [f"sm_{major}{minor}" for major, minor in IN_QUESTION if found[major, minor]]
    if not counted:
        print("good: sm_12x does not count as served by DeepGEMM")
        return 0
    if has_kernels is None:
        print(f"cannot tell: nothing is known here of DeepGEMM {revision or '(no pin)'}")
        return 125
    if has_kernels:
        print(f"good: sm_12x counts as served, and DeepGEMM {revision} serves it ({source})")
        return 0
    print(f"bad: {', '.join(counted)} counts as served, DeepGEMM {revision} has no kernels for it ({source})")
    return 1


def main() -> int:
    tree = Path(os.environ.get("PATCHKIT_TREE") or Path.cwd()).resolve()
    if not (tree / "vllm" / "__init__.py").is_file():
        print(f"cannot tell: {tree} holds no vllm package")
        return 125
    os.environ.pop("VLLM_USE_DEEP_GEMM", None)
    sys.path.insert(0, str(tree))
    try:
        return judge(tree)
    except Exception as error:
        traceback.print_exc(file=sys.stdout)
        print(f"cannot tell: {type(error).__name__}: {error}")
        return 125


if __name__ == "__main__":
    sys.exit(main())
