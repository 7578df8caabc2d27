"""End processes: with their groups, as children of this process, or by a mark in their environment."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

READ_BYTES = 1 << 16
GRACE_SECONDS = 2.0  # between SIGTERM and SIGKILL: enough for Python to run its atexit handlers


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and everything in its group: SIGTERM, a grace period, SIGKILL."""
    _signal_group(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < deadline and _group_lives(process):
        time.sleep(0.02)
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()


def strike(process: subprocess.Popen[bytes]) -> bool:
    """End a process and its group at once (SIGKILL); return whether there was a process to end."""
    if process.poll() is not None:
        return False
    _signal_group(process.pid, signal.SIGKILL)
    return True


def end_children() -> None:
    """End at once (SIGKILL) all processes of this module that still run, with their groups.

    For an interrupt while threads wait for them: the threads go on, and see a process that was killed.
    """
    for children in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in children.read_text(encoding="ascii").split():
                _signal_group(int(child), signal.SIGKILL)


def end_marked(marks: Mapping[str, str]) -> None:
    """End (SIGKILL) all processes with one of these variables, name and value, in whatever group or session they are.

    For values that nothing else has: of a run whose daemons left its group, or of a patchkit that was killed and whose
    children went on. Only where there is /proc.
    """
    wanted = {f"{name}={value}".encode("utf-8", "surrogateescape") for name, value in marks.items()}
    for number in os.listdir("/proc") if os.path.isdir("/proc") else ():  # noqa: PTH112, PTH208 - of hundreds, each run
        if number.isdigit():
            with contextlib.suppress(OSError):  # ended meanwhile, or another user's
                if not wanted.isdisjoint(_read(f"/proc/{number}/environ").split(b"\0")):
                    os.kill(int(number), signal.SIGKILL)


def _read(path: str) -> bytes:
    """Return the bytes of a file that has no size. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(descriptor, READ_BYTES):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def _group_lives(process: subprocess.Popen[bytes]) -> bool:
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _signal_group(group: int, signal_number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal_number)
