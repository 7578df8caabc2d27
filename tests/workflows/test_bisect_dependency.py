"""Which version of a package brings a fault: the environment must differ in that one package only."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from patchkit.errors import RequestError
from patchkit.report.bisect import event_text
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.bisect import BisectRequest, bisect
from patchkit.workflows.bisect.axes.dependency import HOLE, template_of, versions_between
from tests.support.packages import PackageServer, serve_index
from tests.support.repositories import GitRepository

RECIPE = """
format: 1
name: product
upstream:
  vllm: {{git: "{url}", ref: main}}
issues: [fault]
{environment}
"""
ISSUE = """
format: 1
title: Three is not two
signature: "FAULT"
repros:
  - {name: run, fidelity: real, script: repro.py, environment: plain}
"""
REPRO = """
import importlib.metadata, product, steady, sys
assert importlib.metadata.version("steady") == "1.0"
import moving
sys.exit(f"FAULT with {moving.VALUE}" if moving.VALUE >= product.LIMIT else 0)
"""


def wheel(name: str, version: str, text: str, requires: str = "") -> bytes:
    """A wheel of one module, as small as pip takes it."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += f"Requires-Dist: {requires}\n" if requires else ""
    files = {
        f"{name}.py": text,
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = [f"{info}/RECORD,,"]
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(content)}")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, content in {**files, f"{info}/RECORD": "\n".join(lines) + "\n"}.items():
            archive.writestr(path, content)
    return buffer.getvalue()


@pytest.fixture
def index() -> Iterator[PackageServer]:
    with serve_index() as server:
        server.add_file("steady", "steady-1.0-py3-none-any.whl", wheel("steady", "1.0", ""))
        for number in range(1, 7):
            requires = "absent-package==9" if number == 4 else ""
            data = wheel("moving", f"{number}.0", f"VALUE = {number}\n", requires)
            server.add_file("moving", f"moving-{number}.0-py3-none-any.whl", data)
        server.add_file("moving", "moving-3.5rc1-py3-none-any.whl", wheel("moving", "3.5rc1", "VALUE = 3\n"))
        server.add_file("moving", "moving-2.5-py3-none-any.whl", wheel("moving", "2.5", "VALUE = 9\n"), yanked=True)
        yield server


def make_library(folder: Path, limit: int, environment: str = "") -> Path:
    upstream = GitRepository(folder / "upstream.git")
    upstream.commit({"product.py": f"LIMIT = {limit}\n"}, "first")
    for path, text in {
        "recipes/product/recipe.yaml": RECIPE.format(url=upstream.url, environment=environment),
        "recipes/environments/plain.txt": "steady==1.0\nMoving>=1  # any\n",
        "issues/fault/issue.yaml": ISSUE,
        "issues/fault/repro.py": REPRO,
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder / "recipes" / "product" / "recipe.yaml"


def run(
    toolkit: Toolkit, index: PackageServer, recipe: Path, good: str, bad: str, **more: Any
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    events: list[dict[str, Any]] = []
    chosen = {"axis": "dependency:moving", "confirm": 1, **more}
    request = BisectRequest(recipe, "git", "", good, bad, **chosen)
    online = Toolkit(toolkit.cache, env={**toolkit.env, **index.env})
    return bisect(online, request, lambda event: events.append(dict(event))), events


def test_the_first_bad_version_is_found_in_environments_that_differ_in_it_alone(
    toolkit: Toolkit, tmp_path: Path, index: PackageServer
) -> None:
    recipe = make_library(tmp_path, limit=3)
    result, events = run(toolkit, index, recipe, "1.0", "6.0")
    assert (result["first_bad"], result["last_good"], result["confirmed"]) == ("3.0", "2.0", True)
    assert result["axis"] == "dependency:moving"
    assert result["next"].startswith("stay at moving==2.0")
    assert "3.0 is the first bad version (confirmed); last good: 2.0" in event_text(result)
    assert "5 versions after 1.0 (good) up to 6.0 (bad), at vllm " in event_text(events[0])
    built = {path.name for path in toolkit.cache.root.glob("requirements/*/*.txt")}
    assert "moving-5.0.txt" not in built, "only what is probed gets an environment"
    again, events = run(toolkit, index, recipe, "1.0", "6.0")
    assert again == result
    assert [event["event"] for event in events if event["event"] == "probe"] == []


def test_a_version_that_cannot_be_installed_is_a_skip(toolkit: Toolkit, tmp_path: Path, index: PackageServer) -> None:
    result, events = run(toolkit, index, make_library(tmp_path, limit=4), "3.0", "5.0")
    skips = {(event["node"], event["reason"]) for event in events if event.get("answer") == "skip"}
    assert skips == {("4.0", "build-failed")}
    assert [suspect["node"] for suspect in result["candidates"]] == ["4.0", "5.0"]


def test_what_to_do_next_is_said_of_a_version_that_is_like_no_other() -> None:
    known = {Version("4.55.0"), Version("4.57.1")}
    with pytest.raises(RequestError) as caught:
        versions_between(known, "transformers", Version("1"), Version("4.57.1"))
    assert caught.value.hint == "it has 4.55.0 to 4.57.1"


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        (("1.0", "7.0"), "the index has no such version"),
        (("2.0", "1.0"), "is not older"),
        (("1.0", "main"), "main: is no version"),
    ],
)
def test_ends_that_are_no_versions_of_the_package_are_refused(
    toolkit: Toolkit, tmp_path: Path, index: PackageServer, ends: tuple[str, str], message: str
) -> None:
    with pytest.raises(RequestError, match=message):
        run(toolkit, index, make_library(tmp_path, limit=3), *ends)


def test_an_interpreter_that_is_used_as_it_is_has_no_other_version(
    toolkit: Toolkit, tmp_path: Path, index: PackageServer
) -> None:
    recipe = make_library(tmp_path, limit=3, environment="environment: {python: python3}")
    with pytest.raises(RequestError, match="an interpreter to be used as it is"):
        run(toolkit, index, recipe, "1.0", "6.0")


def test_pre_releases_count_only_as_ends_and_yanked_ones_not_at_all() -> None:
    known = [Version(text) for text in ("1.0", "1.1rc1", "1.1", "1.2rc1", "1.2")]
    assert versions_between(known, "moving", Version("1.1rc1"), Version("1.2")) == ["1.1rc1", "1.1", "1.2"]


def test_the_requirement_is_replaced_where_it_stands_with_its_extras(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "more.txt").write_text("other==1\nTorch_Vision==0.2 ; python_version > '3'\n")
    (tmp_path / "bounds.txt").write_text("numpy<3\n")
    file = tmp_path / "all.txt"
    file.write_text("# torch\n-r inner/more.txt\n-c bounds.txt\ntorch[opt]==2.11.0\ntorch-extra==1\n--pre\n")
    rest = f"# torch\nother==1\n{{}}-c {tmp_path}/bounds.txt\n{{}}torch-extra==1\n--pre\n"
    vision = "Torch_Vision==0.2 ; python_version > '3'\n"
    assert template_of(file, "torch") == rest.format(vision, "") + f"torch[opt]=={HOLE}\n"
    assert template_of(file, "torch.vision") == rest.format("", "torch[opt]==2.11.0\n") + f"Torch_Vision=={HOLE}\n"
    assert template_of(file, "absent").endswith(f"--pre\nabsent=={HOLE}\n")
    with pytest.raises(RequestError, match="a constraint holds numpy"):
        template_of(file, "numpy")


def test_hashes_and_missing_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("torch==1 --hash=sha256:00\n")
    with pytest.raises(RequestError, match="holds hashes"):
        template_of(tmp_path / "a.txt", "torch")
    with pytest.raises(RequestError, match="cannot be read"):
        template_of(tmp_path / "b.txt", "torch")


def test_kill_9_then_the_same_command_runs_no_finished_version_again(tmp_path: Path, index: PackageServer) -> None:
    recipe = make_library(tmp_path, limit=3)
    words = ["bisect", str(recipe), "--source", "git", "--good", "1.0", "--bad", "6.0", "--axis", "dependency:moving"]
    command = [sys.executable, "-m", "patchkit", *words, "--confirm", "1", "--json"]
    env = {**os.environ, **index.env}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    assert process.stdout is not None
    seen = [json.loads(process.stdout.readline()) for _ in range(3)]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300, env=env)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert (events[-1]["first_bad"], events[-1]["confirmed"]) == ("3.0", True)
    probes = [(event["node"], event["stage"]) for event in [*seen, *events] if event["event"] == "probe"]
    assert len([one for one in probes if one[1] == "search"]) == len({one for one in probes if one[1] == "search"})
