"""Open what a bisect names, alone at its journal, and run the session.

The state is a journal and nothing else. A killed bisect goes on where it stopped: the same request has the same key.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from patchkit.errors import RequestError
from patchkit.pipeline import open_recipe
from patchkit.search import Settings
from patchkit.tools.journal import Journal
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.bisect.request import BisectRequest, Tell
from patchkit.workflows.bisect.session import Session
from patchkit.workflows.bisect.subject import Subject, open_subject


def bisect(toolkit: Toolkit, request: BisectRequest, tell: Tell) -> dict[str, Any]:
    """Find the first bad commit and return the result's document, which is also the last event told.

    Raises `RequestError` when the request names something that is not there or another process is at the same bisect.
    """
    subject = open_subject(open_recipe(toolkit, request.recipe, request.source), request)
    result = _search(toolkit, request, subject, tell)
    tell(result)
    return result


def _search(toolkit: Toolkit, request: BisectRequest, subject: Subject, tell: Tell) -> dict[str, Any]:
    """Search a subject, then what lies inside its answer: the commits of a release, the range behind a pin."""
    with _alone(toolkit, subject.key):
        journal = Journal(toolkit.cache.folder("bisects", subject.key) / "journal.jsonl")
        if request.restart:
            journal.clear()
        settings = Settings(slots=request.jobs, flaky=subject.flaky, confidence=request.confidence)
        session = Session(subject, journal, tell, settings, list(journal.read()))
        session.begin()
        result = session.conclude(session.search())
    inner = subject.inside(result)
    if isinstance(inner, str):
        return {**result, "note": inner} if inner else result
    tell({**result, "event": "step"})
    found = _search(toolkit, request, inner, tell)
    return {**result, "inside": found, "next": found["next"] or result["next"]}


@contextlib.contextmanager
def _alone(toolkit: Toolkit, key: str) -> Iterator[None]:
    """Keep other processes off one journal."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(toolkit.cache.lock(f"bisects-{key}", timeout_seconds=0))
        except TimeoutError as error:
            raise RequestError("another process is at the same bisect", "wait for it, or end it") from error
        yield
