"""Holds the size budgets: a module that nobody can read in one sitting is where defects live."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "patchkit"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "library" not in path.parts)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> Iterator[Function]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def size(node: Function) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_is_short_and_so_are_its_functions(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 300
    assert [f"{node.name}: {size(node)} lines" for node in functions(path) if size(node) > 40] == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_keeps_the_rules_of_the_house(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside_run = path == PACKAGE / "cli" / "run.py"
    for node in ast.walk(tree):
        assert not isinstance(node, ast.Global), f"line {node.lineno}: global"
        if isinstance(node, ast.ExceptHandler) and not inside_run:
            assert node.type is not None, f"line {node.lineno}: bare except"
            assert getattr(node.type, "id", "") != "Exception", f"line {node.lineno}: except Exception outside cli.run"
        if isinstance(node, ast.Attribute) and node.attr == "exit" and not inside_run:
            assert getattr(node.value, "id", "") != "sys", f"line {node.lineno}: sys.exit outside cli.run"
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"} and path.parent.name != "cli":
            assert getattr(node.value, "id", "") != "os" or "harness" in path.parts, (
                f"line {node.lineno}: os.{node.attr}"
            )


def test_the_median_function_is_ten_lines_or_less() -> None:
    assert statistics.median(size(node) for path in MODULES for node in functions(path)) <= 10


def test_a_package_has_at_most_eight_modules() -> None:
    packages = {path.parent for path in MODULES if (path.parent / "__init__.py").exists()} - {PACKAGE}
    crowded = {
        str(folder.relative_to(PACKAGE)): len([path for path in folder.glob("*.py") if path.name != "__init__.py"])
        for folder in packages
        if folder not in {PACKAGE / "cli", PACKAGE / "workflows"}  # one file a verb: as many as there are verbs
    }
    assert {name: count for name, count in crowded.items() if count > 8} == {}


def test_no_shipped_file_names_a_machine_of_its_makers() -> None:
    root = PACKAGE.parent
    names = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True).stdout.split(b"\0")
    for name in filter(None, names):
        path = root / name.decode()
        if path.is_file() and path != Path(__file__):
            assert not re.search(rb"/work/(main|shared|scratch|\.)", path.read_bytes()), path
