from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchkit.errors import ToolMissing
from patchkit.tools.cache import Cache
from patchkit.tools.docker import find_clients, has_buildkit, open_engine, settled_config
from patchkit.tools.toolkit import Toolkit


def write_client(folder: Path, version: str, buildx: bool) -> Path:
    """Write a docker client that knows its version and whether it has the buildx plugin."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "docker"
    path.write_text(
        "#!/bin/sh\n"
        f'case "$1" in buildx) exit {0 if buildx else 1};; --version) echo "Docker version {version}, build 1";; esac\n'
    )
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("version", "buildx", "expected"),
    [
        ("20.10.24+dfsg1", False, True),
        ("28.2.2", False, False),
        ("28.2.2", True, True),
        ("none of the kind", False, False),
    ],
)
def test_buildkit_is_inside_old_clients_and_a_plugin_of_new_ones(
    tmp_path: Path, version: str, buildx: bool, expected: bool
) -> None:
    client = write_client(tmp_path, version, buildx)
    assert has_buildkit(str(client), {"PATH": "/usr/bin:/bin"}) is expected


def test_every_client_on_path_is_a_candidate_in_order(tmp_path: Path) -> None:
    first, second = (write_client(tmp_path / name, "28", False) for name in ("b", "a"))
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "docker").touch()  # no program
    path = ":".join(str(tmp_path / name) for name in ("b", "", "c", "missing", "a", "b"))
    assert find_clients({"PATH": path}) == (str(first), str(second))


@pytest.mark.parametrize("host", ["unix:///nowhere/docker.sock", "tcp://127.0.0.1:9", "nonsense://x"])
def test_an_engine_that_does_not_answer_is_a_missing_tool(tmp_path: Path, host: str) -> None:
    toolkit = Toolkit(Cache(tmp_path), env={"DOCKER_HOST": host})
    with pytest.raises(ToolMissing, match="does not answer") as caught, open_engine(toolkit):
        pytest.fail("nothing answers there")
    assert "dockerd" in caught.value.hint


def test_an_image_s_config_says_nothing_of_its_builder_and_keeps_the_base_s_history() -> None:
    attrs = {
        "RootFS": {"Layers": ["sha256:a", "sha256:b"]},
        "Config": {"Env": ["A=0"], "Labels": None, "Image": "sha256:of-a-build-container", "Hostname": "0123"},
        "Architecture": "amd64",
        "Os": "linux",
    }
    base = {"Created": 86_400, "CreatedBy": "CMD python3", "Size": 0}
    layer = {"Created": 3_600, "CreatedBy": "ADD rootfs", "Size": 9}
    ours = [{"Created": 1_800_000_000 + at, "CreatedBy": "builder", "Size": 0} for at in range(2)]
    config = json.loads(settled_config(attrs, [*ours, base, layer], ["FROM", "ADD", "LABEL"], 0))
    assert config["config"] == {"Env": ["A=0"]}
    assert [(entry["created_by"], entry.get("empty_layer", False)) for entry in config["history"]] == [
        ("ADD rootfs", False),
        ("CMD python3", True),
        ("patchkit build", False),
    ]
    assert {config["created"], config["history"][-1]["created"]} == {"1970-01-01T00:00:00Z"}


def test_a_base_with_a_layer_that_holds_nothing_still_has_an_entry_for_each_layer() -> None:
    attrs = {
        "RootFS": {"Layers": ["sha256:a", "sha256:b", "sha256:c"]},
        "Config": {},
        "Architecture": "amd64",
        "Os": "linux",
    }
    history = [{"Created": 9, "CreatedBy": "x", "Size": size} for size in (7, 0, 5)]
    config = json.loads(settled_config(attrs, history, ["FROM", "ADD"], 0))
    assert sum(not entry.get("empty_layer", False) for entry in config["history"]) == 3
