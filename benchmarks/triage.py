"""Measure reading a long log: `python -m benchmarks.triage [--megabytes N]`. Nothing is written but one temporary file.

Three logs of the same length: a server that served and then died, one that fails a request in every block, and one that
prints nothing but tracebacks. Beside them, what one would otherwise run: `grep -c Traceback`.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from patchkit.diagnosis.diagnose import diagnose

BLOCK_BYTES = 1 << 17
LOGS = Path(__file__).parents[1] / "tests" / "diagnosis" / "logs"
REQUEST = b'(APIServer pid=1) INFO:     10.0.0.7:51234 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
METRICS = (
    b"(APIServer pid=1) INFO 11-29 12:00:00 [loggers.py:259] Engine 000: Avg prompt throughput: 123.4 tokens/s, Avg "
    b"generation throughput: 90.4 tokens/s, Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 3.4%\n"
)
FAILED = REQUEST.replace(b"200 OK", b"500 Internal Server Error")


def write_log(path: Path, unit: bytes, megabytes: int) -> None:
    """Write a start, then a unit over and over, then a failure."""
    start, end = (LOGS / "healthy.log").read_bytes(), (LOGS / "illegal-memory-access.log").read_bytes()
    with path.open("wb") as file:
        file.write(start)
        for _ in range(max(1, megabytes * 1_000_000 // len(unit))):
            file.write(unit)
        file.write(end)


def read_blocks(path: Path) -> Iterator[bytes]:
    """Yield a file's blocks as the verb does."""
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            yield block


def main() -> None:
    """Print one row a log."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000)
    megabytes = parser.parse_args().megabytes
    serving = (REQUEST * 8 + METRICS) * 100
    traces = (LOGS / "d-e8m0-scales.log").read_bytes()
    units = {"serving": serving, "a failed request a block": serving * 10 + FAILED, "tracebacks only": traces}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        for name, unit in units.items():
            write_log(path, unit, megabytes)
            size = path.stat().st_size / 1e6
            began, spent = time.perf_counter(), time.process_time()
            found = diagnose(read_blocks(path))
            wall, processor = time.perf_counter() - began, time.process_time() - spent
            began = time.perf_counter()
            subprocess.run(["grep", "-c", "Traceback", str(path)], capture_output=True, check=False)
            grep = time.perf_counter() - began
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            cause = found.root_cause.message[:40] if found.root_cause else "none"
            print(
                f"{name:<26} {size:6.0f} MB  {wall:6.1f} s  {size / wall:5.0f} MB/s ({size / processor:.0f} a processor"
                f"-second)  grep {size / grep:.0f} MB/s  peak {peak:.0f} MB  {cause}"
            )


if __name__ == "__main__":
    main()
