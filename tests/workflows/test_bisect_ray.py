"""Bisect on a real Ray cluster of this machine: the same answers, lost workers, killed drivers."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from patchkit.errors import RemoteUnavailable, RequestError
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.bisect import BisectRequest, bisect
from tests.workflows.test_bisect_builds import Product, check_built_ahead, product, tools  # noqa: F401  # fixtures
from tests.workflows.test_bisect_builds import commits as commits_of
from tests.workflows.test_bisect_cancel import check_ended
from tests.workflows.test_bisect_holes import grown, hole
from tests.workflows.worlds import World, linear, make_world

pytestmark = pytest.mark.real
Events = list[Mapping[str, Any]]
# Kills, once, the Ray worker that runs it: the first of its forefathers that calls itself ray.
KILLS = """
import os, pathlib, signal, sys
text = pathlib.Path(os.environ["PATCHKIT_TREE"], "engine.txt").read_text()
with open({runs!r}, "a") as stream:
    stream.write(text.split()[0] + "\\n")
done = pathlib.Path({done!r})
if text.startswith("c6") and not done.exists():
    done.write_text("")
    parent = os.getppid()
    while not pathlib.Path(f"/proc/{{parent}}/cmdline").read_bytes().startswith(b"ray::"):
        parent = int(pathlib.Path(f"/proc/{{parent}}/stat").read_text().rsplit(")", 1)[1].split()[1])
    os.kill(parent, signal.SIGKILL)
if "fault" in text:
    sys.exit("FAULT: the engine stopped")
"""


def run(toolkit: Toolkit, world: World, good: str, bad: str, **more: Any) -> tuple[dict[str, Any], Events]:
    events: Events = []
    request = BisectRequest(recipe=world.recipe, source="git", issue="", good=good, bad=bad, **more)
    return bisect(toolkit, request, events.append), events


def command(world: World, good: str, bad: str, *more: str) -> list[str]:
    words = ["bisect", str(world.recipe), "--source", "git", "--good", good, "--bad", bad, "--json", *more]
    return [sys.executable, "-m", "patchkit", *words]


@pytest.fixture(scope="module", autouse=True)
def _token() -> Iterator[None]:
    """One token for all clusters of this file: the first that Ray makes sets the mode for the whole process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        yield


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster that stands for one of other machines: its workers have a store of their own."""
    store = tmp_path_factory.mktemp("worker-store")
    env = {**os.environ, "PATCHKIT_CACHE": str(store), "RAY_USAGE_STATS_ENABLED": "0"}
    ray = str(Path(sys.executable).with_name("ray"))
    words = [ray, "start", "--head", "--port=0", "--num-cpus=2", "--include-dashboard=false", "--disable-usage-stats"]
    told = subprocess.run(words, env=env, capture_output=True, text=True, check=True, timeout=120).stdout
    address = next(
        word.strip("'\" ") for line in told.splitlines() if "--address=" in line for word in line.split("=")[1:]
    )
    yield address
    subprocess.run([ray, "stop", "--force"], env=env, capture_output=True, check=True, timeout=120)


def test_a_local_cluster_finds_what_one_process_finds(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["good"] * 5 + ["broken"] * 2 + ["fault"] * 4)
    here, _ = run(toolkit, world, commits[0], "main")
    there, events = run(toolkit, world, commits[0], "main", ray="local", jobs=2, restart=True)
    assert there["candidates"] == here["candidates"]
    assert (there["last_good"], there["skipped"]) == (here["last_good"], here["skipped"])
    assert [event for event in events if event["event"] == "probe"]


def test_a_hole_is_mended_on_the_workers_too(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = grown(tmp_path, hole(4, 3, 3, 4))
    more = {"series": "without", "fix_up": ("main~3",), "confirm": 1}
    here, _ = run(toolkit, world, commits[0], "main", **more)
    there, events = run(toolkit, world, commits[0], "main", ray="local", jobs=2, restart=True, **more)
    assert here["first_bad"] == there["first_bad"] == commits[7]
    assert there["confirmed"]
    assert [event for event in events if event["event"] == "probe" and event["fix_up"] == [commits[10]]]


def test_idle_slots_build_ahead_for_the_workers_of_this_machine(
    product: Product,  # noqa: F811
    tools: Toolkit,  # noqa: F811
) -> None:
    check_built_ahead(product, tools, "local")


def test_an_interrupt_leaves_no_build_of_a_worker_running(product: Product) -> None:  # noqa: F811
    recipe = product.recipe.read_text().replace("cat csrc", "touch pkg/core.so; sleep 97.13; cat csrc")
    product.recipe.write_text(recipe.replace("sleep 97.13", f"echo $$ >> {product.folder}/begun.txt; sleep 97.13"))
    ids = commits_of(product, [f"core{number // 2}" for number in range(20)], 13)
    words = ["bisect", str(product.recipe), "--source", "git", "--good", ids[0], "--bad", "main", "--jobs", "3"]
    store = product.folder / "store"
    env = {**os.environ, "PATCHKIT_CACHE": str(store)}
    line = [sys.executable, "-m", "patchkit", *words, "--ray", "local"]
    process = subprocess.Popen(line, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    begun, deadline = product.folder / "begun.txt", time.monotonic() + 60
    while time.monotonic() < deadline and (not begun.exists() or len(begun.read_text().split()) < 3):
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    listed = subprocess.run(["ps", "-eo", "pgid,args"], capture_output=True, text=True, check=True).stdout
    groups = set(begun.read_text().split())
    assert [one for one in listed.splitlines() if one.split()[0] in groups] == []
    assert list(store.rglob("core.so")) == []


def test_a_probe_whose_answer_others_told_is_ended_on_its_worker(toolkit: Toolkit, tmp_path: Path) -> None:
    check_ended(toolkit, tmp_path, "local")


def test_a_worker_killed_in_the_middle_of_a_probe_costs_that_probe_and_nothing_else(
    toolkit: Toolkit, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world, commits = linear(tmp_path, ["good"] * 5 + ["fault"] * 6)
    done = tmp_path / "killed"
    script = world.folder / "issues/fault/repro.py"
    script.write_text(KILLS.format(runs=str(tmp_path / "runs.txt"), done=str(done)))
    result, events = run(toolkit, world, commits[0], commits[6], ray="local", jobs=1)
    assert done.exists()
    assert result["first_bad"] == commits[5]
    assert result["confirmed"] is True
    answers = {event["node"]: event["answer"] for event in events if event["event"] == "probe"}
    assert answers[commits[6]] == "bad"
    assert Counter(world.runs)["c6"] >= 2
    assert capsys.readouterr().out == ""  # where the answer goes


def test_a_cluster_of_other_machines_gets_the_library_and_sends_the_evidence_home(
    toolkit: Toolkit, tmp_path: Path, head: str
) -> None:
    world, commits = linear(tmp_path, ["good"] * 4 + ["fault"] * 3)
    result, events = run(toolkit, world, commits[0], "main", ray=head, jobs=2)
    assert result["first_bad"] == commits[4]
    assert result["confirmed"] is True
    probed = [event for event in events if event["event"] == "probe"]
    folders = [Path(event["evidence"]) for event in probed]
    assert all(folder.is_relative_to(toolkit.cache.root) for folder in folders)
    assert all((folder / "record.json").is_file() for folder in folders)


def test_what_is_wrong_on_a_worker_is_told_as_its_words(toolkit: Toolkit, tmp_path: Path, head: str) -> None:
    world, commits = linear(tmp_path, ["good"] * 2 + ["fault"])
    issue = world.folder / "issues/fault/issue.yaml"
    issue.write_text(issue.read_text().replace("fidelity: static", "fidelity: needs-gpu"))
    recipe = world.recipe
    recipe.write_text(recipe.read_text() + "target: {device: cuda, arch: sm_121}\n")
    with pytest.raises(RequestError, match="no node offers sm_121") as caught:
        run(toolkit, world, commits[0], "main", ray=head)
    assert "--resources" in caught.value.hint


def test_an_address_at_which_nothing_answers_is_an_error_with_a_hint(toolkit: Toolkit, tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["good"] * 2 + ["fault"])
    with pytest.raises(RemoteUnavailable, match="ray at") as caught:
        run(toolkit, world, commits[0], "main", ray="127.0.0.1:1")
    assert "ray start" in caught.value.hint


def test_kill_9_of_the_driver_then_the_same_command_runs_no_finished_probe_again(
    toolkit: Toolkit, tmp_path: Path
) -> None:
    world, commits = linear(tmp_path, ["good"] * 9 + ["fault"] * 8)
    world.pause(0.5)
    env = {**os.environ, "PATCHKIT_CACHE": str(toolkit.cache.root)}
    words = command(world, commits[0], commits[-1], "--ray", "local", "--jobs", "2")
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True) as driver:
        assert driver.stdout is not None
        finished = []
        for line in driver.stdout:
            event = json.loads(line)
            finished += [event["node"]] if event["event"] == "probe" else []
            if len(finished) == 4:
                break
        driver.send_signal(signal.SIGKILL)
    time.sleep(1.0)  # the workers notice that their driver is gone
    world.pause(0)
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[-1]["first_bad"] == commits[9]
    again = [event["node"] for event in events if event["event"] == "probe" and event["stage"] != "confirm"]
    assert not set(again) & set(finished)


def test_without_ray_the_option_says_what_to_install(
    toolkit: Toolkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path)
    commits = [
        world.upstream.commit({"engine.txt": "c0\nok\n"}, "a"),
        world.upstream.commit({"engine.txt": "c1\nok\n"}, "b"),
    ]
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RequestError, match="ray is not installed"):
        run(toolkit, world, commits[0], commits[1], ray="local")
