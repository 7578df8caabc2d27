"""Commits at which a patch of the series does not apply, known before any is probed: what files look like decides.

A diff without conditions applies alike to all commits whose files are alike, so it is tried once for each state of the
files that it names, on the first commit that has it. Where it does not apply, upstream may have taken it before, and
what it was made for is looked up in the past of the files: commits that share both state and past share the answer. A
patch that asks more of a commit (a condition, a rename that upstream made, another patch before it) is left to the
probe, where a conflict costs no build and no run either.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from patchkit.pipeline import series_of
from patchkit.recipe.model import ChangePatch
from patchkit.stack.apply import open_lineage, walk_series
from patchkit.stack.change import Ground, read_diff
from patchkit.stack.lineage.images import find_images
from patchkit.stack.lineage.pasts import Pasts, read_pasts
from patchkit.stack.lineage.upstreamed import find_takers
from patchkit.stack.outcome import Outcome
from patchkit.stack.patch import MalformedPatch, Patch
from patchkit.stack.series import StackPatch, leave_out
from patchkit.stack.status.examine import commit_at
from patchkit.stack.status.window import DryRun, find_state

if TYPE_CHECKING:
    from patchkit.workflows.bisect.subject import CommitSubject

SECONDS = 2.0  # of processor time, for all patches: what is not known by then is left to the probes


def find_conflicts(subject: CommitSubject) -> dict[str, str]:
    """Return the commits between the ends that cannot be patched, with the reason; nothing where it is not cheap."""
    if subject.series == "without" or subject.fix_ups or subject.source.kind != "git":
        return {}
    series = series_of(subject.opened, subject.source.upstream)
    if subject.series == "others":
        series = leave_out(series, subject.issue.slug)
    found: dict[str, str] = {}
    until = time.process_time() + SECONDS
    for plain in _told_by_files(series):
        if time.process_time() > until:
            break
        for node, reason in _try(subject, plain, until):
            found.setdefault(node, reason)
    return found


@dataclass(frozen=True)
class _Plain:
    """A patch that its files alone decide: its diffs, the files that must be there, and all that are named."""

    patch: StackPatch
    diffs: tuple[Patch, ...]
    old: frozenset[str]
    named: tuple[str, ...]


def _told_by_files(series: Sequence[StackPatch]) -> Iterator[_Plain]:
    """Yield the patches that their files alone decide."""
    before: set[str] = set()  # files that earlier patches change
    for patch in series:
        diffs = _diffs_of(patch)
        if diffs is None:
            return  # nobody knows which files it changes
        files = [file for diff in diffs for file in diff.files]
        named = {path for file in files for path in (file.old_path, file.new_path) if path is not None}
        is_plain = not patch.when and not patch.requires and len(patch.changes) == 1 and patch.changes[0].when is None
        if is_plain and not any(_meet(path, earlier) for path in named for earlier in before):
            old = frozenset(file.old_path for file in files if file.old_path is not None)
            yield _Plain(patch, diffs, old, tuple(sorted(named)))
        before |= named


def _meet(one: str, other: str) -> bool:
    """Return whether two names are the same, or one is a folder of the other."""
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


def _diffs_of(patch: StackPatch) -> tuple[Patch, ...] | None:
    """Return the diffs of all changes of a patch, None when one of them is no diff that can be read."""
    found: list[Patch] = []
    for change in patch.changes:
        if not isinstance(change, ChangePatch):
            return None
        try:
            found += read_diff(patch.folder, change)
        except MalformedPatch:
            return None
    return tuple(found)


def _try(subject: CommitSubject, plain: _Plain, until: float) -> Iterator[tuple[str, str]]:
    """Yield the commits at which a patch conflicts, and why; each state of its files is tried once for each past."""
    repository, graph = subject.source.repository, subject.graph
    lineage = open_lineage(subject.source, subject.bad)
    if lineage is None:
        return
    dry_run = DryRun(subject.source, (plain.patch,), subject.opened.settings, lineage)
    states: dict[object, Outcome] = {}
    known: dict[object, Outcome] = {}
    trial: _Trial | None = None  # only where a patch does not apply history is read
    for node in graph.nodes:
        tree = repository.read_commit(node).tree
        if node in (graph.good, graph.bad) or any(repository.entry(tree, path) is None for path in plain.old):
            continue
        state = find_state(repository, tree, plain.named)
        if state not in states and time.process_time() < until:
            states[state] = _outcome(dry_run, node)
        if states.get(state, Outcome.CLEAN).stands:
            continue
        trial = trial or _Trial(subject, plain, read_pasts(lineage, graph.good, graph.nodes, plain.named), until)
        key = (state, trial.pasts.of[node])
        if key not in known:
            known[key] = trial.outcome(node, states[state])
        if not known[key].stands:
            yield node, f"{plain.patch.name}: {known[key]}"


def _outcome(dry_run: DryRun, node: str) -> Outcome:
    try:
        (outcome,) = dry_run.outcomes(node)
    except KeyError:  # a partial clone that lacks a file
        return Outcome.CLEAN
    return outcome


@dataclass
class _Trial:
    """A patch tried at commits as a probe does it, the past of each included, `until` a point of processor time."""

    subject: CommitSubject
    plain: _Plain
    pasts: Pasts
    until: float

    @cached_property
    def takers(self) -> frozenset[str]:
        """Return the commits that may have taken the patch."""
        return find_takers(self.pasts.newest, self.plain.diffs)

    @cached_property
    def is_named(self) -> bool:
        """Return whether the patch itself names all that it was made for, which no past is asked for then."""
        diffs = self.plain.diffs
        images = find_images(self.subject.source.repository, diffs, None)
        return all(file.line in images for diff in diffs for file in diff.files if file.old_path and file.hunks)

    def outcome(self, node: str, dry: Outcome) -> Outcome:
        """Return what becomes of the patch at a node, where a dry run says that it does not stand."""
        if self.is_named and not self.pasts.holds(node, self.takers):
            return dry
        if time.process_time() > self.until:
            return Outcome.CLEAN  # nobody knows: the probe tells
        source = self.subject.source
        commit = commit_at(source, node)
        ground = Ground(source, commit, commit.tree, self.pasts.lineage(node), thorough=True)
        try:
            with source.repository.draft(rough=True):
                (step,) = walk_series(ground, (self.plain.patch,), source.facts(commit, self.subject.opened.settings))
        except KeyError:
            return Outcome.CLEAN
        return step.record.outcome
