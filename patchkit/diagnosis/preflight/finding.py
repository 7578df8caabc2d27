"""What a check says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from patchkit.diagnosis.deployment import Deployment
from patchkit.diagnosis.model_config import ModelConfig

RANKS_TRIED = range(1, 65)  # of which those that fit are named; more ranks than that share no MoE layer in practice


@dataclass(frozen=True)
class Finding:
    """A problem (`fails`), or a note on something that works otherwise than many believe.

    `arithmetic` shows the numbers; `change` says what to do; `upstream` where and how vLLM fails, or why it does not.
    """

    check: str
    fails: bool
    message: str
    arithmetic: str
    change: str = ""
    upstream: str = ""


class Case(NamedTuple):
    """What a check looks at."""

    model: ModelConfig
    deployment: Deployment


Check = Callable[[Case], Iterator[Finding]]


def name_fitting(fits: Callable[[int], bool]) -> str:
    """Return the numbers of ranks that fit: `1, 2, 4`."""
    return ", ".join(str(ranks) for ranks in RANKS_TRIED if fits(ranks))


def show_division(number: int, divisor: int) -> str:
    """Return a division with its remainder: `1536 = 10 × 144 + 96`."""
    whole, rest = divmod(number, divisor)
    return f"{number} = {divisor} × {whole}" + (f" + {rest}" if rest else "")
