"""Schemas and reference are generated: a stale one tells users keys that do not exist."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchkit.recipe.schema import main, render_all, stale_files

DOCS = Path(__file__).parents[2] / "docs"


def test_committed_schemas_and_reference_are_current() -> None:
    assert stale_files(DOCS) == [], "run python -m patchkit.recipe.schema --write docs"


def test_check_names_every_stale_file_and_write_makes_it_current(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--check", str(tmp_path)]) == 1
    assert main(["--write", str(tmp_path)]) == 0
    assert main(["--check", str(tmp_path)]) == 0
    capsys.readouterr()
    (tmp_path / "schemas/patch.schema.json").write_text("{}")
    assert main(["--check", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(f"{tmp_path}/schemas/patch.schema.json is stale: run python -m")


def test_schemas_have_the_keys_that_people_write() -> None:
    files = render_all()
    schemas = {
        name: json.loads(files[f"schemas/{name}.schema.json"]) for name in ("recipe", "patch", "issue", "rewrite")
    }
    assert "pairs-with" in schemas["recipe"]["$defs"]["Upstream"]["properties"]
    assert {"upstream-status", "remove-when"} <= set(schemas["patch"]["properties"])
    assert {"with", "without"} == set(schemas["issue"]["$defs"]["Expects"]["properties"])
    assert "timeout_seconds" in schemas["issue"]["$defs"]["Repro"]["properties"]
    assert schemas["rewrite"]["type"] == "array"


def test_every_key_of_every_file_says_what_it_means() -> None:
    rows = [line for line in render_all()["reference/recipe.md"].splitlines() if line.startswith("| `")]
    assert len(rows) > 80
    assert [row for row in rows if row.replace(r"\|", "").split("|")[-2].strip() == ""] == []
