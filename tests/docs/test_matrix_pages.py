"""The pages that the matrix makes are what it writes today, and each cell is what its issue says of the release.

Making the cells takes the package index and hours; a page that nobody made anew after a change is seen without.
"""

from __future__ import annotations

import re
import shlex
from argparse import Namespace
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from benchmarks.matrix import FIDELITIES, PINS, RELEASES, list_repros, read_options, write_page
from patchkit.recipe.condition import Or, parse_condition
from patchkit.recipe.load import load_issue
from tests.stack.bench import GivenFacts

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "issues" / name for name in ("matrix.md", "matrix-real.md")]
CELL = re.compile(r"(bad|good|absent|skip \(\w+\)|needs-gpu)( → (good|bad|absent|skip \(\w+\)))?")


@dataclass(frozen=True)
class ReleaseFacts(GivenFacts):
    """What the matrix's recipe says of a release."""

    pins: dict[str, str] = field(default_factory=dict)

    def pin(self, name: str) -> str | None:
        return self.pins.get(name)


def arguments_of(page: Path) -> list[str]:
    found = re.search(r"^python -m benchmarks\.matrix (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert found
    return shlex.split(found[1])


def options_of(page: Path) -> Namespace:
    return read_options(arguments_of(page))


def rows_of(page: Path) -> list[list[str]]:
    lines = page.read_text(encoding="utf-8").splitlines()
    return [line[2:-2].split(" | ") for line in lines if line.startswith("| v")]


def cells_of(issue: str) -> dict[str, list[str]]:
    """Return, for each release, what the repros of an issue that ran here said without and with the patches."""
    found: dict[str, list[str]] = {release: [] for release in RELEASES}
    for page in PAGES:
        names = [slug for slug, _, _ in list_repros(options_of(page).fidelity)]
        for release, *cells in rows_of(page):
            found[release] += [cell for slug, cell in zip(names, cells, strict=True) if slug == issue]
    return found


def is_affected(issue: str, release: str) -> bool:
    pins = dict(re.findall(r'(\w+): "(\w+)"', PINS.get((issue, release), "")))
    affects = load_issue(ROOT / "issues" / issue).issue.affects
    lines = tuple(parse_condition(line) for line in affects)
    return Or(lines).judge(ReleaseFacts({"vllm": release[1:]}, pins)).value is True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.stem))
def test_a_page_is_what_its_own_command_writes(page: Path) -> None:
    options, rows = options_of(page), rows_of(page)
    assert (ROOT / options.markdown, options.issue, options.release) == (page, [], None)
    written = write_page(arguments_of(page), list_repros(options.fidelity), rows)
    assert page.read_text(encoding="utf-8") == written
    assert tuple(row[0] for row in rows) == RELEASES
    assert [cell for row in rows for cell in row[1:] if not CELL.fullmatch(cell)] == []


def test_the_pages_together_have_every_repro() -> None:
    shown = [one for page in PAGES for one in list_repros(options_of(page).fidelity)]
    assert sorted(shown) == sorted(list_repros(FIDELITIES))


@pytest.mark.parametrize("issue", sorted({slug for slug, _, _ in list_repros(FIDELITIES)}))
def test_a_release_is_bad_where_its_issue_says_so_and_only_there(issue: str) -> None:
    guard = load_issue(ROOT / "issues" / issue).issue.expects.without == "good"
    for release, cells in cells_of(issue).items():
        bad = any(cell.startswith("bad") for cell in cells)
        assert bad == (is_affected(issue, release) and not guard), (release, cells)
        assert not any(cell.endswith("bad") for cell in cells), (release, cells)
