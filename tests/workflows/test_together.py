"""Four processes at once on one store, from empty: each verb gives all of them one answer, and nothing half is left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from patchkit.tools.cache import digest_file
from tests.workflows.worlds import World, grow, make_world

TOGETHER = 4
VERBS: dict[str, list[str]] = {
    "check": [],
    "lock": [],
    "apply": ["--at", "v1.2.0"],
    "status": ["--against", "v1.2.0"],
    "repro": ["--at", "v1.2.0"],
    "build": ["--at", "v1.2.0", "--engine", "oci"],
    "watch": ["--since", "v1.0.0", "--axis", "releases"],
}
OF_THE_RUN = {"duration_seconds", "evidence", "reused", "seconds", "started", "archive", "changed"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = make_world(tmp_path_factory.mktemp("world"))
    world.upstream.commit({"vllm/__init__.py": "", "engine.txt": "c\ntop\ngood\nbottom\n"})
    grow(world, ["good"] * 4 + ["fault"] * 4)
    return world


def start(world: World, store: Path, arguments: list[str]) -> subprocess.Popen[str]:
    environment = {**os.environ, "PATCHKIT_CACHE": str(store)}
    command = [sys.executable, "-m", "patchkit", "-q", arguments[0], str(world.recipe), *arguments[1:], "--json"]
    return subprocess.Popen(
        command, env=environment, cwd=store.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def run_together(world: World, store: Path, commands: list[list[str]]) -> list[tuple[int, str, str]]:
    """Run commands at once and return exit code, stdout and stderr of each."""
    started = [start(world, store, arguments) for arguments in commands]
    return [(process.wait(), *streams) for process in started if (streams := process.communicate(timeout=300))]


def essence(text: str) -> list[Any]:
    """Return what a verb said on stdout, without what differs from run to run."""

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: strip(one) for name, one in value.items() if name not in OF_THE_RUN}
        return [strip(one) for one in value] if isinstance(value, list) else value

    try:
        return [strip(json.loads(text))]
    except ValueError:
        return [strip(json.loads(line)) for line in text.splitlines()]


def check_store(store: Path) -> None:
    assert list((store / "partial").iterdir() if (store / "partial").exists() else []) == []
    assert list(store.rglob(".*.json.*")) == []
    for repository in store.rglob("HEAD"):
        if (repository.parent / "objects").is_dir():
            done = subprocess.run(["git", "-C", str(repository.parent), "fsck"], capture_output=True, check=False)
            assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_four_at_once_answer_the_same(world: World, tmp_path: Path, verb: str) -> None:
    def command(number: int) -> list[str]:
        output = ["--output", str(tmp_path / f"{number}.tar")] if verb == "build" else []
        return [verb, *VERBS[verb], *output]

    together = run_together(world, tmp_path / "store", [command(number) for number in range(TOGETHER)])
    for code, said, complaint in together:
        assert code == 0, complaint
        assert essence(said)[-1] == essence(together[0][1])[-1]
    check_store(tmp_path / "store")
    assert len({digest_file(path) for path in tmp_path.glob("*.tar")}) <= 1


def test_four_that_write_one_archive_leave_one_whole_archive(world: World, tmp_path: Path) -> None:
    command = ["build", *VERBS["build"], "--output", str(tmp_path / "one.tar")]
    together = run_together(world, tmp_path / "store", [command] * TOGETHER)
    assert [code for code, _, _ in together] == [0] * TOGETHER
    (digest,) = {json.loads(said)["image"]["digest"] for _, said, _ in together}
    again = run_together(world, tmp_path / "store", [[*command[:-1], str(tmp_path / "two.tar")]])[0]
    assert json.loads(again[1])["image"]["digest"] == digest
    assert digest_file(tmp_path / "one.tar") == digest_file(tmp_path / "two.tar")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_of_four_at_one_bisect_one_finds_it_and_the_others_say_who_is_at_it(world: World, tmp_path: Path) -> None:
    command = ["bisect", "--issue", "fault", "--good", "v1.0.0", "--bad", "main"]
    together = run_together(world, tmp_path / "store", [command] * TOGETHER)
    codes = [code for code, _, _ in together]
    assert 0 in codes
    assert set(codes) <= {0, 128}
    for code, said, complaint in together:
        if code == 0:
            assert json.loads(said.splitlines()[-1])["first_bad"]
        else:
            assert "another process is at the same bisect" in complaint
    again = run_together(world, tmp_path / "store", [command])[0]
    assert again[0] == 0
    check_store(tmp_path / "store")
