"""A disk that is soon full: a small tmpfs, for tests of what happens when a write fails half way."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(path: Path, kibibytes: int) -> Iterator[Path]:
    """Mount a tmpfs of that size on a new folder until the block ends; skips the test where mounting is not allowed."""
    path.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(path)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
