"""Bytes of a log → what its last failed start came to: the root cause, and how far the start got.

A container that is restarted writes start after start into one log; each is looked at for itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from patchkit.diagnosis.log.lines import read_lines
from patchkit.diagnosis.log.prefixes import LogLine
from patchkit.diagnosis.log.tracebacks import KnownSteps, TracebackReader
from patchkit.diagnosis.progress import Progress, place_failure
from patchkit.diagnosis.root_cause import Failures, RootCause

BANNER = re.compile(r"(Initializing a V\d+ LLM engine|serving model|█  version)")
MOST_BANNERS = 10_000


@dataclass(frozen=True)
class Diagnosis:
    """What a log says of one start. `texts`: each different failure, the cause's first.

    `starts`: how many the log has; `start`: which one this is. `ranks_total` is 0 when the log does not tell.
    """

    root_cause: RootCause | None
    progress: Progress
    texts: tuple[str, ...]
    starts: int
    start: int
    ranks_total: int


@dataclass
class _Start:
    """One start of the server, while it is read."""

    number: int
    reader: TracebackReader
    failures: Failures = field(default_factory=Failures)
    progress: Progress = field(default_factory=Progress)
    banners: set[tuple[str, str, str]] = field(default_factory=set)

    def read(self, line: LogLine) -> None:
        self.progress.read(line)
        for failure in self.reader.feed(line):
            self.failures.add(failure)

    def begins_anew(self, line: LogLine) -> bool:
        """Return whether a line is a banner that the same process of the same host has shown before."""
        match = BANNER.search(line.text) if line.level == "INFO" else None
        if match is None:
            return False
        key = (line.host, line.process, match.group(1))
        seen = key in self.banners
        if len(self.banners) < MOST_BANNERS:
            self.banners.add(key)
        return seen

    def finish(self) -> Diagnosis:
        for failure in self.reader.finish():
            self.failures.add(failure)
        cause = self.failures.root_cause()
        progress = place_failure(self.progress, cause)
        return Diagnosis(cause, progress, self.failures.texts, self.number, self.number, _count_ranks(progress.facts))


def diagnose(blocks: Iterable[bytes]) -> Diagnosis:
    """Return what a log says of its last start that failed; of the last one when none did, or when that one serves.

    Memory does not grow with the log.
    """
    known = KnownSteps()
    start, failed = _Start(1, TracebackReader(known)), None
    for line in read_lines(blocks):
        if start.begins_anew(line):
            last = start.finish()
            failed = last if last.root_cause else failed
            start = _Start(start.number + 1, TracebackReader(known))
            start.begins_anew(line)
        start.read(line)
    last = start.finish()
    if last.root_cause is None and failed is not None and last.progress.stage != "serving":
        last = failed
    return Diagnosis(last.root_cause, last.progress, last.texts, start.number, last.start, last.ranks_total)


def _count_ranks(facts: dict[str, str]) -> int:
    """Return how many ranks there are, 0 for unknown."""
    parallel = 1
    for name in ("tensor_parallel", "pipeline_parallel", "data_parallel"):
        parallel *= int(facts.get(name, "1")[:6])
    known = "tensor_parallel" in facts or "world_size" in facts
    return max(parallel, int(facts.get("world_size", "0")[:6])) if known else 0
