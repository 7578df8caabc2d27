"""A series onto a tree: every patch is tried and reported, and there is a patched tree only when all of them stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from patchkit.recipe.condition import Facts, parse_condition
from patchkit.recipe.model import Change
from patchkit.source.commit import Commit, Tree
from patchkit.source.source import Source
from patchkit.stack.change import Ground, apply_change
from patchkit.stack.gate import check_gate
from patchkit.stack.ladder.attempt import Attempt
from patchkit.stack.ladder.exact import METHOD as EXACT
from patchkit.stack.lineage.lineage import Lineage
from patchkit.stack.outcome import Outcome, PatchedTree, PatchRecord, SeriesResult
from patchkit.stack.paths import native_files
from patchkit.stack.series import StackPatch
from patchkit.tools.git.objects import Delta, Repository


@dataclass(frozen=True)
class Step:
    """One patch of a series on its way: the tree that it met, what was made of it, and the record of that."""

    patch: StackPatch
    tree: str
    attempt: Attempt
    record: PatchRecord


def apply_series(source: Source, base: Tree, series: Sequence[StackPatch], facts: Facts) -> SeriesResult:
    """Apply patches one on top of the other; after one that fails the rest is tried on the tree without it.

    Nothing but the objects of a tree that stands is written to the store. The gate looks at exact results too. Raises
    `RequestError` for what is wrong at every commit (a commit to revert that upstream does not have).
    """
    ground = Ground(source, base.commit, base.id, open_lineage(source, base.commit), thorough=True)
    with source.repository.draft() as keep:
        steps = tuple(walk_series(ground, series, facts))
        records = tuple(step.record for step in steps)
        if not all(record.outcome.stands for record in records):
            return SeriesResult(records, None)
        tree = steps[-1].attempt.tree if steps else base.id
        keep(tree)
    return SeriesResult(records, PatchedTree(tree, base, records))


def walk_series(ground: Ground, series: Sequence[StackPatch], facts: Facts) -> Iterator[Step]:
    """Apply patches one on top of the other from a ground on, and yield what became of each.

    What is made on the way goes to the store, or into the draft that is open around it. Exact results are as their
    author wrote them, so they pass the gate only where the ground is thorough.
    """
    records: list[PatchRecord] = []
    repository = ground.source.repository
    for patch in series:
        attempt = _attempt_patch(ground, patch, facts, records)
        deltas: tuple[Delta, ...] = ()
        if not (ground.dry and attempt.method == EXACT):
            deltas = repository.diff(ground.tree, attempt.tree)
        if ground.thorough or attempt.method != EXACT:
            attempt = _pass_gate(repository, ground.tree, attempt, deltas)
        records.append(_record(patch, attempt, deltas, "" if ground.dry else _why_removable(patch, facts)))
        yield Step(patch, ground.tree, attempt, records[-1])
        ground = replace(ground, tree=attempt.tree)


def open_lineage(source: Source, commit: Commit) -> Lineage | None:
    """Return the history behind a commit; None where there is none (a package's releases)."""
    if source.kind == "package":
        return None
    return Lineage(source.repository, commit.id, source.repository.find_commit("HEAD") or "")


def _attempt_patch(ground: Ground, patch: StackPatch, facts: Facts, records: Sequence[PatchRecord]) -> Attempt:
    for condition in patch.when:
        decision = parse_condition(condition).decide(facts)
        if not decision.holds:
            return Attempt(Outcome.NOT_APPLICABLE, "none", decision.reason, ground.tree)
    change, reason = choose_change(patch.changes, facts)
    if change is None:
        return Attempt(Outcome.NOT_APPLICABLE, "none", reason, ground.tree)
    if missing := _missing_requirement(patch, records):
        return Attempt(Outcome.CONFLICT, "none", missing, ground.tree)
    return apply_change(ground, patch, change)


def choose_change(changes: Sequence[Change], facts: Facts) -> tuple[Change | None, str]:
    """Return the first change whose condition holds; else None and why none of them does."""
    reasons = []
    for change in changes:
        if change.when is None:
            return change, ""
        decision = parse_condition(change.when).decide(facts)
        if decision.holds:
            return change, ""
        reasons.append(decision.reason)
    return None, "; ".join(dict.fromkeys(reasons))


def _missing_requirement(patch: StackPatch, records: Sequence[PatchRecord]) -> str:
    outcomes = {record.patch: record.outcome for record in records}
    for name in patch.requires:
        if name not in outcomes:
            return f"requires {name}, which does not come before it in the series"
        if not outcomes[name].stands:
            return f"requires {name}, which does not stand ({outcomes[name]})"
    return ""


def _pass_gate(repository: Repository, tree: str, attempt: Attempt, deltas: Sequence[Delta]) -> Attempt:
    """Return the attempt, or a review on the tree before when what it made is broken Python."""
    complaint = check_gate(repository, deltas)
    return Attempt(Outcome.REVIEW, attempt.method, complaint, tree) if complaint else attempt


def _why_removable(patch: StackPatch, facts: Facts) -> str:
    """Return why a patch is not needed any more by its own word; '' where it is, or where that cannot be told."""
    decision = parse_condition(patch.remove_when).decide(facts) if patch.remove_when is not None else None
    return decision.reason if decision is not None and decision.holds else ""


def _record(patch: StackPatch, attempt: Attempt, deltas: Sequence[Delta], removable: str) -> PatchRecord:
    files = tuple(delta.path for delta in deltas) if attempt.outcome.stands else ()
    native = native_files(files)
    note = f"; needs a native build ({native[0]}{' …' if native[1:] else ''})" if native else ""
    return PatchRecord(
        patch=patch.name,
        outcome=attempt.outcome,
        method=attempt.method,
        detail=attempt.detail + note,
        files=files,
        sha256=patch.sha256,
        native=bool(native),
        removable=removable,
    )
