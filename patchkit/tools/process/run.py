"""Start a process, wait for it, and never leave it running.

Every process gets its own process group, so that a time-out or an interrupt ends its children too: a repro that leaves
a worker behind would hold the accelerator and poison the next probe.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from patchkit.errors import ToolMissing
from patchkit.tools.process.end import GRACE_SECONDS, kill_group, strike
from patchkit.tools.process.stop import check_stop, stoppable

LOOK_SECONDS = 0.25  # between two looks at how much a process has written


@dataclass(frozen=True)
class Completed:
    """What a process left behind. `exit_code` is negative for a signal, as in `subprocess`."""

    command: tuple[str, ...]
    exit_code: int
    stdout: bytes
    stderr: bytes
    duration_seconds: float
    timed_out: bool
    overflowed: bool = False  # ended since it wrote more than it may

    @property
    def text(self) -> str:
        """Return stdout as text, undecodable bytes replaced."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def complaint(self) -> str:
        """Return the last lines of stderr (or of stdout), for an error message."""
        lines = (self.stderr or self.stdout).decode("utf-8", "replace").strip().splitlines()
        return "\n".join(lines[-5:])


@dataclass(frozen=True)
class Limits:
    """What a process may take before it is ended; None is no limit. `output_bytes` is the size of its log."""

    seconds: float | None = None
    output_bytes: int | None = None


NO_LIMITS = Limits()


@dataclass(frozen=True)
class _Streams:
    """Where a process reads and writes, as `subprocess` takes it."""

    stdin: int
    stdout: int | IO[bytes]
    stderr: int


def find_program(name: str) -> str | None:
    """Return the full path of a program on PATH, or None."""
    return shutil.which(name)


def run_process(
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    input_bytes: bytes | None = None,
    timeout_seconds: float | None = None,
) -> Completed:
    """Run a process to its end with stdout and stderr captured apart; a non-zero exit is an answer, not an error.

    `env` replaces the environment (None inherits it). Raises `ToolMissing` when the program does not exist.
    """
    started = time.monotonic()
    stdin = subprocess.DEVNULL if input_bytes is None else subprocess.PIPE
    with _start(command, cwd, env, _Streams(stdin, subprocess.PIPE, subprocess.PIPE)) as process:
        timed_out = False
        try:
            stdout, stderr = process.communicate(input_bytes, timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            timed_out = True
            kill_group(process)
            stdout, stderr = _rest(process)
    return Completed(tuple(command), process.returncode, stdout, stderr, time.monotonic() - started, timed_out)


def _rest(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Return what a process that was ended has written; a daemon that still holds its pipes is not waited for."""
    try:
        return process.communicate(timeout=GRACE_SECONDS)
    except subprocess.TimeoutExpired as late:
        return late.stdout or b"", late.stderr or b""


def run_logged(
    command: Sequence[str],
    log: Path,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    limits: Limits = NO_LIMITS,
) -> Completed:
    """Run a process whose stdout and stderr go, interleaved, into the file `log`; the returned streams are empty.

    When the process ends, whatever it left running in its group is ended too.
    """
    started = time.monotonic()
    with (
        log.open("wb") as sink,
        _start(command, cwd, env, _Streams(subprocess.DEVNULL, sink, subprocess.STDOUT)) as process,
    ):
        timed_out = not _wait(process, sink, limits)
        kill_group(process)
        overflowed = _overflows(sink, limits)
    duration = time.monotonic() - started
    return Completed(tuple(command), process.returncode, b"", b"", duration, timed_out and not overflowed, overflowed)


def _wait(process: subprocess.Popen[bytes], sink: IO[bytes], limits: Limits) -> bool:
    """Wait for the end of a process; return whether it came before a limit was reached."""
    deadline = math.inf if limits.seconds is None else time.monotonic() + limits.seconds
    with _watched(process) as ends_within:
        while (left := deadline - time.monotonic()) > 0 and not _overflows(sink, limits):
            if ends_within(min(left, LOOK_SECONDS)):
                process.wait()
                return True
    return False


@contextlib.contextmanager
def _watched(process: subprocess.Popen[bytes]) -> Iterator[Callable[[float], bool]]:
    """Give a function that waits for the end of a process, up to some seconds, and returns whether it came.

    The kernel wakes it at once where it can; `Popen.wait` with a time-out looks every 50 ms.
    """
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # no Linux, or one before 5.3
        yield lambda seconds: _ends_within(process, seconds)
        return
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        yield lambda seconds: bool(poll.poll(math.ceil(seconds * 1000)))
    finally:
        os.close(descriptor)


def _ends_within(process: subprocess.Popen[bytes], seconds: float) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
        return True
    return False


def _overflows(sink: IO[bytes], limits: Limits) -> bool:
    return limits.output_bytes is not None and os.fstat(sink.fileno()).st_size > limits.output_bytes


@contextlib.contextmanager
def _start(
    command: Sequence[str], cwd: Path | None, env: Mapping[str, str] | None, streams: _Streams
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process in a group of its own, and never leave it running.

    Raises `Stopped` when the thread's work is ended meanwhile, whatever the process made of that.
    """
    check_stop()
    try:
        process = subprocess.Popen(
            list(command),
            cwd=cwd,
            env=None if env is None else dict(env),
            stdin=streams.stdin,
            stdout=streams.stdout,
            stderr=streams.stderr,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise ToolMissing(f"{command[0]}: program not found", "install it, or put it on PATH") from error
    try:
        with stoppable(functools.partial(strike, process)):
            yield process
    finally:
        if process.poll() is None:
            kill_group(process)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
