"""Kill a bisect whose probes run on Ray: `python -m benchmarks.bisect.kills_ray [--points 50]`. Needs `.[ray]`.

One cluster of this machine serves all points. At each point a driver of its own is killed with SIGKILL after a random
number of probes; at every other one a worker kills itself as well, in the middle of a random probe. Then the bisect
goes on. The part `kills-ray` of `benchmarks.bisect`.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.util
import os
import random
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from benchmarks.bisect.history import History, load_history
from benchmarks.bisect.rows import Options, Row, leave_out
from benchmarks.bisect.scripted import (
    MOMENT,
    Point,
    Script,
    answer,
    count_probes,
    go_on,
    make_row,
    make_subject,
    run,
)
from benchmarks.bisect.table import tell
from patchkit.tools.cache import Cache
from patchkit.tools.cluster import open_cluster
from patchkit.tools.journal import Journal
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.bisect import BisectRequest
from patchkit.workflows.bisect.remote import Remote

JOBS = 2
PROBED = b'"event":"probe"'
PATIENCE_SECONDS = 120.0  # for a driver, most of which it starts in
HOLD = (
    "import ray, sys; "
    "told = ray.init(num_cpus=int(sys.argv[1]), include_dashboard=False, "
    "log_to_driver=False, logging_level='ERROR'); "
    "print('at', told.address_info['address'], flush=True); sys.stdin.read()"
)


@contextlib.contextmanager
def hold_cluster() -> Iterator[str]:
    """Hold a cluster of this machine and yield its address; a secret in the environment keeps others off it."""
    words = [sys.executable, "-c", HOLD, str(JOBS)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        found = next((line.split()[1] for line in holder.stdout if line.startswith("at ")), "")
        if not found:
            raise RuntimeError("Ray did not start")
        yield found
        holder.stdin.close()


@contextlib.contextmanager
def connect(address: str, folder: Path) -> Iterator[Remote]:
    """Connect to the cluster; the questions that travel are those of `remote`, the answers scripted."""
    with open_cluster(address, JOBS) as cluster:
        request = BisectRequest(folder, "git", "", "good", "bad")
        toolkit = Toolkit(Cache(folder / "store"), env={})
        yield Remote(cluster, toolkit, request, "", functools.partial(answer, Script(0)))


def ask_by(remote: Remote, script: Script) -> Remote:
    """Return the same connection, where workers answer by a script."""
    return Remote(remote.cluster, remote.toolkit, remote.request, "", functools.partial(answer, script))


def drive(address: str, folder: Path, script: Script) -> None:
    """Be the driver that is killed."""
    with connect(address, folder) as remote:
        run(make_subject(script.seed), folder / "killed.jsonl", JOBS, ask_by(remote, script))


def run_killed(address: str, folder: Path, script: Script, after: int) -> None:
    """Start a driver, and kill it when its journal has some probes and a moment is over."""
    told = [str(value) for value in (address, folder, script.seed, script.fatal)]
    words = [sys.executable, "-m", "benchmarks.bisect.kills_ray", "--drive", *told]
    moment, end = random.random() * 4 * MOMENT, time.monotonic() + PATIENCE_SECONDS
    journal = folder / "killed.jsonl"
    with subprocess.Popen(words) as driver:
        while driver.poll() is None and time.monotonic() < end:
            if journal.exists() and journal.read_bytes().count(PROBED) >= after:
                break
            time.sleep(MOMENT)
        time.sleep(moment)
        driver.kill()


def try_point(address: str, folder: Path, remote: Remote, seed: int, rng: random.Random) -> tuple[Point, bool]:
    """Kill a driver after a random number of probes and go on; return also whether a worker was killed."""
    subject = make_subject(seed)
    plain = ask_by(remote, Script(seed))
    undisturbed = run(subject, folder / "undisturbed.jsonl", JOBS, plain)
    total = count_probes(Journal(folder / "undisturbed.jsonl").read())
    script = Script(seed, rng.randrange(1, total) if seed % 2 else 0, str(folder))
    run_killed(address, folder, script, rng.randrange(total))
    point = go_on(subject, folder / "killed.jsonl", JOBS, undisturbed, ask_by(remote, script))
    return point, (folder / "killed").exists()


def measure_kills_ray(options: Options, _history: History) -> Iterator[Row]:
    """Kill drivers and workers on one cluster."""
    where, count = f"Ray, jobs {JOBS}", min(options.points, 1) if options.quick else options.points
    if importlib.util.find_spec("ray") is None:
        yield leave_out(f"kill -9 at {count} random points, {where}", "points", "needs ray: pip install '.[ray]'")
        return
    rng, points, workers = random.Random(count), [], 0
    variables = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # else workers start slowly beside anything else that runs
    }
    with (
        mock.patch.dict(os.environ, variables),
        tempfile.TemporaryDirectory(prefix="patchkit-kill-") as folder,
        hold_cluster() as address,
        connect(address, Path(folder)) as remote,
    ):
        for number in range(count):
            own = Path(folder) / str(number)
            own.mkdir()
            point, killed = try_point(address, own, remote, number, rng)
            points.append(point)
            workers += killed
    yield make_row(where, points, f", {workers} workers killed as well")


def main() -> int:
    """Kill, print a table, and return 1 when a point did not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=Options().points)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--drive", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.drive:
        address, folder, seed, fatal = given.drive
        drive(address, Path(folder), Script(int(seed), int(fatal), folder))
        return 0
    return tell(measure_kills_ray(Options(points=given.points), load_history(None)), given.json)


if __name__ == "__main__":
    sys.exit(main())
