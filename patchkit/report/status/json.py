"""The document of `status`: the keys are a contract, `format` is added where it is written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from patchkit.source.commit import Commit
from patchkit.stack.lineage.breaker import Touch
from patchkit.stack.status.model import ConflictRecord, HunkStatus, PatchStatus, RefStatus, Upstreaming
from patchkit.stack.status.window import Window


def refs_document(refs: Iterable[RefStatus]) -> dict[str, Any]:
    """Return `against: [{at, commit}], patches: […]`; one entry for each patch and commit."""
    refs = tuple(refs)
    return {
        "against": [{"at": ref.commit.name, "commit": ref.commit.id, "stands": ref.stands} for ref in refs],
        "patches": [patch_document(patch, ref.commit) for ref in refs for patch in ref.patches],
    }


def patch_document(patch: PatchStatus, commit: Commit) -> dict[str, Any]:
    """Return one patch against one commit."""
    return {
        "patch": patch.patch,
        "at": commit.name,
        "commit": commit.id,
        "outcome": patch.outcome.value,
        "method": patch.method,
        "detail": patch.detail,
        "native": patch.native,
        "removable": patch.removable or None,
        "hunks": [_hunk(hunk) for hunk in patch.hunks],
        "upstreamed_by": _upstreaming(patch.upstreamed),
        "partly_upstreamed_by": [touch_document(touch) for touch in patch.partly],
        "superseded_by": [touch_document(touch) for touch in patch.superseded_by],
        "exclude": list(patch.exclude),
        "conflicts": [_conflict(conflict) for conflict in patch.conflicts],
        "first_conflict": None,
    }


def window_document(window: Window) -> dict[str, Any]:
    """Return how a patch stands over a range, oldest commits first."""
    segments = [
        {"outcome": one.outcome.value, "first": one.first, "last": one.last, "commits": one.commits}
        for one in window.segments
    ]
    return {"patch": window.patch, "segments": segments}


def touch_document(touch: Touch | None) -> dict[str, str] | None:
    """Return a commit and its subject."""
    return None if touch is None else {"commit": touch.commit, "subject": touch.subject}


def _hunk(hunk: HunkStatus) -> dict[str, Any]:
    return {
        "path": hunk.path,
        "hunk": hunk.number,
        "answer": hunk.answer.value,
        "line": hunk.line,
        "offset": hunk.offset,
        "by": touch_document(hunk.by),
        "release": hunk.release or None,
        "detail": hunk.detail,
    }


def _upstreaming(upstreaming: Upstreaming | None) -> dict[str, Any] | None:
    if upstreaming is None:
        return None
    by = {"commit": upstreaming.by.commit, "subject": upstreaming.by.subject}
    return {**by, "how": upstreaming.how, "release": upstreaming.release or None}


def _conflict(conflict: ConflictRecord) -> dict[str, Any]:
    return {
        "path": conflict.path,
        "hunk": conflict.hunk,
        "function": conflict.function,
        "commits": [touch_document(touch) for touch in conflict.commits],
        "base": conflict.base,
        "ours": conflict.ours,
        "theirs": conflict.theirs,
    }
