"""What README and docs say must work: every shell block is run, every transcript compared, every YAML block checked.

A copy-and-paste line that fails is the first thing a newcomer meets, and nothing else in the tests would notice.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import Block, normalise, read_blocks, transcript_parts

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUNNABLE = {"sh", "console"}
ALLOWED = RUNNABLE | {"text", "yaml", "json", "dockerfile"}


def blocks_of(page: Path) -> list[Block]:
    return read_blocks(page, ROOT)


def runnable(page: Path) -> list[Block]:
    return [block for block in blocks_of(page) if block.language in RUNNABLE and not block.remark]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what git tracks, as a newcomer has it."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.split(b"\0")
    for name in filter(None, names):
        source, target = ROOT / name.decode(), tmp_path / "patchkit" / name.decode()
        if source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    return tmp_path / "patchkit"


def run_shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOME": str(folder.parent), "NO_COLOR": "1"}
    shell = ["bash", "-euo", "pipefail", "-c", command]
    return subprocess.run(
        shell,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_says_what_it_is(page: Path) -> None:
    for block in blocks_of(page):
        assert block.language in ALLOWED, f"{block.file}:{block.line}: language {block.language!r}"
        assert block.remark != "not run" or len(block.reason) > 10, f"{block.file}:{block.line}: not run, but why?"


@pytest.mark.contract
@pytest.mark.parametrize(
    "page", [page for page in PAGES if runnable(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_shell_block_of_a_page_works(page: Path, checkout: Path) -> None:
    for block in runnable(page):
        commands = [(block.text, "")] if block.language == "sh" else transcript_parts(block.text)
        for command, expected in commands:
            result = run_shell(command, checkout)
            place = f"{block.file}:{block.line}"
            assert result.returncode == 0, f"{place}: {command}\n{result.stdout}{result.stderr}"
            if block.language == "console":
                assert normalise(result.stdout) == normalise(expected), f"{place}: {command}\n{result.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_yaml_block_that_names_a_file_is_valid(page: Path, tmp_path: Path) -> None:
    from patchkit.recipe.load import check_files

    written = []
    for block in blocks_of(page):
        first = block.text.split("\n", 1)[0]
        if block.language == "yaml" and first.startswith("# file: "):
            path = tmp_path / first.removeprefix("# file: ").strip()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
            written.append(path)
    assert written == [] or check_files(written) == ()


def test_every_link_to_a_file_leads_somewhere() -> None:
    import re

    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}"
