"""What was done to an installed distribution, kept in its dist-info so that it can be undone exactly.

`<dist-info>/patchkit/journal.json` with `blobs/<sha256>`, the files as they were. `pending.json` beside it is a change
that was begun: it names every step, so whoever comes next can finish it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from patchkit.errors import RequestError
from patchkit.source.installed.distribution import OWN

FORMAT = 1
JOURNAL, PENDING, BLOBS = "journal.json", "pending.json", "blobs"


@dataclass(frozen=True)
class State:
    """A file: its content by sha256, mode bits and mtime."""

    sha256: str
    mode: int
    mtime_ns: int


@dataclass(frozen=True)
class Journal:
    """A series that stands on a distribution. `before` and `after` by path, None where there was, or is, no file.

    `caches` is byte code that was taken away, `record` the RECORD as it was, `folders` those that were made.
    """

    recipe: str
    label: str
    base: str
    tree: str
    series: tuple[Mapping[str, str], ...]
    before: Mapping[str, State | None]
    after: Mapping[str, str | None]
    caches: Mapping[str, State]
    record: State
    folders: tuple[str, ...]

    @property
    def blobs(self) -> frozenset[str]:
        """Return the contents that must be kept to take it back."""
        states = [*self.before.values(), *self.caches.values(), self.record]
        return frozenset(state.sha256 for state in states if state is not None)


def own_folder(root: Path, info: str) -> Path:
    """Return the folder that patchkit keeps in a dist-info."""
    return root / info / OWN


def dump_journal(journal: Journal) -> dict[str, Any]:
    """Return a journal as JSON-like values."""
    return {"format": FORMAT, **asdict(journal)}


def load_journal(document: Mapping[str, Any], where: Path) -> Journal:
    """Return the journal that `dump_journal` wrote. Raises `RequestError` for anything else."""
    try:
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']} is not known to this patchkit")
        return Journal(
            recipe=str(document["recipe"]),
            label=str(document["label"]),
            base=str(document["base"]),
            tree=str(document["tree"]),
            series=tuple(document["series"]),
            before={path: State(**state) if state else None for path, state in document["before"].items()},
            after=dict(document["after"]),
            caches={path: State(**state) for path, state in document["caches"].items()},
            record=State(**document["record"]),
            folders=tuple(document["folders"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _broken(where, error) from error


def read_journal(root: Path, info: str) -> Journal | None:
    """Return the journal of a distribution, None where there is none. Raises `RequestError` for a broken one."""
    path = own_folder(root, info) / JOURNAL
    try:
        document = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _broken(path, error) from error
    return load_journal(document if isinstance(document, dict) else {}, path)


def _broken(path: Path, error: Exception) -> RequestError:
    hint = "install the package again with --force-reinstall"
    return RequestError(f"{path}: is no journal of this patchkit: {type(error).__name__}: {error}", hint)
