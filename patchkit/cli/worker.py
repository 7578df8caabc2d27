"""What runs in a process of a Ray cluster: the entry of a worker, as `run` is the entry of the program."""

from __future__ import annotations

import os

from patchkit.tools.cluster import LOCAL
from patchkit.workflows.bisect.remote import Ask, Told, answer


def answer_here(ask: Ask) -> Told:
    """Answer a question of a bisect with this process's environment."""
    return answer(ask, dict(os.environ))


def keep_quiet(address: str) -> None:
    """Tell Ray to report nothing to anybody, and to lock a cluster made here; to be called before it starts."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address == LOCAL:
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # Ray's default, but it says so at every start
