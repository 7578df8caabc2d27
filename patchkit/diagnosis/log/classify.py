"""The text of a failure → its kind."""

from __future__ import annotations

import re
from functools import lru_cache

from patchkit.diagnosis.log.kinds import KINDS, Kind

COMPILED = tuple((kind, re.compile(kind.pattern, re.MULTILINE | re.IGNORECASE)) for kind in KINDS)
ALONE = tuple((kind, pattern) for kind, pattern in COMPILED if kind.alone)


@lru_cache(maxsize=1024)  # the same failure comes from every rank, and of a server that goes on, over and over
def classify(text: str) -> Kind | None:
    """Return the kind that a failure's text is of, or None for one that is not known."""
    return _find(text, COMPILED)


def classify_line(text: str) -> Kind | None:
    """Return the kind of a line that is a failure in itself, or None."""
    return _find(text, ALONE)


def _find(text: str, kinds: tuple[tuple[Kind, re.Pattern[str]], ...]) -> Kind | None:
    lowered = text.lower()
    for kind, pattern in kinds:
        for word in kind.words:
            if word in lowered:
                if pattern.search(text):
                    return kind
                break
    return None
