"""A page that names tests must name tests that exist, or it shows nothing."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "issues" / "README.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
NEEDED = re.compile(r"(?<![\w/])(?:recipes|issues)/[\w./-]+\.(?:yaml|py)")


def functions_of(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.FunctionDef)}


def test_each_test_that_the_page_names_exists() -> None:
    named = NAMED.findall(PAGE)
    assert len(named) >= 25
    for file, name in named:
        path = ROOT / file
        assert path.is_file(), file
        assert not name or name in functions_of(path), f"{file}::{name}"


def test_each_file_that_a_command_of_the_page_takes_exists() -> None:
    for file in NEEDED.findall(PAGE):
        assert (ROOT / file).is_file(), file


def test_the_page_has_every_issue() -> None:
    for folder in (ROOT / "issues").glob("*/issue.yaml"):
        assert f"`{folder.parent.name}`" in PAGE
