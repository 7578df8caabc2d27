"""Probes that run at once, a thread each: they wait for processes, here or elsewhere, so threads are enough."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, TypeVar

from patchkit.tools.process import Stop, Stopped, end_children
from patchkit.verdict.verdict import Verdict

CANCEL_SECONDS = 10.0  # for a probe that was ended to be gone; one that waits for a lock is left to itself
STOP_SECONDS = 60.0  # for threads to notice that their processes are gone; on a busy machine each step takes long

Result = TypeVar("Result")


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
        self._pool = ThreadPoolExecutor(3 * most, thread_name_prefix="probe")  # some may still wait, ended as they are
        self._jobs: dict[Future[Verdict], tuple[Job, Stop]] = {}
        self._preparations: dict[str, tuple[Future[Any], Stop]] = {}

    @property
    def running(self) -> tuple[str, ...]:
        """Return the nodes that are being probed."""
        return tuple(job.node for job, _ in self._jobs.values())

    def start(self, job: Job) -> None:
        """Start a probe."""
        stop = Stop()
        self._jobs[self._pool.submit(self._guard, lambda: self._ask(job.node, job.fresh), stop)] = job, stop

    @property
    def preparing(self) -> tuple[str, ...]:
        """Return the nodes for which something is being made before they are probed."""
        return tuple(self._preparations)

    def prepare(self, node: str, make: Callable[[str], Any]) -> None:
        """Make something for a node beside the probes."""
        stop = Stop()
        self._preparations[node] = self._pool.submit(self._guard, lambda: make(node), stop), stop

    def drop(self, node: str) -> None:
        """End what is being made for a node."""
        self._preparations.pop(node)[1].set()

    def prepared(self) -> list[tuple[str, Any]]:
        """Return what was made since the last call, by node. Raises what stopped it."""
        done = [node for node, (future, _) in self._preparations.items() if future.done()]
        return [(node, self._preparations.pop(node)[0].result()) for node in done]

    def cancel(self, nodes: Collection[str]) -> list[tuple[Job, Verdict | None]]:
        """End the probes of nodes; return them with the verdicts of those that had ended by themselves just then.

        Raises what stopped such a probe.
        """
        chosen = {future: (job, stop) for future, (job, stop) in self._jobs.items() if job.node in nodes}
        for _, stop in chosen.values():
            stop.set()
        wait(chosen, timeout=CANCEL_SECONDS)
        found: list[tuple[Job, Verdict | None]] = []
        for future, (job, _) in chosen.items():
            del self._jobs[future]
            found.append((job, _verdict_of(future)))
        return found

    def _guard(self, work: Callable[[], Result], stop: Stop) -> Result:
        """Count what is under way: an interrupt may come before its job is noted."""
        with self._lock:
            if self._stops:
                raise CancelledError
            self._active += 1
        try:
            with stop.held():
                return work()
        finally:
            with self._lock:
                self._active -= 1

    def wait(self) -> tuple[Job, Verdict]:
        """Return the next probe to end, with its verdict. Raises what stopped it."""
        ended = next(iter(wait(self._jobs, return_when=FIRST_COMPLETED).done))
        return self._jobs.pop(ended)[0], ended.result()

    def stop(self) -> None:
        """End what still runs; its verdicts count for nothing."""
        with self._lock:
            self._stops = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline and self._active:
            self._end()
            time.sleep(0.02)


def _verdict_of(future: Future[Verdict]) -> Verdict | None:
    """Return the verdict of a probe that was ended, if it has one: it ended by itself then."""
    if future.cancel() or not future.done():
        return None
    try:
        return future.result()
    except (Stopped, CancelledError):
        return None
