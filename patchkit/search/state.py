"""What is known so far, folded from the events of a journal: the same journal always gives the same state."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeGuard, get_args

Seen = Literal["good", "bad", "skip"]
SLIPS = 3  # skips in a row after which no further run is expected to answer


@dataclass(frozen=True)
class Observation:
    """One run at one node. `fresh`: it was run for this question, not taken from an earlier verdict.

    `value` is what a metric repro measured; a search by values looks at nothing else.
    """

    answer: Seen
    fresh: bool = False
    reason: str = ""
    value: float | None = None


@dataclass(frozen=True)
class State:
    """All runs of all nodes, in the order in which they ended."""

    observations: Mapping[str, tuple[Observation, ...]] = field(default_factory=dict)

    def has(self, node: str, answer: Seen) -> bool:
        """Return whether a run at the node ever gave this answer."""
        return any(run.answer == answer for run in self.observations.get(node, ()))

    def nodes(self, answer: Seen) -> tuple[str, ...]:
        """Return the nodes with at least one run of this answer."""
        return tuple(node for node in self.observations if self.has(node, answer))

    @property
    def skipped(self) -> tuple[str, ...]:
        """Return the nodes at which nothing but skips was seen."""
        return tuple(node for node, seen in self.observations.items() if all(run.answer == "skip" for run in seen))

    @property
    def lost(self) -> tuple[str, ...]:
        """Return the nodes that cannot be told any more: nothing but skips was seen, or only skips of late."""
        return tuple(
            node for node, seen in self.observations.items() if all(run.answer == "skip" for run in seen[-SLIPS:])
        )

    def fresh_runs(self, node: str, answer: Seen) -> int:
        """Count the fresh runs at a node with this answer."""
        return sum(run.fresh and run.answer == answer for run in self.observations.get(node, ()))

    def reason(self, node: str) -> str:
        """Return why the last run at a node answered as it did."""
        seen = self.observations.get(node, ())
        return seen[-1].reason if seen else ""

    def with_skips(self, known: Mapping[str, str]) -> State:
        """Return the state with a skip at each node that is known to be one (node → reason) and was not run."""
        new = {node: (Observation("skip", reason=why),) for node, why in known.items() if node not in self.observations}
        return State({**new, **self.observations}) if new else self

    @property
    def runs(self) -> int:
        """Count all runs."""
        return sum(len(seen) for seen in self.observations.values())


def fold(events: Iterable[Mapping[str, Any]]) -> State:
    """Return the state after the events; events other than `probe` say nothing about commits and are passed over.

    Raises `ValueError` for a probe event without a node, with an unknown answer or with a value that is no number.
    """
    observations: dict[str, tuple[Observation, ...]] = {}
    for event in events:
        if event.get("event") != "probe":
            continue
        node, answer = event.get("node"), event.get("answer")
        if not isinstance(node, str) or not _is_answer(answer):
            raise ValueError(f"not a probe: {dict(event)}")
        value = event.get("value")
        if value is not None and not (isinstance(value, int | float) and math.isfinite(value)):
            raise ValueError(f"not a value: {value!r} at {node}")
        seen = Observation(answer, bool(event.get("fresh", False)), str(event.get("reason", "")), value)
        observations[node] = (*observations.get(node, ()), seen)
    return State(observations)


def _is_answer(value: object) -> TypeGuard[Seen]:
    return value in get_args(Seen)
