"""How a model is spread over devices, and the arithmetic that vLLM does with it.

Without expert parallelism every rank holds all experts and their intermediate size is cut by dp × pcp × tp. With it
whole experts are dealt to dp × pcp × tp ranks, and need not divide. The repro of the issue `moe-expert-map` checks this
arithmetic against vLLM's own function.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from packaging.version import InvalidVersion, Version

from patchkit.errors import RequestError

Placement = Literal["linear", "round_robin"]


@dataclass(frozen=True)
class Deployment:
    """What the server is started with. `arch` is the compute capability (12, 1) of sm_121; `vllm` a release.

    `deep_gemm` are the major architectures that the installed DeepGEMM has kernels for; None when nobody looked.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    pcp: int = 1
    expert_parallel: bool = False
    eplb: bool = False
    redundant_experts: int = 0
    arch: tuple[int, int] | None = None
    kv_dtype: str = "auto"
    quantization: str = ""
    vllm: Version | None = None
    deep_gemm: frozenset[int] | None = None

    @property
    def moe_ranks(self) -> int:
        """Return how many ranks share a MoE layer: dp × pcp × tp."""
        return self.dp * self.pcp * self.tp

    @property
    def ep_size(self) -> int:
        """Return how many ranks the experts are dealt to; 1 without expert parallelism."""
        return self.moe_ranks if self.expert_parallel else 1

    @property
    def moe_tp(self) -> int:
        """Return by how many ranks each expert's intermediate size is cut."""
        return 1 if self.expert_parallel else self.moe_ranks

    @property
    def sequence_parallel_moe(self) -> bool:
        """Return whether shared experts are whole on each rank: vLLM's default with ep, tp and dp together."""
        return self.expert_parallel and self.tp > 1 and self.dp > 1

    def is_at_least(self, release: str) -> bool | None:
        """Return whether vLLM is this release or later; None when the release is not known."""
        return None if self.vllm is None else self.vllm >= Version(release)


def split_experts(experts: int, ranks: int) -> tuple[int, ...]:
    """Return how many experts each rank holds: the first hold one more (256 over 7: four hold 37, three 36)."""
    base, more = divmod(experts, ranks)
    return tuple(base + 1 if rank < more else base for rank in range(ranks))


def local_expert(expert: int, experts: int, ranks: int, placement: Placement = "linear") -> tuple[int, int]:
    """Return the one rank that owns an expert, and the expert's id there."""
    if placement == "round_robin":
        return expert % ranks, expert // ranks
    base, more = divmod(experts, ranks)
    bulky = more * (base + 1)  # experts of the ranks that hold one more
    if expert < bulky:
        return expert // (base + 1), expert % (base + 1)
    return more + (expert - bulky) // base, (expert - bulky) % base


def split_layers(layers: int, stages: int) -> tuple[int, ...]:
    """Return the layers of each pipeline stage: remaining ones go to those before the last, from the back."""
    parts = [layers // stages] * stages
    for place in range(2, layers % stages + 2):
        parts[-place] += 1
    return tuple(parts)


def parse_arch(text: str) -> tuple[int, int]:
    """Return the compute capability that sm_121, sm_90a or 12.1 names; `RequestError` for anything else."""
    found = re.fullmatch(r"(?:sm_?)?(\d{1,2})\.?(\d)[af]?", text)
    if not found:
        raise RequestError(f"{text}: no architecture", "sm_90, sm_121 or 12.1")
    return int(found[1]), int(found[2])


def parse_release(text: str) -> Version:
    """Return a vLLM release; `RequestError` for what is no version."""
    try:
        return Version(text.removeprefix("v"))
    except InvalidVersion as error:
        raise RequestError(f"{text}: no version of vLLM", "0.26.0, as `pip show vllm` tells it") from error
