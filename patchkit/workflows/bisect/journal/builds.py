"""What the journal says of builds: which commits share one, what is built already, what a build and a test take.

Pure, as all that the search sees: seconds are learnt from the probes before, so a replay learns the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any

from patchkit.search.costs import Costs

Event = Mapping[str, Any]
FIRST_BUILD_SECONDS = 2400.0  # vLLM's own, on a build machine, until one was seen
FIRST_TEST_SECONDS = 60.0
KEY_DIGITS = 16


def builds_event(keys: Mapping[str, str], built: Iterable[str]) -> dict[str, Any]:
    """Return the event that tells which nodes share a build, and which builds are there."""
    short = {node: key[:KEY_DIGITS] for node, key in keys.items()}
    return {"event": "builds", "keys": short, "built": sorted({key[:KEY_DIGITS] for key in built})}


def costs_in(events: Iterable[Event]) -> tuple[Costs | None, dict[str, str]]:
    """Return what probes cost and which nodes cannot be built; no costs until something is known of them.

    A build that failed fails for all commits that share it.
    """
    keys: Mapping[str, str] = {}
    built: set[str] = set()
    failed: set[str] = set()
    builds: list[float] = []
    tests: list[float] = []
    for event in events:
        if event["event"] == "builds":
            keys, built = event["keys"], built | set(event["built"])
        elif event["event"] == "prepared":
            key = keys.get(event["node"], "")
            built |= {key} if event["build"] else set()
            failed |= {key} if event["failed"] else set()
            builds += [event["build_seconds"]] if event["build_seconds"] else []
        elif event["event"] == "probe":
            key = keys.get(event["node"], "")
            built |= {key} if event.get("build") else set()
            failed |= {key} if event["reason"] == "build-failed" else set()
            builds += [event["build_seconds"]] if event.get("build_seconds") else []
            tests += [] if event["reused"] else [event["duration_seconds"]]
    if not keys and not tests:
        return None, {}
    skips = {node: "build-failed" for node, key in keys.items() if key in failed - built}
    costs = Costs(
        test_seconds=fmean(tests) if tests else FIRST_TEST_SECONDS,
        build_seconds=(fmean(builds) if builds else FIRST_BUILD_SECONDS) if keys else 0.0,
        build_keys=keys,
        built=frozenset(built),
    )
    return costs, skips
