"""A newcomer's first question is what is missing; an examination that raises would answer it with a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchkit.cli.run import run


def test_a_machine_with_nothing_is_told_so_without_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple/")
    assert run(["doctor", "--json"]) == 0
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    for name in ("git", "package index", "docker engine"):
        assert checks[name]["state"] == "missing", name
        assert checks[name]["hint"], name
    assert checks["store"]["state"] in {"ok", "broken"}


def test_a_store_that_cannot_be_written_fails_the_examination(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PATCHKIT_CACHE", str(tmp_path / "file" / "store"))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple/")
    assert run(["doctor"]) == 1
    assert "broken" in capsys.readouterr().out
