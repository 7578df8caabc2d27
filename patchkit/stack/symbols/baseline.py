"""What was broken before: a file that a downstream package keeps beside its code, so that only news fails."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from patchkit.errors import RequestError
from patchkit.stack.symbols.examine import Answer, Finding

Key = tuple[str, str, str]
FORMAT = 1


def read_baseline(path: Path) -> frozenset[Key]:
    """Return the problems that a baseline names: symbol, problem, detail. Raises `RequestError` for any other file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != FORMAT:
            raise ValueError(f"has format {document['format']!r}, known is {FORMAT}")
        return frozenset((one["symbol"], Answer(one["problem"]).value, one["detail"]) for one in document["broken"])
    except OSError as error:
        raise RequestError(f"{path}: cannot be read: {error.strerror}", "--write-baseline makes one") from error
    except (ValueError, KeyError, TypeError) as error:
        raise RequestError(f"{path}: is no baseline: {error}", "--write-baseline makes one") from error


def render_baseline(findings: Iterable[Finding]) -> bytes:
    """Return the text of a baseline: sorted, without files and lines, so that it changes with the problems only."""
    names = ("symbol", "problem", "detail")
    broken = [dict(zip(names, key, strict=True)) for key in sorted({finding.key for finding in findings})]
    return (json.dumps({"format": FORMAT, "broken": broken}, indent=1) + "\n").encode()
