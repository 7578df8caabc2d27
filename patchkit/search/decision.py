"""What the search says: probe these next, this is the answer, or these verdicts cannot all be true.

Every engine takes (graph, state, settings, running) and returns one of these: callers do not know which one decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from patchkit.search.costs import Costs

Stage = Literal["ends", "search", "confirm"]


@dataclass(frozen=True)
class Share:
    """A set of nodes (as bits) of which each is `weight` times as likely the culprit as a node of weight 1."""

    weight: float
    members: int


@dataclass(frozen=True)
class Settings:
    """How to search: `slots` probes run at once; `confirmations` fresh runs of the culprit and of each parent.

    `prior` holds disjoint sets that cover all nodes; without it each node is as likely as the others. It orders the
    probes and weighs suspects; it never excludes one. With `flaky` runs may err, and `confidence` is how sure the
    answer must be. `metric`: runs give a value instead of an answer, as likely wrong as the values scatter.

    `costs` are what probes take; without them each takes as long as the others. `known_skips` maps nodes that cannot be
    tested, as is known without a probe, to the reason. A probe that is expected to tell less than `least_bits` is not
    worth it: suspects in a hole of skipped commits are then left as they are. 0 goes on until nothing is left to test;
    so does a search with several slots in a hole that is not large, lest its answer depend on which probe ends first.
    """

    slots: int = 1
    confirmations: int = 1
    prior: tuple[Share, ...] = ()
    flaky: bool = False
    confidence: float = 0.99
    metric: bool = False
    costs: Costs | None = None
    known_skips: Mapping[str, str] = field(default_factory=dict)
    least_bits: float = 0.04


@dataclass(frozen=True)
class Explanation:
    """Why a node was chosen: what its probe is expected to tell, in bits, what it costs, and how likely it fails to.

    `bad_mass` is the probability that the node is bad: the share of the suspicion that lies among its ancestors.
    `skip_odds` is the chance that it cannot be tested.
    """

    gain_bits: float
    cost_seconds: float
    skip_odds: float
    bad_mass: float


@dataclass(frozen=True)
class Probe:
    """Run these nodes; none when only running probes are worth waiting for. `left`: commits still under suspicion.

    `explanations` has the numbers of each node that was chosen for what it tells: at the stage `search`.
    """

    nodes: tuple[str, ...]
    stage: Stage
    reason: str
    left: int
    fresh: bool = False
    explanations: Mapping[str, Explanation] = field(default_factory=dict)


@dataclass(frozen=True)
class Candidate:
    """A commit that may be the first bad one."""

    node: str
    probability: float


@dataclass(frozen=True)
class Answer:
    """The first bad commit, or the smallest set that the skipped commits allow; oldest first.

    `last_good` is the newest node seen good below them, `known_bad` the oldest seen bad; `confirmed`: the culprit was
    bad and its parents good in fresh runs. `untested` suspects were not worth a probe (see `Settings.least_bits`).
    """

    candidates: tuple[Candidate, ...]
    last_good: str
    known_bad: str
    skipped: tuple[str, ...]
    confirmed: bool
    detail: str = ""
    untested: int = 0

    @property
    def first_bad(self) -> str | None:
        """Return the first bad node, or None when several are left and none is as sure as asked for."""
        return self.candidates[0].node if self.confirmed or len(self.candidates) == 1 else None


@dataclass(frozen=True)
class Contradiction:
    """No commit explains the verdicts: an end is not what it should be, a verdict changed, history is not monotone."""

    message: str
    hint: str
    nodes: tuple[str, ...]


Decision = Probe | Answer | Contradiction


def count_steps(left: int) -> int:
    """Return how many probes, one after the other, it takes to tell `left` suspects apart when none is skipped."""
    return max(left - 1, 0).bit_length()
