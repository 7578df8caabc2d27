"""JUnit of a bisect: what a CI system shows red is the culprit and nothing else, and never nothing at all."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree as xml

import pytest

from patchkit.cli.run import run
from tests.workflows.test_bisect_patches import Library
from tests.workflows.worlds import linear


def bisect(tmp_path: Path, recipe: Path, *words: str) -> tuple[int, xml.Element]:
    """Run a bisect; return its exit code and the suite that it wrote."""
    file = tmp_path / "bisect.xml"
    code = run(["--quiet", "bisect", str(recipe), "--source", "git", "--junit", str(file), *words])
    (suite,) = xml.fromstring(file.read_text()).findall("testsuite")
    counted = {name: len(suite.findall(f"testcase/{kind}")) for name, kind in COUNTS.items()}
    assert {name: int(suite.attrib[name]) for name in COUNTS} == counted
    assert int(suite.attrib["tests"]) == len(suite.findall("testcase"))
    return code, suite


COUNTS = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def cases(suite: xml.Element, kind: str) -> list[str]:
    return [case.attrib["name"] for case in suite.findall("testcase") if case.find(kind) is not None]


def test_the_confirmed_culprit_is_the_one_case_that_fails(tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["good"] * 3 + ["broken"] + ["good"] + ["fault"] * 3)
    code, suite = bisect(tmp_path, world.recipe, "--good", commits[0], "--bad", "main")
    assert (code, cases(suite, "failure"), cases(suite, "error")) == (0, [commits[5]], [])
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert f"{commits[5][:12]}" in str(failure.text)
    passed = {case.attrib["name"] for case in suite.findall("testcase")} - {commits[5], *cases(suite, "skipped")}
    assert {commits[0], commits[7]} <= passed


def test_suspects_are_an_error_and_what_cannot_be_tested_is_skipped(tmp_path: Path) -> None:
    world, commits = linear(tmp_path, ["good", "good", "broken", "broken", "fault", "fault"])
    code, suite = bisect(tmp_path, world.recipe, "--good", commits[0], "--bad", "main")
    assert (code, cases(suite, "failure"), cases(suite, "error")) == (1, [], ["first bad of commits"])
    assert set(cases(suite, "skipped")) == set(commits[2:4])


def test_guilty_patches_fail_each_and_none_is_an_error(tmp_path: Path) -> None:
    library = Library(tmp_path, [{"p3", "p6"}])
    code, suite = bisect(tmp_path, library.recipe, "--axis", "patches")
    assert (code, cases(suite, "failure"), cases(suite, "error")) == (0, ["p3", "p6"], [])


def test_a_journal_of_patches_is_printed_and_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library = Library(tmp_path, [{"p3", "p6"}])
    words = [str(library.recipe), "--source", "git", "--axis", "patches"]
    assert run(["bisect", "log", *words]) == 128
    assert "no journal of a bisect of --axis patches" in capsys.readouterr().err
    assert run(["bisect", *words]) == 0
    capsys.readouterr()
    assert run(["bisect", "log", *words]) == 0
    out = capsys.readouterr().out
    assert "which of 8 patches bring it" in out
    assert "p3, p6 together bring it (confirmed)" in out
    assert run(["bisect", "replay", *words]) == 0
    assert "all as in the journal" in capsys.readouterr().out
    assert run(["bisect", "log", *words, "--git-log"]) == 128
    (journal,) = Path(os.environ["PATCHKIT_CACHE"], "bisects").glob("*/journal.jsonl")
    journal.write_text(journal.read_text().replace('"answer":"good"', '"answer":"bad"', 1))
    assert run(["bisect", "replay", *words]) == 1
