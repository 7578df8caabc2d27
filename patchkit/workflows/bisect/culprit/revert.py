"""Take the culprit back on top of the bad end and judge that: a first bad commit that is the cause heals so.

The revert is a patch of the series like any other: a three-way merge of trees in the object database, no work tree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeGuard

from patchkit.recipe.library import LoadedPatch
from patchkit.recipe.model import ChangeRevert, Patch
from patchkit.verdict.verdict import Reason, Series, Verdict
from patchkit.workflows.bisect.subject import CommitSubject, Subject

Reverted = Literal["good", "bad", "conflict", "skip"]


@dataclass(frozen=True)
class Revert:
    """What became of the bad end without the culprit."""

    answer: Reverted
    verdict: Verdict

    def event(self, node: str) -> dict[str, Any]:
        """Return the event for the journal and for programs."""
        verdict = self.verdict
        return {
            "event": "revert",
            "node": node,
            "answer": self.answer,
            "reason": verdict.reason.value,
            "detail": verdict.detail,
            "tree": verdict.tree,
            "evidence": verdict.evidence,
            "duration_seconds": round(verdict.duration_seconds, 3),
        }


def judge_reverted(subject: Subject, culprit: str) -> Revert | None:
    """Return the verdict on the bad end without a commit; None where no single commit can be taken back (releases).

    Of a merge it is the change from its first parent that is taken back.
    """
    if not can_revert(subject):
        return None
    reverting = with_revert(subject, culprit)
    verdict = reverting.ask(subject.graph.bad, reverting.flaky)
    conflict = verdict.reason is Reason.CONFLICT
    return Revert("conflict" if conflict else verdict.answer.value, verdict)


def can_revert(subject: Subject) -> TypeGuard[CommitSubject]:
    """Return whether the nodes are commits of a git upstream: what git has no history of cannot be taken back."""
    return isinstance(subject, CommitSubject) and subject.axis in ("commits", "pair") and subject.source.kind == "git"


def with_revert(subject: CommitSubject, commit: str) -> CommitSubject:
    """Return the search with the reverse of a commit as the last patch of the series (if it has none, the only one)."""
    name, loaded = f"revert-{commit[:12]}", subject.opened.loaded
    patch = Patch(
        format=1, title=f"Revert {commit[:12]}", upstream=subject.source.upstream, change=(ChangeRevert(revert=commit),)
    )
    before = () if subject.series == "without" else loaded.recipe.series
    loaded = replace(
        loaded,
        recipe=loaded.recipe.model_copy(update={"series": (*before, name)}),
        patches={**loaded.patches, name: LoadedPatch(name, loaded.folder, patch, {}, commit)},
    )
    series: Series = "with" if subject.series == "without" else subject.series
    return replace(subject, opened=replace(subject.opened, loaded=loaded), series=series)
