"""A bisect over commits that need a native build: few builds, never a binary of another tree, failures told once."""

from __future__ import annotations

import dataclasses
import json
import os
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.bisect import BisectRequest, bisect, read_records
from tests.support.repositories import GitRepository

RECIPE = """
format: 1
name: product
upstream:
  vllm: {{git: "{url}", ref: main}}
issues: [fault]
environment:
  native:
    inputs: ["csrc/**"]
    outputs: ["pkg/*.so"]
    build: [sh, -c, "cat csrc/core.c >> $RUNS; ! grep -q broken csrc/core.c && cp csrc/core.c pkg/core.so"]
    env: {{RUNS: "{runs}"}}
"""
ISSUE = """
format: 1
title: The engine fails with a fault
signature: "FAULT"
repros:
  - {name: read, fidelity: static, script: repro.py}
"""
REPRO = """
import os, pathlib, sys
tree = pathlib.Path(os.environ["PATCHKIT_TREE"])
built, source = (tree / "pkg/core.so").read_text(), (tree / "csrc/core.c").read_text()
if built != source:
    print("a binary of another tree:", built, source)
    sys.exit(125)
if "fault" in (tree / "pkg/engine.txt").read_text() + built:
    sys.exit("FAULT: the engine stopped")
"""


@dataclasses.dataclass
class Product:
    """An upstream whose `core` changes rarely and whose `engine` changes always."""

    folder: Path
    git: GitRepository

    @property
    def recipe(self) -> Path:
        return self.folder / "recipes/product/recipe.yaml"

    @property
    def builds(self) -> list[str]:
        runs = self.folder / "builds.txt"
        return runs.read_text().split() if runs.exists() else []

    def bisect(self, toolkit: Toolkit, good: str, bad: str, **more: Any) -> tuple[dict[str, Any], list[Any]]:
        events: list[Any] = []
        request = BisectRequest(recipe=self.recipe, source="git", issue="", good=good, bad=bad, **more)
        return bisect(toolkit, request, events.append), events


@pytest.fixture
def product(tmp_path: Path) -> Product:
    git = GitRepository(tmp_path / "upstream.git")
    for path, text in {
        "recipes/product/recipe.yaml": RECIPE.format(url=git.url, runs=tmp_path / "builds.txt"),
        "issues/fault/issue.yaml": ISSUE,
        "issues/fault/repro.py": REPRO,
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return Product(tmp_path, git)


@pytest.fixture
def tools(toolkit: Toolkit) -> Toolkit:
    return dataclasses.replace(toolkit, env=dict(os.environ))


def commits(product: Product, cores: list[str], fault: int) -> list[str]:
    return [
        product.git.commit(
            {"csrc/core.c": core + "\n", "pkg/engine.txt": f"c{n} {'fault' if n >= fault else 'good'}\n"}
        )
        for n, core in enumerate(cores)
    ]


def test_commits_that_share_native_inputs_share_a_build(product: Product, tools: Toolkit) -> None:
    cores = [f"core{n // 8}" for n in range(40)]
    ids = commits(product, cores, fault=21)
    result, events = product.bisect(tools, ids[0], ids[-1])
    assert (result["first_bad"], result["confirmed"]) == (ids[21], True)
    assert result["builds"] == len(product.builds) == len(set(product.builds))
    assert len(product.builds) <= 4  # of five, the ends among them: the search stays where something is built
    assert all(event["answer"] != "skip" for event in events if event["event"] == "probe")


def wheels(product: Product, ids: list[str], cores: list[str], has: list[int], build: str) -> None:
    """Let the recipe take wheels, which some of the commits have."""
    for number in has:
        with zipfile.ZipFile(product.folder / f"{ids[number]}.whl", "w") as archive:
            archive.writestr("pkg/core.so", cores[number] + "\n")
    lines = product.recipe.read_text().splitlines()
    lines = [line for line in lines if not line.startswith("    build:") or build]
    at = next(number for number, line in enumerate(lines) if line.startswith("    outputs:"))
    lines.insert(at, f'    wheel: "{product.folder}/{{commit}}.whl"')
    product.recipe.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(("build", "builds"), [("build", 1), ("", 0)])
def test_a_commit_without_a_wheel_is_built_or_skipped_and_says_nothing_of_its_neighbours(
    product: Product, tools: Toolkit, build: str, builds: int
) -> None:
    cores = [f"core{n // 16}" for n in range(33)]
    ids = commits(product, cores, fault=20)
    wheels(product, ids, cores, [*range(0, 15, 2), 32] if build else list(range(0, 33, 2)), build)
    result, events = product.bisect(tools, ids[0], ids[-1])
    skipped = [event["node"] for event in events if event["event"] == "probe" and event["answer"] == "skip"]
    assert len(product.builds) == builds
    assert not skipped if build else all(ids.index(node) % 2 for node in skipped)
    assert result["first_bad"] == ids[20]


def test_a_wheel_that_one_commit_lacks_hides_no_commit_with_the_same_native_files(
    product: Product, tools: Toolkit
) -> None:
    cores = [f"core{n // 11}" for n in range(33)]
    ids = commits(product, cores, fault=15)
    wheels(product, ids, cores, [0, *range(13, 20), 32], "")
    result, events = product.bisect(tools, ids[0], ids[-1])
    skipped = {event["node"] for event in events if event["event"] == "probe" and event["answer"] == "skip"}
    assert skipped <= {*ids[1:13], *ids[20:32]}
    assert (result["first_bad"], result["confirmed"]) == (ids[15], True)


def test_a_build_that_fails_is_tried_once_and_all_commits_that_share_it_are_known_skips(
    product: Product, tools: Toolkit
) -> None:
    cores = ["core0"] * 6 + ["broken"] * 8 + ["core2"] * 6
    ids = commits(product, cores, fault=16)
    result, events = product.bisect(tools, ids[0], ids[-1])
    assert (result["first_bad"], result["confirmed"]) == (ids[16], True)
    assert Counter(product.builds)["broken"] <= 1
    hole = commits(product, ["core0"] * 3 + ["broken"] * 5 + ["core2"] * 3, fault=5)
    result, events = product.bisect(tools, hole[0], hole[-1])
    assert {one["node"] for one in result["candidates"]} == set(hole[3:9])
    skips = [event for event in events if event["event"] == "probe" and event["reason"] == "build-failed"]
    assert len({event["node"] for event in skips}) == 1


def test_a_bisect_that_goes_on_builds_nothing_again_and_replays_alike(product: Product, tools: Toolkit) -> None:
    ids = commits(product, [f"core{n // 5}" for n in range(30)], fault=17)

    class Stop(Exception):
        pass

    seen: list[str] = []

    def stop(event: Any) -> None:
        seen.append(event["event"])
        if seen.count("probe") == 4:
            raise Stop

    request = BisectRequest(recipe=product.recipe, source="git", issue="", good=ids[0], bad=ids[-1])
    with pytest.raises(Stop):
        bisect(tools, request, stop)
    result, _ = product.bisect(tools, ids[0], ids[-1])
    assert result["first_bad"] == ids[17]
    assert max(Counter(product.builds).values()) == 1
    (record,) = read_records(tools, request)
    assert record.replay().is_same


def test_the_journal_says_what_a_build_took(product: Product, tools: Toolkit) -> None:
    ids = commits(product, ["core0"] * 4 + ["core1"] * 4, fault=5)
    product.bisect(tools, ids[0], ids[-1])
    (journal,) = tools.cache.root.glob("bisects/*/journal.jsonl")
    events = [json.loads(line) for line in journal.read_text().splitlines()]
    (told,) = [event for event in events if event["event"] == "builds"]
    assert len(set(told["keys"].values())) == 2
    probes = [event for event in events if event["event"] == "probe"]
    assert all(event["build"] for event in probes)


def test_idle_slots_build_what_is_likely_next_and_no_build_is_made_twice(product: Product, tools: Toolkit) -> None:
    check_built_ahead(product, tools)


def check_built_ahead(product: Product, tools: Toolkit, ray: str = "") -> None:
    """Four slots, slow builds: some are made before their probe, none twice, and the journal replays."""
    made = commits(product, [f"core{n // 4}" for n in range(32)], 19)
    slow = product.recipe.read_text().replace("cat csrc/core.c >>", "sleep 1; cat csrc/core.c >>")
    product.recipe.write_text(slow)
    result, events = product.bisect(tools, made[0], made[-1], jobs=4, ray=ray)
    assert (result["first_bad"], result["confirmed"]) == (made[19], True)
    ahead = [event for event in events if event["event"] == "prepared"]
    assert [event for event in ahead if event["build_seconds"] > 0]
    assert max(Counter(product.builds).values()) == 1
    assert 0 < result["builds"] <= len(product.builds)
    (record,) = read_records(tools, BisectRequest(product.recipe, "git", "", made[0], made[-1]))
    replayed = record.replay()
    assert replayed.is_same, replayed.difference


def test_a_build_ahead_that_fails_is_known_to_fail_and_is_no_verdict(product: Product, tools: Toolkit) -> None:
    made = commits(product, ["core0"] * 4 + ["broken"] * 8 + ["core1"] * 4, 13)
    result, events = product.bisect(tools, made[0], made[-1], jobs=4)
    assert (result["first_bad"], result["confirmed"]) == (made[13], True)
    assert Counter(product.builds)["broken"] >= 1
    tried = {event["node"] for event in events if event["event"] == "probe" and event["reason"] == "build-failed"}
    ahead = {event["node"] for event in events if event["event"] == "prepared" and event["failed"]}
    assert ahead
    assert len(tried | ahead) <= 4


def test_one_probe_at_a_time_builds_nothing_ahead(product: Product, tools: Toolkit) -> None:
    made = commits(product, [f"core{n // 2}" for n in range(8)], 5)
    _, events = product.bisect(tools, made[0], made[-1])
    assert [event for event in events if event["event"] == "prepared"] == []


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_hole_that_does_not_build_is_built_with_the_repair_once(product: Product, tools: Toolkit, jobs: int) -> None:
    cores = ["core0"] * 3 + ["broken"] * 8 + ["core2"] * 3
    made = [
        product.git.commit(
            {
                "csrc/core.c": core + "\n",
                "pkg/engine.txt": f"{'fault' if n >= 7 else 'good'}\n",
                f"pkg/new_{n}.txt": "x\n",
            }
        )
        for n, core in enumerate(cores)
    ]
    result, events = product.bisect(tools, made[0], made[-1], fix_up=(made[11],), jobs=jobs)
    assert (result["first_bad"], result["confirmed"]) == (made[7], True)
    tried = Counter(product.builds)
    assert tried["core0"] == tried["core2"] == 1
    assert tried["broken"] <= jobs  # what is known not to build is not tried again, by those that ran beside it once
    mended = [event for event in events if event["event"] == "probe" and event["fix_up"]]
    assert all(event["build"] for event in mended)
    (record,) = read_records(tools, BisectRequest(product.recipe, "git", "", made[0], made[-1], fix_up=(made[11],)))
    replayed = record.replay()
    assert replayed.is_same, replayed.difference


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_commit_that_takes_no_fix_up_does_not_speak_for_those_that_share_its_build(
    product: Product, tools: Toolkit, jobs: int
) -> None:
    """The repair touches a file of Python, too, which most of the hole has in another shape."""
    shapes = ["old"] * 12 + ["new"] * 6
    made = [
        product.git.commit(
            {
                "csrc/core.c": "core0\n" if n < 3 else "broken\n" if n < 15 else "core2\n",
                "pkg/engine.txt": f"{'fault' if n >= 13 else 'good'}\n",
                "pkg/shape.txt": "repaired\n" if n >= 15 else f"{shape}\n",
                f"pkg/new_{n}.txt": "x\n",
            }
        )
        for n, shape in enumerate(shapes)
    ]
    result, _ = product.bisect(tools, made[0], made[-1], fix_up=(made[15],), jobs=jobs)
    assert (result["first_bad"], result["confirmed"]) == (made[13], True)
    assert Counter(product.builds)["broken"] <= jobs
