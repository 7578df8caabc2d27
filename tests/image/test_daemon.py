from __future__ import annotations

from typing import Any

from patchkit.image.daemon import read_config

ATTRS: dict[str, Any] = {
    "RootFS": {"Layers": ["sha256:a"]},
    "Config": {"Env": ["A=0"], "Labels": None, "Image": "sha256:of-a-build-container", "Hostname": "0123"},
    "Architecture": "amd64",
    "Os": "linux",
    "Variant": "",
    "Created": "2026-11-29T12:00:00Z",
    "DockerVersion": "20.10.24",
}
HISTORY = [
    {"Created": 86_400, "CreatedBy": "CMD python3", "Size": 0},
    {"Created": 3_600, "CreatedBy": "ADD rootfs", "Size": 9},
]


def test_a_base_s_config_says_nothing_of_its_builder_and_keeps_its_settings_and_history() -> None:
    assert read_config(ATTRS, HISTORY) == {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["A=0"]},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:a"]},
        "history": [
            {"created": "1970-01-01T01:00:00+00:00", "created_by": "ADD rootfs", "empty_layer": False},
            {"created": "1970-01-02T00:00:00+00:00", "created_by": "CMD python3", "empty_layer": True},
        ],
    }


def test_a_layer_whose_time_nobody_knows_has_none() -> None:
    nobody = {"Created": -62_135_596_800, "CreatedBy": "ADD", "Size": 1}
    assert read_config(ATTRS, [nobody])["history"] == [{"created_by": "ADD", "empty_layer": False}]
