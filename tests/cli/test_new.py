"""The verb `new`: files on stdout, what next on stderr, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchkit.cli.run import run


@pytest.mark.parametrize("kind", ["recipe", "patch", "issue"])
def test_a_scaffold_passes_check(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["new", kind, "mine", "--in", str(tmp_path)]) == 0
    told = capsys.readouterr()
    files = [Path(line) for line in told.out.splitlines()]
    assert files
    assert all(file.is_file() for file in files)
    assert "fill" in told.err
    assert run(["check", str(files[0].parent)]) == 0
    assert run(["new", kind, "mine", "--in", str(tmp_path)]) == 128
    assert "is there already" in capsys.readouterr().err


def test_the_document_names_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["new", "issue", "mine", "--in", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["kind"], document["name"]) == ("issue", "mine")
    assert [Path(file).name for file in document["files"]] == ["issue.yaml", "repro.py", "README.md"]


def test_another_kind_is_an_error_of_usage(tmp_path: Path) -> None:
    assert run(["new", "image", "mine", "--in", str(tmp_path)]) == 129
    assert run(["new", "patch", "Not A Name", "--in", str(tmp_path)]) == 128
