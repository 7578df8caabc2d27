"""What has to happen in a site-packages folder so that a series stands on a distribution, or stands no more.

A plan names for each file what is there now and what will be there; whoever carries it out can be killed anywhere.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import overload

from patchkit.errors import RequestError
from patchkit.source.installed.distribution import OWN, name_some
from patchkit.source.installed.folder import Installed, read_file
from patchkit.source.installed.journal import BLOBS, JOURNAL, Journal, State, dump_journal, own_folder
from patchkit.source.installed.record import Row, digest_text, dump_record, edit_rows, parse_record

NEW_MODE = 0o644


@dataclass(frozen=True)
class Standing:
    """A series that is to stand: its tree, and the content of each file that differs from the base (None: gone)."""

    recipe: str
    base: str
    tree: str
    series: tuple[Mapping[str, str], ...]
    contents: Mapping[str, bytes | None]


@dataclass(frozen=True)
class Step:
    """One file: the sha256 that it has now (None: not there), and what it will be. A `cache` may have any content."""

    path: str
    before: str | None
    after: State | None
    cache: bool = False


@dataclass(frozen=True)
class Plan:
    """All steps, RECORD last; `contents` by sha256 holds the bytes of every state. `journal` None: nothing is left."""

    steps: tuple[Step, ...]
    journal: Journal | None
    make: tuple[str, ...] = ()  # folders, the outer ones first; those that are there already do no harm
    remove: tuple[str, ...] = ()  # folders, if nothing is in them, the inner ones first
    contents: Mapping[str, bytes] = field(default_factory=dict, repr=False)


def journal_text(journal: Journal) -> bytes:
    """Return the bytes of journal.json."""
    return (json.dumps(dump_journal(journal), sort_keys=True, indent=1) + "\n").encode()


def plan_change(installed: Installed, standing: Standing | None) -> Plan | None:
    """Return what is to be done so that a series stands (None: as upstream made it); None when it is so already.

    Raises `RequestError` when files were changed since the journal was written.
    """
    check_unchanged(installed)
    journal = installed.journal
    wanted = {} if standing is None else standing.contents
    current = {} if journal is None else journal.after
    if {path: _sha256(data) for path, data in wanted.items()} == dict(current):
        return None
    return _Planner(installed, standing if wanted else None).plan()


def check_unchanged(installed: Installed) -> None:
    """Raise `RequestError` when a file that the journal names, or RECORD, is not as patchkit left it."""
    journal, root = installed.journal, installed.root
    if journal is None:
        return
    now = {path: read_file(root, path) for path in journal.after}
    wrong = [path for path, data in now.items() if _sha256(data) != journal.after[path]]
    if not wrong and make_record(installed, journal, now) != installed.distribution.record:
        wrong = [f"{installed.distribution.info}/RECORD"]
    if wrong:
        wanted = f"{installed.distribution.name}=={installed.distribution.version}"
        hint = f"keep your change, then: pip install --force-reinstall --no-deps '{wanted}'"
        raise RequestError(f"{root}: changed since patchkit patched it: {name_some(sorted(wrong))}", hint)


def make_record(installed: Installed, journal: Journal, contents: Mapping[str, bytes | None]) -> bytes:
    """Return the RECORD of a patched distribution: of its files as they are now, with the journal and its blobs."""
    original = _original_record(installed)
    own = f"{installed.distribution.info}/{OWN}"
    files: dict[str, bytes | None] = {**contents, f"{own}/{JOURNAL}": journal_text(journal)}
    rows = edit_rows(parse_record(original, "RECORD"), files)
    rows = tuple(replace(row, digest="", size="") if row.path in journal.caches else row for row in rows)
    rows += tuple(Row(f"{own}/{BLOBS}/{sha256}", digest_text(sha256), "") for sha256 in sorted(journal.blobs))
    return dump_record(rows, original)


def _original_record(installed: Installed) -> bytes:
    if installed.journal is None:
        return installed.distribution.record
    return _blob(installed, installed.journal.record.sha256)


def _blob(installed: Installed, sha256: str) -> bytes:
    path = own_folder(installed.root, installed.distribution.info) / BLOBS / sha256
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RequestError(f"{path}: cannot be read: {error.strerror}", "install the package again") from error
    if _sha256(data) != sha256:
        raise RequestError(f"{path}: is damaged", "install the package again")
    return data


@overload
def _sha256(data: bytes) -> str: ...
@overload
def _sha256(data: None) -> None: ...
@overload
def _sha256(data: bytes | None) -> str | None: ...
def _sha256(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()


class _Planner:
    """Works out one plan."""

    def __init__(self, installed: Installed, standing: Standing | None) -> None:
        self.installed = installed
        self.standing = standing
        self.root = installed.root
        self.info = installed.distribution.info
        self.old = installed.journal
        self.contents: dict[str, bytes] = {}
        self.wanted = {} if standing is None else standing.contents
        self.touched = sorted({*self.wanted, *(self.old.after if self.old else ())})

    def plan(self) -> Plan:
        """Return the plan: files, byte code, RECORD."""
        before = {path: self._before(path) for path in self.touched}
        caches = self._caches()
        made = self._made()
        record_path = f"{self.info}/RECORD"
        record = self.old.record if self.old else self._state(record_path)
        if record is None:
            raise RequestError(f"{self.root / record_path}: is gone", "install the package again")
        steps = [Step(path, self._now(path), self._after(path, before[path])) for path in self.touched]
        journal = None if self.standing is None else self._journal(self.standing, before, caches, record)
        steps += self._cache_steps(caches)
        steps.append(Step(record_path, self._now(record_path), self._new_record(journal, record)))
        gone = tuple(sorted(set(self.old.folders if self.old else ()) - set(made), reverse=True))
        return Plan(tuple(steps), journal, made, gone, self.contents)

    def _journal(
        self, standing: Standing, before: Mapping[str, State | None], caches: Mapping[str, State], record: State
    ) -> Journal:
        return Journal(
            recipe=standing.recipe,
            label=self.installed.distribution.label,
            base=standing.base,
            tree=standing.tree,
            series=standing.series,
            before={path: before[path] for path in self.wanted},
            after={path: _sha256(data) for path, data in self.wanted.items()},
            caches=caches,
            record=record,
            folders=self._made(),
        )

    def _before(self, path: str) -> State | None:
        """Return the state of a file as upstream made it."""
        if self.old is not None and path in self.old.before:
            state = self.old.before[path]
            if state is not None:
                self.contents[state.sha256] = _blob(self.installed, state.sha256)
            return state
        return self._state(path)

    def _state(self, path: str) -> State | None:
        data = read_file(self.root, path)
        if data is None:
            return None
        found = (self.root / path).stat()
        self.contents[_sha256(data)] = data
        return State(_sha256(data), found.st_mode & 0o7777, found.st_mtime_ns)

    def _now(self, path: str) -> str | None:
        return _sha256(read_file(self.root, path))

    def _after(self, path: str, before: State | None) -> State | None:
        if path not in self.wanted:
            return before
        data = self.wanted[path]
        return None if data is None else self._keep(data, NEW_MODE if before is None else before.mode)

    def _keep(self, data: bytes, mode: int) -> State:
        self.contents[_sha256(data)] = data
        return State(_sha256(data), mode, time.time_ns())

    def _caches(self) -> dict[str, State]:
        """Return the byte code that upstream's installer or a run made of the files before they were changed."""
        found: dict[str, State] = {}
        for path in self.wanted:
            known = self.old is not None and path in self.old.before
            for cache in () if known else self._caches_of(path):
                if (state := self._state(cache)) is not None:
                    found[cache] = state
        for cache, state in (self.old.caches if self.old else {}).items():
            self.contents[state.sha256] = _blob(self.installed, state.sha256)
            if _source_of(cache) in self.wanted:
                found[cache] = state
        return found

    def _caches_of(self, path: str) -> list[str]:
        """Return the byte code of a module that is there, for whatever interpreter."""
        if not path.endswith(".py"):
            return []
        folder, _, name = path.rpartition("/")
        place = self.root / folder / "__pycache__"
        if place.is_symlink():
            return []
        return [str(file.relative_to(self.root)) for file in sorted(place.glob(f"{name[:-3]}.*.pyc"))]

    def _cache_steps(self, caches: Mapping[str, State]) -> list[Step]:
        """Take away the byte code of every file that changes; what belongs to a file that goes back comes back."""
        old = {} if self.old is None else self.old.caches
        there = {cache for path in self.touched for cache in self._caches_of(path)}
        back = {cache: state for cache, state in old.items() if cache not in caches}
        return [Step(cache, None, back.get(cache), cache=True) for cache in sorted({*there, *back})]

    def _made(self) -> tuple[str, ...]:
        """Return the folders that are there only for new files."""
        known = set(self.old.folders if self.old else ())
        folders = {
            str(parent) for path, data in self.wanted.items() if data is not None for parent in Path(path).parents
        }
        return tuple(sorted(name for name in folders - {"."} if name in known or not (self.root / name).is_dir()))

    def _new_record(self, journal: Journal | None, original: State) -> State:
        if journal is None:
            self.contents[original.sha256] = _original_record(self.installed)
            return original
        return self._keep(make_record(self.installed, journal, self.wanted), original.mode)


def _source_of(cache: str) -> str:
    """Return the module that a file of __pycache__ is the byte code of."""
    folder, _, name = cache.rpartition("/")
    return f"{folder.removesuffix('/__pycache__').removesuffix('__pycache__')}/{name.partition('.')[0]}.py".lstrip("/")
