"""Which environment variables reach which call sites: one that does not reach a call looks like a broken switch."""

from __future__ import annotations

from dataclasses import dataclass

from packaging.version import Version


@dataclass(frozen=True)
class Switch:
    """A variable and a call site, as the code of releases `since` up to (not including) `until` has it."""

    variable: str
    site: str
    reaches: bool
    why: str
    since: str = "0.20"
    until: str = "0.34"  # nothing later has been read


SWITCHES = (
    Switch("VLLM_USE_DEEP_GEMM", "block-scaled FP8 linear layers", True, "is_deep_gemm_supported() asks it"),
    Switch("VLLM_USE_DEEP_GEMM", "FP8 MoE layers", True, "is_deep_gemm_supported() asks it"),
    Switch("VLLM_USE_DEEP_GEMM", "deep_gemm_fp8_o_proj of DeepSeek-V4", False, "calls fp8_einsum without asking"),
    Switch(
        "VLLM_USE_DEEP_GEMM",
        "mhc_pre_broadcast_tilelang of DeepSeek-V4",
        False,
        "calls tf32_hc_prenorm_gemm without asking, from 0.30 on under a guard that its argument opens",
        since="0.26",
    ),
    Switch(
        "VLLM_DISABLED_KERNELS",
        "CutlassFp8BlockScaledMMKernel",
        False,
        "the next kernel in line, Triton's, does not read E8M0 scales on CUDA either",
        until="0.30",
    ),
    Switch(
        "VLLM_DISABLED_KERNELS",
        "CutlassFp8BlockScaledMMKernel",
        True,
        "Triton's kernel takes its place and reads E8M0 scales",
        since="0.30",
    ),
)


def find_switches(release: Version | None) -> tuple[Switch, ...]:
    """Return what is known of a release; of releases that were not read, nothing. The patches of a recipe change it."""
    if release is None:
        return ()
    return tuple(one for one in SWITCHES if Version(one.since) <= release < Version(one.until))
