"""Probes that run at once, a thread each: they wait for processes, here or elsewhere, so threads are enough."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from patchkit.tools.process import end_children
from patchkit.verdict.verdict import Verdict

STOP_SECONDS = 60.0  # for threads to notice that their processes are gone; on a busy machine each step takes long


@dataclass(frozen=True)
class Job:
    """A probe that was started."""

    node: str
    stage: str
    fresh: bool


class Workers:
    """Probes that run at once, a thread each; results come as they end. `end` ends what runs, wherever it does."""

    def __init__(self, ask: Callable[[str, bool], Verdict], most: int, end: Callable[[], None] = end_children) -> None:
        self._ask, self._end = ask, end
        self._lock = threading.Lock()
        self._active, self._stops = 0, False
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="probe")
        self._jobs: dict[Future[Verdict], Job] = {}

    @property
    def running(self) -> tuple[str, ...]:
        """Return the nodes that are being probed."""
        return tuple(job.node for job in self._jobs.values())

    def start(self, job: Job) -> None:
        """Start a probe."""
        self._jobs[self._pool.submit(self._run, job.node, job.fresh)] = job

    def _run(self, node: str, fresh: bool) -> Verdict:
        """Count what is under way: an interrupt may come before its job is noted."""
        with self._lock:
            if self._stops:
                raise CancelledError
            self._active += 1
        try:
            return self._ask(node, fresh)
        finally:
            with self._lock:
                self._active -= 1

    def wait(self) -> tuple[Job, Verdict]:
        """Return the next probe to end, with its verdict. Raises what stopped it."""
        ended = next(iter(wait(self._jobs, return_when=FIRST_COMPLETED).done))
        return self._jobs.pop(ended), ended.result()

    def stop(self) -> None:
        """End what still runs; its verdicts count for nothing."""
        with self._lock:
            self._stops = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline and self._active:
            self._end()
            time.sleep(0.02)
