"""Take the culprit back on top of the bad end and judge that: a first bad commit that is the cause heals so.

The revert is a patch of the series like any other: a three-way merge of trees in the object database, no work tree.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeGuard

from patchkit.errors import StoreFailure
from patchkit.recipe.model import ChangeRevert
from patchkit.verdict.verdict import Reason
from patchkit.workflows.bisect.overlay import with_changes
from patchkit.workflows.bisect.subject import CommitSubject, Subject

Reverted = Literal["good", "bad", "conflict", "skip"]


@dataclass(frozen=True)
class Revert:
    """What became of the bad end without the culprit. `kept`: the same answer would come again."""

    answer: Reverted
    reason: str
    detail: str
    tree: str = ""
    evidence: str | None = None
    duration_seconds: float = 0.0
    kept: bool = True

    def event(self, node: str) -> dict[str, Any]:
        """Return the event for the journal and for programs."""
        fields = asdict(self)
        del fields["kept"]
        return {"event": "revert", "node": node, **fields}


def judge_reverted(subject: Subject, culprit: str) -> Revert | None:
    """Return what the bad end is without a commit; None where no single commit can be taken back (releases).

    Of a merge it is the change from its first parent that is taken back. The search is over by then: a store that lacks
    an object for the merge must not cost its answer.
    """
    if not can_revert(subject):
        return None
    reverting = with_revert(subject, culprit)
    try:
        verdict = reverting.ask(subject.graph.bad, reverting.flaky)
    except StoreFailure as error:
        return Revert("skip", Reason.INFRASTRUCTURE.value, error.message, kept=False)
    conflict = verdict.reason is Reason.CONFLICT
    return Revert(
        answer="conflict" if conflict else verdict.answer.value,
        reason=verdict.reason.value,
        detail=verdict.detail,
        tree=verdict.tree,
        evidence=verdict.evidence,
        duration_seconds=round(verdict.duration_seconds, 3),
        kept=verdict.reason is not Reason.INFRASTRUCTURE,
    )


def can_revert(subject: Subject) -> TypeGuard[CommitSubject]:
    """Return whether the nodes are commits of a git upstream: what git has no history of cannot be taken back."""
    return isinstance(subject, CommitSubject) and subject.axis in ("commits", "pair") and subject.source.kind == "git"


def with_revert(subject: CommitSubject, commit: str) -> CommitSubject:
    """Return the search with the reverse of a commit as the last patch of the series (if it has none, the only one)."""
    change = (ChangeRevert(revert=commit),)
    opened, series = with_changes(subject.opened, subject.series, subject.source.upstream, change)
    return replace(subject, opened=opened, series=series, holes={})
