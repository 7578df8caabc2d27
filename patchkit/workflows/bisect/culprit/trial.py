"""How often the culprit was bad, its parents good, and the bad end good without it: counted from the journal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from patchkit.search import CommitGraph, Settings
from patchkit.workflows.bisect.journal.events import Event

MOST_REVERTS = 30  # runs without the culprit: a repro that fails less than one time in six costs more than it tells


def trial_document(graph: CommitGraph, events: Sequence[Event], culprit: str) -> dict[str, Any]:
    """Return `confirmation`, `reverted` and `revert` of a result.

    `reverted` is good, bad, conflict or skip; None when it was not tried. One bad run among good ones is bad.
    """
    parents = graph.parents.get(culprit, ())
    reverts = [event for event in events if event["event"] == "revert" and event["node"] == culprit]
    decisive = next((event for event in reverts if event["answer"] != "good"), reverts[-1] if reverts else None)
    return {
        "confirmation": {
            "culprit": _count(events, culprit, "bad"),
            "parents": [{"node": node, **_count(events, node, "good")} for node in parents],
            "carried": [[node, list(one)] for node in (culprit, *parents) for one in fix_ups_of(events, node) if one],
        },
        "reverted": decisive["answer"] if decisive else None,
        "revert": decisive
        and {
            "runs": len(reverts),
            **{name: decisive[name] for name in ("reason", "detail", "tree", "evidence")},
        },
    }


def count_reverts(graph: CommitGraph, events: Sequence[Event], culprit: str, settings: Settings) -> int:
    """Return how many good runs without the culprit it takes: one where verdicts hold.

    With flaky runs so many that a tree which still fails as often as those with the culprit did would have been caught
    with the confidence asked for: (1 - p)^n <= 1 - confidence.
    """
    if not settings.flaky:
        return 1
    position = graph.index.get(culprit)
    answers = [
        event["answer"]
        for event in events
        if event["event"] == "probe"
        and position is not None
        and graph.ancestors_of(event["node"]) >> position & 1
        and event["answer"] != "skip"
    ]
    rate = (answers.count("bad") + 0.5) / (len(answers) + 1)
    if rate >= 1:
        return 1
    return min(max(math.ceil(math.log(1 - settings.confidence) / math.log(1 - rate)), 1), MOST_REVERTS)


def fix_ups_of(events: Sequence[Event], node: str) -> tuple[tuple[str, ...], ...]:
    """Return the commits that were carried onto a node when it was told, `()` for as it is."""
    probes = (one for one in events if one["event"] == "probe" and one["node"] == node and one["answer"] != "skip")
    return tuple(dict.fromkeys(tuple(event.get("fix_up", ())) for event in probes))


def _count(events: Sequence[Event], node: str, wanted: str) -> dict[str, int]:
    """Count the runs at a node, and those with the wanted answer; what was known from before is no run."""
    runs = (event for event in events if event["event"] == "probe" and event["node"] == node and event["fresh"])
    seen = [event["answer"] for event in runs]
    return {"runs": len(seen), wanted: seen.count(wanted)}
