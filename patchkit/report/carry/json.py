"""Patches that are kept, as JSON: refreshed ones, range-diffs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from patchkit.stack.carry.compare import Pair
from patchkit.stack.carry.refresh import Refreshed


def refreshed_document(patch: Refreshed) -> dict[str, Any]:
    """Return a refresh as JSON."""
    return {
        "patch": patch.patch,
        "outcome": str(patch.outcome),
        "detail": patch.detail,
        "file": None if patch.path is None else str(patch.path),
        "changed": patch.changed,
        "refused": patch.refused or None,
        "range_diff": pairs_document(patch.pairs),
    }


def pairs_document(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """Return a range-diff as JSON; numbers are null on the side where the patch is not."""
    return [
        {
            "sign": str(pair.sign),
            "old": pair.old or None,
            "new": pair.new or None,
            "title": pair.title,
            "lines": list(pair.lines),
        }
        for pair in pairs
    ]
