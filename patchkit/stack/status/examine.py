"""A series against one commit: applied as `apply` does, then asked hunk by hunk what made it so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from patchkit.recipe.condition import Facts
from patchkit.recipe.model import ChangePatch
from patchkit.source.commit import Commit, Tree
from patchkit.source.source import Source
from patchkit.stack.apply import Step, choose_change, open_lineage, walk_series
from patchkit.stack.change import Ground, read_diff
from patchkit.stack.ladder.attempt import exclude_globs
from patchkit.stack.lineage.breaker import Touch
from patchkit.stack.lineage.lineage import Lineage
from patchkit.stack.lineage.upstreamed import WITNESSES, find_upstreamed
from patchkit.stack.outcome import Outcome
from patchkit.stack.patch import MalformedPatch, Patch
from patchkit.stack.series import StackPatch
from patchkit.stack.status.hunks import Examiner, first_release
from patchkit.stack.status.model import PatchStatus, RefStatus, Upstreaming
from patchkit.tools.git.objects import Repository

UPSTREAM = {Outcome.ALREADY_UPSTREAM, Outcome.PARTLY_UPSTREAMED}


def examine_series(source: Source, base: Tree, series: Sequence[StackPatch], facts: Facts) -> RefStatus:
    """Return how every patch and hunk stands on a commit. Raises what `apply_series` raises."""
    lineage = open_lineage(source, base.commit)
    if lineage is not None:
        lineage.expected = frozenset(path for patch in series for path in paths_of(patch, facts)[:WITNESSES])
    ground = Ground(source, base.commit, base.id, lineage, thorough=True)
    with source.repository.draft():
        steps = walk_series(ground, series, facts)
        return RefStatus(base.commit, tuple(_examine(source.repository, step, facts, lineage) for step in steps))


def diffs_of(patch: StackPatch, facts: Facts) -> tuple[Patch, ...]:
    """Return the diff of a patch as it is chosen for these facts; none for other kinds of change, or a broken one."""
    change, _ = choose_change(patch.changes, facts)
    if not isinstance(change, ChangePatch):
        return ()
    try:
        return read_diff(patch.folder, change)
    except MalformedPatch:
        return ()


def paths_of(patch: StackPatch, facts: Facts) -> tuple[str, ...]:
    """Return the files that a patch's diff or rewrite names."""
    names = [name for diff in diffs_of(patch, facts) for file in diff.files for name in (file.old_path, file.new_path)]
    steps = (step.file for steps in patch.rewrites.values() for step in steps)
    return tuple(dict.fromkeys([*filter(None, names), *steps]))


def _examine(repository: Repository, step: Step, facts: Facts, lineage: Lineage | None) -> PatchStatus:
    record, attempt = step.record, step.attempt
    status = PatchStatus(record.patch, record.outcome, record.method, record.detail, native=record.native)
    status = replace(status, removable=record.removable)
    patches = diffs_of(step.patch, facts) if record.outcome is not Outcome.NOT_APPLICABLE else ()
    if record.outcome in UPSTREAM or attempt.method == "history":
        status = replace(status, upstreamed=_upstreaming(lineage, patches))
    if patches and attempt.files:
        examiner = Examiner(repository, step.tree, lineage, status.upstreamed)
        hunks, conflicts = examiner.examine(patches, attempt.files)
        status = replace(status, hunks=hunks, conflicts=conflicts)
    if record.outcome is Outcome.TEST_ONLY:
        failed = [result.path for result in attempt.files if not result.outcome.stands]
        status = replace(status, exclude=exclude_globs(failed))
    return status


def _upstreaming(lineage: Lineage | None, patches: Sequence[Patch]) -> Upstreaming | None:
    taken = find_upstreamed(lineage, patches) if lineage is not None and patches else None
    if lineage is None or taken is None:
        return None
    return Upstreaming(Touch(taken.commit, taken.subject), taken.how, first_release(lineage.repository, taken.commit))


def commit_at(source: Source, commit: str) -> Commit:
    """Return a commit of the store by its id, its version left out: asking for that costs more than a dry run."""
    record = source.repository.read_commit(commit)
    return Commit(source.upstream, commit, record.tree, "", record.subject, record.commit_time, None)
