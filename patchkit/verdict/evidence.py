"""What a probe left behind, kept in a folder of the store, so that it can be graded again without running anything."""

from __future__ import annotations

import dataclasses
import json
import mmap
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchkit.errors import RequestError
from patchkit.tools.cache import Cache, storage_errors

KIND = "evidence"
EVIDENCE_FORMAT = 1
KEPT_BYTES = 1_000_000  # of a log's beginning, and again of its end: what people read; the rest is usually one line
CUT = "\n[… {} bytes left out …]\n"
MARK = re.compile(rb"^patchkit: *([^\r\n]*[^\s])\s*$", re.MULTILINE)
MOST_MARKS = 1000  # a repro that prints marks in a loop must not fill the record


@dataclass(frozen=True)
class Run:
    """One run of a repro. `output` is the kept part of its log; `marks` and `found` come from the whole log.

    `exit_code` is negative for a signal. `marks` are the `patchkit: …` lines without the prefix; `found` is the line
    that has the signature, empty when there is none.
    """

    exit_code: int
    timed_out: bool
    duration_seconds: float
    output: str
    size_bytes: int
    marks: tuple[str, ...]
    found: str


@dataclass(frozen=True)
class Evidence:
    """All runs of one repro on one tree in one environment. `loaded` are files of the tree that were really opened.

    `looked` are places of the tree that were listed, or opened in vain. `kind` is how exit codes read.
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
        found = []
        for run in self.runs:
            values = [mark.partition("=")[2] for mark in run.marks if mark.startswith("metric=")]
            found += [
                float(value) for value in values[-1:] if re.fullmatch(r"\s*[-+]?[\d.]+(e[-+]?\d+)?\s*", value, re.I)
            ]
        return tuple(found)


@dataclass(frozen=True)
class LogFacts:
    """What a log says: kept text, size, marks, and the line with the signature."""

    output: str
    size_bytes: int
    marks: tuple[str, ...]
    found: str


def read_log(log: Path, signature: str) -> LogFacts:
    """Search a whole log, however large, and return what counts of it."""
    size = log.stat().st_size
    if size == 0:
        return LogFacts("", 0, (), "")
    with log.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        marks = [match.group(1).decode("utf-8", "replace") for match in MARK.finditer(content)][:MOST_MARKS]
        if size <= 2 * KEPT_BYTES:
            output = content[:].decode("utf-8", "replace")
            found = search(signature, output)
        else:
            left_out = CUT.format(size - 2 * KEPT_BYTES)
            output = _text(content[:KEPT_BYTES]) + left_out + _text(content[-KEPT_BYTES:])
            found = search(signature, output) or _search_bytes(signature, content)
        return LogFacts(output, size, tuple(marks), found)


def search(signature: str, output: str) -> str:
    """Return the line in which a signature begins, '' when the output does not have it. `^` and `$` are of a line."""
    match = re.search(signature, output, re.MULTILINE)
    if match is None:
        return ""
    end = output.find("\n", match.start())
    return output[output.rfind("\n", 0, match.start()) + 1 : end if end >= 0 else None].strip() or match.group().strip()


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
                shutil.copyfile(log, kept)
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


def _search_bytes(signature: str, content: mmap.mmap) -> str:
    """Search a log too large to be text in memory; patterns that bytes do not know (named characters) find nothing."""
    try:
        match = re.search(signature.encode(), content, re.MULTILINE)
    except re.error:
        return ""
    return _line_of(content, match.start()) if match else ""


def _line_of(content: mmap.mmap, position: int) -> str:
    """Return the line around a position of a log, at most 1,000 bytes each way."""
    begin = content.rfind(b"\n", max(0, position - 1000), position) + 1 or max(0, position - 1000)
    end = content.find(b"\n", position, position + 1000)
    return _text(content[begin : end if end >= 0 else position + 1000]).strip()


def read_loaded(record: Path) -> tuple[frozenset[str], frozenset[str]]:
    """Return the files that the recorder saw loaded, and the places that were only looked at."""
    loaded: set[str] = set()
    looked: set[str] = set()
    if record.exists():
        for line in os.fsdecode(record.read_bytes()).splitlines():
            (loaded if line.startswith("F ") else looked).add(line[2:])
    return frozenset(loaded), frozenset(looked)
