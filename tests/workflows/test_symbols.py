"""The workflow of `status --symbols`: several commits, since when, the baseline, the series."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from patchkit.errors import RequestError
from patchkit.report.status.symbols import SymbolsReport, symbols_text
from patchkit.tools.cache import Cache
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.symbols import SymbolsRequest, tell_symbols
from tests.support.packages import serve_index
from tests.support.repositories import GitRepository

USES = "from vllm.a import f, g\nfrom vllm import a\ndef mine(x): pass\na.h = mine\n"
HEAD = "--- a/vllm/a.py\n+++ b/vllm/a.py\n@@ -1,3 +1,4 @@\n"
DIFF = f"{HEAD} def f(): pass\n def g(): pass\n def h(x): pass\n+def k(): pass\n"


@pytest.fixture
def upstream(tmp_path: Path) -> GitRepository:
    return GitRepository(tmp_path / "upstream")


@pytest.fixture
def commits(upstream: GitRepository) -> list[str]:
    """Build: all names (v1), others, g moves, others, h takes more (main)."""
    first = "def f(): pass\ndef g(): pass\ndef h(x): pass\n"
    found = [upstream.commit({"vllm/__init__.py": "", "vllm/a.py": first}, "make a")]
    upstream.tag("v1.0.0")
    found += [upstream.commit({"other": f"{number}\n"}) for number in range(4)]
    found.append(
        upstream.commit({"vllm/a.py": first.replace("def g(): pass\n", ""), "vllm/b.py": "def g(): pass\n"}, "move g")
    )
    found += [upstream.commit({"other": f"{number}\n"}) for number in range(4, 8)]
    found.append(upstream.commit({"vllm/a.py": "def f(): pass\ndef h(x, y): pass\n"}, "h takes y"))
    return found


@pytest.fixture
def tell(toolkit: Toolkit, upstream: GitRepository, tmp_path: Path) -> Callable[..., SymbolsReport]:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f'format: 1\nname: r\nupstream: {{vllm: {{git: "{upstream.url}", ref: v1.0.0}}}}\nseries: []\n')
    (tmp_path / "plugin").mkdir()
    (tmp_path / "plugin" / "p.py").write_text(USES)

    def call(**options: object) -> SymbolsReport:
        return tell_symbols(toolkit, SymbolsRequest(recipe, tmp_path / "plugin", **options))  # type: ignore[arg-type]

    return call


def told(report: SymbolsReport) -> list[list[tuple[str, str]]]:
    return [[(one.finding.symbol, one.finding.answer.value) for one in ref.findings] for ref in report.refs]


def test_the_package_stands_at_the_commit_it_is_made_for(
    commits: list[str], tell: Callable[..., SymbolsReport]
) -> None:
    report = tell()
    assert ([ref.commit.id for ref in report.refs], report.stands) == ([commits[0]], True)


def test_several_commits_are_a_matrix(commits: list[str], tell: Callable[..., SymbolsReport]) -> None:
    report = tell(against=("v1.0.0", commits[6], "main"))
    gone, differs = ("vllm.a.g", "gone"), ("vllm.a.h", "differs")
    assert told(report) == [[], [gone], [gone, differs]]
    rows = [line.split() for line in symbols_text(report).splitlines()]
    assert ["vllm.a.g", "-", "gone", "gone"] in rows
    assert "vllm.a.g: gone; now vllm.b.g" in symbols_text(report)


def test_since_when_is_found_by_bisection(commits: list[str], tell: Callable[..., SymbolsReport]) -> None:
    (ref,) = tell(span="v1.0.0..main").refs
    assert [(one.since.commit, one.since.subject) for one in ref.findings if one.since] == [
        (commits[5], "move g"),
        (commits[10], "h takes y"),
    ]
    (late,) = tell(span=f"{commits[7]}..main").refs
    assert [one.since and one.since.subject for one in late.findings] == [None, "h takes y"]


def test_a_baseline_excuses_what_it_names_and_tells_what_is_healed(
    commits: list[str], tell: Callable[..., SymbolsReport], tmp_path: Path
) -> None:
    path = tmp_path / "baseline.json"
    tell(against=(commits[6],), write_baseline=path)
    text = path.read_text()
    assert [one["symbol"] for one in json.loads(text)["broken"]] == ["vllm.a.g"]
    assert tell(against=(commits[6],), baseline=path).stands
    later = tell(against=("main",), baseline=path)
    assert (later.stands, [one.known for one in later.refs[0].findings]) == (False, [True, False])
    assert tell(against=("v1.0.0",), baseline=path).healed == (("vllm.a.g", "gone", ""),)
    tell(against=(commits[6],), write_baseline=path)
    assert path.read_text() == text


@pytest.mark.parametrize(
    "text", ["", "{}", '{"format": 2, "broken": []}', '{"format": 1, "broken": [{"symbol": "x"}]}']
)
def test_another_file_is_no_baseline(
    commits: list[str], tell: Callable[..., SymbolsReport], tmp_path: Path, text: str
) -> None:
    path = tmp_path / "baseline.json"
    with pytest.raises(RequestError, match="cannot be read"):
        tell(baseline=path)
    path.write_text(text)
    with pytest.raises(RequestError, match="is no baseline"):
        tell(baseline=path)


def test_what_the_series_brings_is_there(
    commits: list[str], tell: Callable[..., SymbolsReport], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace("series: []", "series: [{file: k.patch}]"))
    (tmp_path / "k.patch").write_text(DIFF)
    (tmp_path / "plugin" / "p.py").write_text("from vllm.a import k\n")
    assert told(tell(against=("v1.0.0", "main"))) == [[], [("vllm.a.k", "gone")]]


def test_a_recipe_of_another_product_is_an_error(
    upstream: GitRepository, tell: Callable[..., SymbolsReport], tmp_path: Path
) -> None:
    upstream.commit({"elsewhere/a.py": ""})
    upstream.tag("v1.0.0")
    with pytest.raises(RequestError, match="has no package vllm"):
        tell()
    with pytest.raises(RequestError, match="is no range"):
        tell(span="v1.0.0")


def test_releases_of_a_package_are_searched_too(tmp_path: Path) -> None:
    with serve_index() as server:
        for version in ("0.1", "0.2", "0.3", "0.4", "0.5"):
            name = "f" if version < "0.3" else "renamed"
            server.add("vllm", version, {"vllm/__init__.py": "", "vllm/a.py": f"def {name}(): pass\n"})
        recipe = tmp_path / "recipe.yaml"
        recipe.write_text("format: 1\nname: r\nupstream: {vllm: {package: vllm, ref: v0.1}}\nseries: []\n")
        (tmp_path / "plugin").mkdir()
        (tmp_path / "plugin" / "p.py").write_text("from vllm.a import f\n")
        toolkit = Toolkit(Cache(tmp_path / "store"), env=server.env)
        (ref,) = tell_symbols(toolkit, SymbolsRequest(recipe, tmp_path / "plugin", span="v0.1..v0.5")).refs
        fetched = [path for path, *_ in server.requests if path.endswith(".tar.gz")]
    assert [one.since and one.since.commit for one in ref.findings] == ["v0.3"]
    assert len(fetched) == 4, "0.4 need not be looked at"
