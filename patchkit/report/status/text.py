"""How a series stands, in plain text: a table for one commit, a matrix for several, and what made it so."""

from __future__ import annotations

from collections.abc import Sequence

from patchkit.report.text import align, flatten, removable_line
from patchkit.stack.outcome import Outcome
from patchkit.stack.status.model import HunkAnswer, HunkStatus, PatchStatus, RefStatus
from patchkit.stack.status.window import Window

QUIET = {HunkAnswer.APPLIES, HunkAnswer.OFFSET}  # hunks that need no line of their own
PLAIN = {Outcome.CLEAN, Outcome.OFFSET, Outcome.MERGED, Outcome.ANCHORED, Outcome.REWRITTEN}  # nor these patches
SHORT = 12
UNRELEASED = "no release yet"


def status_text(refs: Sequence[RefStatus]) -> str:
    """Return a table of the patches against one commit, or a matrix against several, with the hunks that differ."""
    if not refs[0].patches:
        return "the series is empty"
    if len(refs) == 1:
        head = f"against  {refs[0].commit.name}  commit {refs[0].commit.id[:SHORT]}"
        rows = [(patch.patch, patch.outcome.value, patch.method, _reason(patch)) for patch in refs[0].patches]
        return "\n".join([head, align(("patch", "outcome", "method", "detail"), rows), *_details(refs[0])])
    names = [patch.patch for patch in refs[0].patches]
    cells = [(name, *(ref.patches[index].outcome.value for ref in refs)) for index, name in enumerate(names)]
    lines = [align(("patch", *(ref.commit.name for ref in refs)), cells)]
    for ref in refs:
        if details := [*_reasons(ref), *_details(ref)]:
            lines += [f"at {ref.commit.name}", *details]
    return "\n".join(lines)


def window_text(windows: Sequence[Window]) -> str:
    """Return from where to where each patch stands alike, oldest commits first."""
    rows = [
        (window.patch, one.outcome.value, one.first[:SHORT], one.last[:SHORT], str(one.commits))
        for window in windows
        for one in window.segments
    ]
    return align(("patch", "stands", "from", "to", "commits"), rows)


def _reason(patch: PatchStatus) -> str:
    """Say in one line why a patch stands as it does: the commit that made it so, before what the engine saw."""
    if patch.upstreamed is not None:
        return f"by {patch.upstreamed.by} ({patch.upstreamed.release or UNRELEASED})"
    if patch.exclude:
        globs = ", ".join(f'"{glob}"' for glob in patch.exclude)
        return f"only tests fail; exclude: [{globs}] leaves them out"
    if not patch.outcome.stands and patch.superseded_by:
        return f"superseded by {patch.superseded_by[0]}"
    return patch.detail


def _reasons(ref: RefStatus) -> list[str]:
    """Return what a matrix has no cell for: why a patch stands as it does, where no line about a hunk tells it."""
    return [
        f"  {flatten(f'{patch.patch}: {reason}')}"
        for patch in ref.patches
        if (patch.native or patch.outcome not in PLAIN) and (reason := _reason(patch))
        if patch.upstreamed or patch.exclude or not _told(patch)
    ]


def _told(patch: PatchStatus) -> tuple[HunkStatus, ...]:
    """Return the hunks that have a line of their own; none of a patch that upstream took whole."""
    return () if patch.upstreamed else tuple(hunk for hunk in patch.hunks if hunk.answer not in QUIET)


def _details(ref: RefStatus) -> list[str]:
    spare = [f"  {removable_line(patch.patch, patch.removable)}" for patch in ref.patches if patch.removable]
    return spare + [f"  {patch.patch}: {_hunk(hunk)}" for patch in ref.patches for hunk in _told(patch)]


def _hunk(hunk: HunkStatus) -> str:
    place = f"{hunk.path} hunk {hunk.number}" if hunk.number else hunk.path
    if hunk.answer is HunkAnswer.TOO_OLD:
        return flatten(f"{place}: too old: what it needs comes with {hunk.by}")
    by = f" by {hunk.by}" if hunk.by else ""
    if hunk.by and hunk.answer is HunkAnswer.UPSTREAM:
        by += f" ({hunk.release or UNRELEASED})"
    renamed = hunk.detail.startswith(("renamed", "deleted"))
    told = f": {hunk.detail}" if hunk.detail and (renamed or not by) else ""
    return flatten(f"{place}: {hunk.answer.value}{told}{by}")
