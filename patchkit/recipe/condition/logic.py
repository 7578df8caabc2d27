"""not, and, or over conditions, in three values: what cannot be told does not hold, and neither does its negation.

Otherwise a condition on a version that nobody knows would put a patch, or its opposite, onto the wrong tree in silence.
"""

from __future__ import annotations

from dataclasses import dataclass

from patchkit.recipe.condition.decision import Condition, Facts, Truth


@dataclass(frozen=True)
class Not(Condition):
    """`not …`; what cannot be told stays so."""

    operand: Condition

    def __str__(self) -> str:
        return f"not {_grouped(self.operand)}"

    @property
    def parts(self) -> tuple[Condition, ...]:
        """Return the operand."""
        return (self.operand,)

    def judge(self, facts: Facts) -> Truth:
        """Turn the answer around; the reason is as true as before."""
        truth = self.operand.judge(facts)
        return Truth(None if truth.value is None else not truth.value, truth.reason)


@dataclass(frozen=True)
class And(Condition):
    """Two or more conditions that must all hold."""

    operands: tuple[Condition, ...]

    def __str__(self) -> str:
        return " and ".join(map(_grouped, self.operands))

    @property
    def parts(self) -> tuple[Condition, ...]:
        """Return the operands."""
        return self.operands

    def judge(self, facts: Facts) -> Truth:
        """Hold when all do; one that is false decides, whatever cannot be told beside it."""
        return _combine([operand.judge(facts) for operand in self.operands], decisive=False)


@dataclass(frozen=True)
class Or(Condition):
    """Two or more conditions of which one must hold."""

    operands: tuple[Condition, ...]

    def __str__(self) -> str:
        return " or ".join(map(_grouped, self.operands))

    @property
    def parts(self) -> tuple[Condition, ...]:
        """Return the operands."""
        return self.operands

    def judge(self, facts: Facts) -> Truth:
        """Hold when one does, whatever cannot be told beside it."""
        return _combine([operand.judge(facts) for operand in self.operands], decisive=True)


def _combine(truths: list[Truth], decisive: bool) -> Truth:
    """Kleene's and (decisive False) and or (decisive True): one decisive value decides, else one unknown."""
    for wanted in (decisive, None):
        for truth in truths:
            if truth.value is wanted:
                return truth
    return Truth(not decisive, " and ".join(truth.reason for truth in truths))


def _grouped(condition: Condition) -> str:
    return f"({condition})" if isinstance(condition, And | Or) else str(condition)
