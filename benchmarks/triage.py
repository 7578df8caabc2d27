"""Measure reading a long log: `python -m benchmarks.triage [--megabytes N]`. Nothing is written but one temporary file.

Logs of the same length: a server that served and then died; one that fails a request in every block; one that starts
and dies over and over; and eight workers that print nothing but tracebacks, traceback by traceback, line by line, and
each with words of its own. Beside them, what one would otherwise run: `grep -c Traceback`.
"""

from __future__ import annotations

import argparse
import random
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
WORKER = "(Worker_TP2 pid=302) ERROR "
FAILED = REQUEST.replace(b"200 OK", b"500 Internal Server Error")


def write_log(path: Path, unit: bytes, megabytes: int) -> None:
    """Write a start, then a unit over and over, then a failure."""
    start, end = (LOGS / "healthy.log").read_bytes(), (LOGS / "illegal-memory-access.log").read_bytes()
    with path.open("wb") as file:
        file.write(start)
        for _ in range(max(1, megabytes * 1_000_000 // len(unit))):
            file.write(unit)
        file.write(end)


def interleave_tracebacks(lines_at_once: int, *, own_words: bool) -> bytes:
    """Return what eight workers print in two minutes, each a traceback a second, mixed by so many lines at once."""
    record = [line for line in (LOGS / "d-e8m0-scales.log").read_text("utf-8").splitlines(True) if WORKER in line]
    chance, mixed = random.Random(1), list[str]()
    for second in range(120):
        queues = [list(_told(record, rank, second, own_words)) for rank in range(8)]
        while waiting := [queue for queue in queues if queue]:
            queue = chance.choice(waiting)
            mixed += queue[:lines_at_once]
            del queue[:lines_at_once]
    return "".join(mixed).encode()


def _told(record: list[str], rank: int, second: int, own_words: bool) -> Iterator[str]:
    """Yield a worker's traceback as another rank tells it."""
    words = f"RuntimeError: request {second * 8 + rank}: " if own_words else "RuntimeError: "
    clock = f"09:{second // 60:02}:{second % 60:02}"
    for line in record:
        moved = line.replace("Worker_TP2 pid=302", f"Worker_TP{rank} pid={300 + rank}").replace("09:00:32", clock)
        yield moved.replace("RuntimeError: ", words)


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
    units = {
        "serving": serving,
        "a failed request a block": serving * 10 + FAILED,
        "starts that fail": traces,
        "tracebacks of 8 workers": interleave_tracebacks(10_000, own_words=False),
        "the same, line by line": interleave_tracebacks(1, own_words=False),
        "each with its own words": interleave_tracebacks(10_000, own_words=True),
    }
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
