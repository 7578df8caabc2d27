"""Commits at which a patch of the series does not apply, known before any is probed: what files look like decides.

A diff without conditions applies alike to all commits whose files are alike, so it is tried once for each state of the
files that it names, on the first commit that has it. A patch that asks more of a commit (a condition, a rename that
upstream made, another patch before it) is left to the probe, where a conflict costs no build and no run either.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from patchkit.pipeline import series_of
from patchkit.recipe.model import ChangePatch
from patchkit.stack.apply import open_lineage
from patchkit.stack.change import read_diff
from patchkit.stack.patch import MalformedPatch, Patch
from patchkit.stack.series import StackPatch, leave_out
from patchkit.stack.status.window import DryRun
from patchkit.tools.git.raw.trees import Entry

if TYPE_CHECKING:
    from patchkit.workflows.bisect.subject import CommitSubject

State = tuple[tuple[str, Entry] | None, ...]


def find_conflicts(subject: CommitSubject) -> dict[str, str]:
    """Return the commits between the ends that cannot be patched, with the reason; nothing where it is not cheap."""
    if subject.series == "without" or subject.fix_ups or subject.source.kind != "git":
        return {}
    series = series_of(subject.opened, subject.source.upstream)
    if subject.series == "others":
        series = leave_out(series, subject.issue.slug)
    found: dict[str, str] = {}
    for patch, old, named in _told_by_files(series):
        for node, reason in _try(subject, patch, old, named):
            found.setdefault(node, reason)
    return found


def _told_by_files(series: Sequence[StackPatch]) -> Iterator[tuple[StackPatch, frozenset[str], tuple[str, ...]]]:
    """Yield the patches that their files alone decide, with the files that must be there and all that are named."""
    before: set[str] = set()  # files that earlier patches change
    for patch in series:
        diffs = _diffs_of(patch)
        if diffs is None:
            return  # nobody knows which files it changes
        files = [file for diff in diffs for file in diff.files]
        named = {path for file in files for path in (file.old_path, file.new_path) if path is not None}
        is_plain = not patch.when and not patch.requires and len(patch.changes) == 1 and patch.changes[0].when is None
        if is_plain and not named & before:
            old = frozenset(file.old_path for file in files if file.old_path is not None)
            yield patch, old, tuple(sorted(named))
        before |= named


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


def _try(
    subject: CommitSubject, patch: StackPatch, old: frozenset[str], named: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield the commits at which a patch conflicts, and why; each state of its files is tried once."""
    source, known = subject.source, dict[State, str]()
    repository, lineage = source.repository, open_lineage(source, subject.bad)
    if lineage is None:
        return
    dry_run = DryRun(source, (patch,), subject.opened.settings, lineage)
    for node in subject.graph.nodes:
        tree = repository.read_commit(node).tree
        state = tuple(repository.locate(tree, path) for path in named)
        gone = (path for path, at in zip(named, state, strict=True) if at is None or at[0] != path)
        if node in (subject.graph.good, subject.graph.bad) or not old.isdisjoint(gone):
            continue
        if state not in known:
            (outcome,) = dry_run.outcomes(node)
            known[state] = "" if outcome.stands else f"{patch.name}: {outcome}"
        if known[state]:
            yield node, known[state]
