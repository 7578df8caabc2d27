"""A Ray cluster: a function runs there, and its answer comes back. Ray is imported when a cluster is asked for."""

from __future__ import annotations

import contextlib
import functools
import logging
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from patchkit.errors import RemoteUnavailable, RequestError, ToolMissing
from patchkit.tools.cache import storage_errors
from patchkit.tools.process import stoppable

LOCAL = "local"  # as an address: a cluster on this machine, made for the purpose
KNOCK_SECONDS = 5.0
END_SECONDS = 4.0  # for a task that was interrupted to end its processes
HINT = "`ray start --head` prints the address, `local` makes a cluster here; one with tokens needs RAY_AUTH_MODE=token"
Answer = TypeVar("Answer")


class WorkerLost(Exception):
    """The process that ran a task is gone, or its machine, or the task was ended."""


class Cluster:
    """A connection to a cluster. All methods may be called from several threads."""

    def __init__(self, ray: Any, is_local: bool) -> None:
        self._ray = ray
        self.is_local = is_local
        self._running: set[Any] = set()
        self._ending: dict[Any, float] = {}  # since when, in seconds of the monotonic clock
        self._lock = threading.Lock()

    def offers(self, resource: str) -> bool:
        """Return whether a node of the cluster offers a custom resource, busy or not."""
        return bool(self._ray.cluster_resources().get(resource, 0) >= 1)

    def run(self, function: Callable[[Any], Answer], given: Any, resource: str = "") -> Answer:
        """Run a function of one argument in a process of the cluster and return what it returns.

        The task takes one CPU, and one of the custom `resource` where one is named. Raises `WorkerLost`.
        """
        options: dict[str, Any] = {"max_retries": 0, "num_cpus": 1}
        if resource:
            options["resources"] = {resource: 1}

        def call(argument: Any) -> Answer:  # Ray takes nothing but plain functions
            return function(argument)

        task = self._ray.remote(call).options(**options).remote(given)
        with self._lock:
            self._running.add(task)
        try:
            with stoppable(functools.partial(self._end_task, task)):
                answer: Answer = self._ray.get(task)
            return answer
        except self._ray.exceptions.RayTaskError:
            raise  # the function raised: a mistake of ours, told as such
        except self._ray.exceptions.RayError as error:
            raise WorkerLost(f"{type(error).__name__}: {str(error).splitlines()[0]}") from error
        finally:
            with self._lock:
                self._running.discard(task)

    def _end_task(self, task: Any) -> bool:
        """End one task, and give it the time to end its processes; return whether it had not ended by itself."""
        done, _ = self._ray.wait([task], timeout=0)
        if done:
            return False
        for force in (False, True):
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._ray.cancel(task, force=force)
            done, _ = self._ray.wait([task], timeout=END_SECONDS)
            if done:
                break
        return True

    def end_tasks(self) -> None:
        """End what runs; who waits for it gets `WorkerLost`.

        A task is given time to end its processes: a worker that is killed at once would leave them running. So call it
        again while something runs.
        """
        with self._lock:
            self._ending = {task: self._ending.get(task, 0.0) for task in self._running}
        for task, since in self._ending.items():
            if since and time.monotonic() < since + END_SECONDS:
                continue
            self._ending[task] = time.monotonic()
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._ray.cancel(task, force=bool(since))


@contextlib.contextmanager
def open_cluster(address: str, slots: int, ships: Sequence[Path] = (), root: Path | None = None) -> Iterator[Cluster]:
    """Connect to a cluster, or make one with `slots` CPUs on this machine for the address `local`.

    On a cluster of other machines the folders `ships`, all below `root`, are there in the working folder of each task.
    Raises `ToolMissing` without Ray, `RemoteUnavailable` when nothing answers at the address.
    """
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise ToolMissing("ray is not installed", "pip install 'vllm-patchkit[ray]'") from error
    logging.getLogger("ray").setLevel(logging.ERROR)
    _keep_stdout_clean()
    is_local = address == LOCAL
    quiet = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": False}
    with contextlib.ExitStack() as stack:
        where: dict[str, Any] = {"address": address}
        if is_local:
            where |= {"num_cpus": slots, "include_dashboard": False}
        if not is_local and root is not None:
            shipped = stack.enter_context(_gathered(ships, root))
            where["runtime_env"] = {"working_dir": str(shipped)}
        _knock(address)
        # Not in the main thread, where Ray takes SIGTERM over; and its processes end with the thread that started them.
        starter = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="ray"))
        stack.callback(ray.shutdown)
        problem = starter.submit(ray.init, **quiet, **where).exception()
        if problem is not None:
            said = next(iter(str(problem).splitlines()), type(problem).__name__)
            raise RemoteUnavailable(f"ray at {address}: {said}", HINT) from problem
        yield Cluster(ray, is_local)


def _keep_stdout_clean() -> None:
    """Let Ray tell of lost workers on stderr: stdout is the answer's, and Ray has no switch for it."""
    module: Any = sys.modules.get("ray._private.worker")
    write = getattr(module, "print_to_stdstream", None)
    if write is None or hasattr(write, "__wrapped__"):
        return

    @functools.wraps(write)
    def write_to_stderr(data: dict[str, Any], *more: Any, **named: Any) -> None:
        write({**data, "is_err": True}, *more, **named)

    module.print_to_stdstream = write_to_stderr


def _knock(address: str) -> None:
    """Raise `RemoteUnavailable` when nobody listens at host:port; Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=KNOCK_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise RemoteUnavailable(f"ray at {address}: does not answer: {error}", HINT) from error


@contextlib.contextmanager
def _gathered(folders: Sequence[Path], root: Path) -> Iterator[Path]:
    """Copy folders, at their place below `root`, into one that can be shipped."""
    with tempfile.TemporaryDirectory(prefix="patchkit-ship-") as made, storage_errors(Path(made)):
        for folder in folders:
            if not folder.is_relative_to(root):
                raise RequestError(f"{folder}: not below {root}", "keep what a recipe names in one library")
            shutil.copytree(folder, Path(made) / folder.relative_to(root), symlinks=True, dirs_exist_ok=True)
        yield Path(made)
