"""What Ray prints of its own must not stand between the lines that programs read from stdout."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from patchkit.tools.cluster import open_cluster


def test_what_ray_tells_of_lost_workers_goes_to_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bool] = []

    def print_to_stdstream(data: dict[str, Any], ignore_prefix: bool) -> None:
        told.append(data["is_err"])

    class Refused(Exception):
        pass

    def init(**_: Any) -> None:
        raise Refused("no cluster")

    worker: Any = ModuleType("ray._private.worker")
    worker.print_to_stdstream = print_to_stdstream
    ray: Any = ModuleType("ray")
    ray.exceptions, ray.init, ray.shutdown = ModuleType("ray.exceptions"), init, lambda: None
    for name, module in {"ray": ray, "ray.exceptions": ray.exceptions, "ray._private.worker": worker}.items():
        monkeypatch.setitem(sys.modules, name, module)
    for _ in range(2):
        with pytest.raises(Exception, match="no cluster"), open_cluster("local", 1):
            raise AssertionError("a cluster that is none")
        worker.print_to_stdstream({"lines": ["a worker died"], "is_err": False}, ignore_prefix=False)
    assert told == [True, True]
