"""Tell what the store holds, and free it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from patchkit.errors import RequestError
from patchkit.tools.cache import Usage, measure_store, prune_store
from patchkit.tools.toolkit import Toolkit

STATE = frozenset({"bisects", "watch"})  # not made from anything else: removed only when named


def report_usage(toolkit: Toolkit, kinds: Sequence[str] = ()) -> tuple[Usage, ...]:
    """Return what each kind of entry (or each of `kinds`) takes, largest first.

    Raises `RequestError` for a kind that the store does not have.
    """
    usages = _check_kinds(kinds, measure_store(toolkit.cache))
    return tuple(usage for usage in usages if not kinds or usage.kind in kinds)


def free_store(toolkit: Toolkit, kinds: Sequence[str], unused_days: float) -> tuple[Usage, ...]:
    """Remove entries not touched for `unused_days`: of `kinds`, or of every kind that can be made again.

    Raises `RequestError` for a kind that the store does not have, and when all is to go while others use the store.
    """
    present = [usage.kind for usage in _check_kinds(kinds, measure_store(toolkit.cache))]
    chosen = list(kinds) or [kind for kind in present if kind not in STATE and kind != "partial"]
    try:
        return prune_store(toolkit.cache, chosen, unused_days, time.time())
    except TimeoutError as error:
        hint = "wait for it, or keep what was used today: --unused-days 1"
        raise RequestError(f"{toolkit.cache.root}: another patchkit is using the store", hint) from error


def _check_kinds(kinds: Sequence[str], usages: tuple[Usage, ...]) -> tuple[Usage, ...]:
    present = [usage.kind for usage in usages]
    if unknown := [kind for kind in kinds if kind not in present]:
        raise RequestError(f"the store has no {', '.join(unknown)}", f"it has: {', '.join(present) or 'nothing'}")
    return usages
