"""What a probe left behind, kept in a folder of the store, so that it can be graded again without running anything."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import mmap
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import IO, Any

from patchkit.errors import InfrastructureFailure, RequestError
from patchkit.tools.cache import Cache, storage_errors
from patchkit.tools.process import run_process
from patchkit.verdict.search import is_quick, search

KIND = "evidence"
EVIDENCE_FORMAT = 1
KEPT_BYTES = 1_000_000  # of a log's beginning, and again of its end: what people read; the rest is usually one line
LOADED_BYTES = 50_000_000  # of the record of files: half a million paths
CUT = "\n[… {} bytes left out …]\n"
MARK = re.compile(rb"^patchkit:([^\r\n]*)", re.MULTILINE)
NUMBER = re.compile(r"\s*[-+]?(\d{1,100}\.?\d*|\.\d+)(e[-+]?\d{1,2})?\s*", re.IGNORECASE)  # finite as a float
MOST_MARKS = 1000  # a repro that prints marks in a loop must not fill the record
LONGEST_MARK = 2000
LOG_BYTES = 1 << 30  # a repro that writes more is ended: it would fill the disk
SEARCH_SECONDS = 30.0  # for a signature; a gigabyte takes a few seconds
QUICK_BYTES = 200_000  # of a log that a quick signature is searched for in this process
SEARCH = Path(__file__).with_name("search.py")


@dataclass(frozen=True)
class Run:
    """One run of a repro. `output` is the kept part of its log; `marks` and `found` come from the whole log.

    `exit_code` is negative for a signal. `marks` are the `patchkit: …` lines without the prefix; `found` is the line
    that has the signature, empty when there is none. `searched` is false when the signature took too long,
    `overflowed` is true when the run was ended since it wrote more than `LOG_BYTES`.
    """

    exit_code: int
    timed_out: bool
    duration_seconds: float
    output: str
    size_bytes: int
    marks: tuple[str, ...]
    found: str
    searched: bool = True
    overflowed: bool = False

    @property
    def metric(self) -> float | None:
        """Return the number that the run printed last as `patchkit: metric=<number>`, None where it printed none."""
        values = [mark.partition("=")[2] for mark in self.marks if mark.startswith("metric=")]
        return float(values[-1]) if values and NUMBER.fullmatch(values[-1]) else None


@dataclass(frozen=True)
class Evidence:
    """All runs of one repro on one tree in one environment. `loaded` are files of the tree that were really opened.

    A file of the tree beside it is `<upstream>:<path>`. `looked` are places that were listed, or opened in vain. `kind`
    is how exit codes read.
    """

    issue: str
    issue_sha256: str
    repro: str
    kind: str  # script or pytest
    signature: str
    command: tuple[str, ...]
    commit: str
    version: str | None
    tree: str
    environment: str
    versions: Mapping[str, str]
    runs: tuple[Run, ...]
    loaded: tuple[str, ...]
    looked: tuple[str, ...]
    folder: Path | None = None

    @property
    def duration_seconds(self) -> float:
        """Return how long all runs took together."""
        return sum(run.duration_seconds for run in self.runs)

    @property
    def metrics(self) -> tuple[float, ...]:
        """Return the numbers that the runs printed as `patchkit: metric=<number>`, the last of each run."""
        return tuple(run.metric for run in self.runs if run.metric is not None)

    @property
    def value(self) -> float | None:
        """Return the mean of the numbers that the runs printed, None where none did."""
        return fmean(self.metrics) if self.metrics else None


@dataclass(frozen=True)
class LogFacts:
    """What a log says: kept text, size, and marks."""

    output: str
    size_bytes: int
    marks: tuple[str, ...]


def read_log(log: Path) -> LogFacts:
    """Read a whole log, however large, and return what counts of it.

    Raises `InfrastructureFailure` when the run took its log away, or put something else in its place.
    """
    with _open_plain(log) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size == 0:
            return LogFacts("", 0, ())
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
            marks = _read_marks(content)
            if size <= 2 * KEPT_BYTES:
                return LogFacts(_text(content[:]), size, marks)
            output = _text(content[:KEPT_BYTES]) + CUT.format(size - 2 * KEPT_BYTES) + _text(content[-KEPT_BYTES:])
            return LogFacts(output, size, marks)


def _read_marks(content: mmap.mmap) -> tuple[str, ...]:
    marks: list[str] = []
    at = 0
    while len(marks) < MOST_MARKS and (match := MARK.search(content, at)):
        at = match.end()
        if text := _text(match.group(1)[:LONGEST_MARK]).strip():
            marks.append(text)
    return tuple(marks)


def _open_plain(log: Path) -> IO[bytes]:
    """Open a file that a repro could reach: no link is followed, no pipe is waited for."""
    try:
        descriptor = os.open(log, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        stream = os.fdopen(descriptor, "rb")
    except OSError as error:
        raise InfrastructureFailure(f"{log.name}: the run took its own log away: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        raise InfrastructureFailure(f"{log.name}: the run put something else in the place of its log")
    return stream


def find_signature(log: Path, facts: LogFacts, signature: str) -> str | None:
    """Return the line of a log in which a signature begins, '' when there is none, None when it takes too long."""
    if is_quick(signature) and facts.size_bytes <= QUICK_BYTES:
        return search(signature, facts.output)
    command = [sys.executable, "-I", "-S", str(SEARCH), str(log)]
    done = run_process(command, input_bytes=signature.encode(), timeout_seconds=SEARCH_SECONDS)
    if done.timed_out:
        return None
    if done.exit_code:
        raise InfrastructureFailure(f"{log.name}: cannot be searched: {done.complaint}")
    return done.text


def write_evidence(cache: Cache, key: str, evidence: Evidence, logs: tuple[Path, ...]) -> Evidence:
    """Keep evidence under a key, replacing what was there, whole or not at all; return it with its folder.

    Raises `StoreFailure`.
    """
    target = cache.folder(KIND, key)
    partial = cache.scratch("partial") / f"{KIND}-{secrets.token_hex(8)}"
    with storage_errors(target):
        partial.mkdir()
        for number, (log, run) in enumerate(zip(logs, evidence.runs, strict=True), 1):
            kept = partial / f"run-{number}.log"
            if run.size_bytes <= 2 * KEPT_BYTES:
                with _open_plain(log) as stream, kept.open("wb") as copy:
                    shutil.copyfileobj(stream, copy)
            else:
                kept.write_text(run.output, encoding="utf-8", errors="replace")
        (partial / "record.json").write_text(json.dumps(_to_record(evidence), indent=1, sort_keys=True) + "\n")
        with cache.lock(f"{KIND}-{key}"):
            _replace(partial, target)
    return dataclasses.replace(evidence, folder=target)


def read_evidence(folder: Path) -> Evidence:
    """Return the evidence in a folder of the store. Raises `RequestError` when there is none that can be read."""
    try:
        record: dict[str, Any] = json.loads((folder / "record.json").read_bytes())
        if record.pop("format") != EVIDENCE_FORMAT:
            raise ValueError("of another version of patchkit")
        runs = []
        for number, run in enumerate(record.pop("runs"), 1):
            output = (folder / f"run-{number}.log").read_bytes().decode("utf-8", "replace")
            runs.append(Run(**{**run, "marks": tuple(run["marks"])}, output=output))
        record |= {name: tuple(record[name]) for name in ("command", "loaded", "looked")}
        return Evidence(**record, runs=tuple(runs), folder=folder)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RequestError(f"{folder}: no evidence that can be read: {error}", "run the repro with --fresh") from error


def _to_record(evidence: Evidence) -> dict[str, Any]:
    record = {"format": EVIDENCE_FORMAT, **dataclasses.asdict(evidence)}
    del record["folder"]
    for run in record["runs"]:
        del run["output"]
    return record


def _replace(partial: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    old = partial.with_name(partial.name + "-old")
    if target.exists():
        target.rename(old)
    partial.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def read_loaded(record: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Return the files that the recorder saw loaded, and the places that were only looked at."""
    loaded: set[str] = set()
    looked: set[str] = set()
    with contextlib.suppress(InfrastructureFailure), _open_plain(record) as stream:
        for line in os.fsdecode(stream.read(LOADED_BYTES)).splitlines():
            (loaded if line.startswith("F ") else looked).add(line[2:])
    return frozenset(loaded), frozenset(looked)
