"""Known situations of real patches: how many of them the engine tells as git's history does, commit by commit."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from benchmarks.patch_rows import Bench, Row, least

TESTS = "tests/stack/test_cases.py"  # each test is one situation, with the right answer and how git tells it
ROOT = Path(__file__).parents[1]


def measure_cases(bench: Bench) -> list[Row]:
    """Return the row for `benchmarks.patch`; none, and why, where a clone is missing."""
    spark = os.environ.get("PATCHKIT_SPARK_CLONE")
    if spark is None or bench.quick:
        why = "a quick run leaves them out" if spark else "PATCHKIT_SPARK_CLONE names no clone of its repository"
        print(f"known situations of real patches: not measured, {why}")
        return []
    env = {**os.environ, "PATCHKIT_VLLM_CLONE": str(bench.repository.path), "PATCHKIT_SPARK_CLONE": spark}
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "--tb=line", TESTS]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{TESTS}: {done.stdout}{done.stderr}")
    print(done.stdout, end="" if done.returncode == 0 else "\n")
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|error)", done.stdout)}
    name = "known situations of real patches told right, count"
    return [least(name, "-", None, counts.get("passed", 0), sum(counts.values()))]
