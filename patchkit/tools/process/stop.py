"""End what another thread waits for, and tell for sure whether that ended by itself.

A probe that was ended says nothing of its tree: its children may have died before it, and it may have failed for that.
So whoever is ended from outside gets `Stopped` in the place of an answer; what had ended before goes on as if nothing
had been.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar


class Stopped(Exception):
    """The work was ended from outside; it has no answer."""


class Stop:
    """A way to end the work of one thread from another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: list[Callable[[], bool]] = []
        self._struck: list[Callable[[], bool]] = []
        self._is_set = False

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Let what this thread starts be ended by this stop."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    def set(self) -> None:
        """End what runs now, and let nothing else start."""
        with self._lock:
            self._is_set = True
            self._struck = [end for end in self._ends if end()]

    def add(self, end: Callable[[], bool]) -> None:
        """Take what ends something that was just started. Raises `Stopped` when it is too late."""
        with self._lock:
            if self._is_set:
                end()
                raise Stopped
            self._ends.append(end)

    def remove(self, end: Callable[[], bool]) -> None:
        """Forget what has ended. Raises `Stopped` when it was ended from outside."""
        with self._lock:
            self._ends.remove(end)
            if end in self._struck:
                raise Stopped

    def check(self) -> None:
        """Raise `Stopped` when nothing may start any more."""
        with self._lock:
            if self._is_set:
                raise Stopped


_CURRENT: ContextVar[Stop | None] = ContextVar("stop", default=None)


def check_stop() -> None:
    """Raise `Stopped` when this thread's work was ended."""
    if (stop := _CURRENT.get()) is not None:
        stop.check()


@contextlib.contextmanager
def stoppable(end: Callable[[], bool]) -> Iterator[None]:
    """Let the thread's stop, if there is one, call `end` while the block runs: it says whether there was what to end.

    Raises `Stopped` when it did, in the place of whatever the block makes of it.
    """
    stop = _CURRENT.get()
    if stop is None:
        yield
        return
    stop.add(end)
    try:
        yield
    finally:
        stop.remove(end)
