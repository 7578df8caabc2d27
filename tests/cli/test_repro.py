"""The verb `repro`: what it runs, what it says, what it exits with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from patchkit.cli.run import run
from tests.workflows.worlds import World, grow, make_world

SECOND = "  - {name: second, fidelity: stubbed, script: second.py}\n"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Commits: absent (v1.0.0), good, fault."""
    made = make_world(tmp_path / "world")
    grow(made, ["absent", "good", "fault"])
    return made


def document_of(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    document = json.loads(capsys.readouterr().out)
    assert isinstance(document, dict)
    return document


def write_repro(world: World, script: str) -> None:
    (world.folder / "issues/fault/repro.py").write_text(script)


def test_both_trees_are_run_and_the_document_has_their_verdicts(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["-q", "repro", str(world.recipe), "--json"]) == 0
    document = document_of(capsys)
    assert document["format"] == 1
    assert document["problems"] == []
    verdicts = document["verdicts"]
    assert isinstance(verdicts, list)
    told = [(one["series"], one["answer"], one["reason"], one["fidelity"]) for one in verdicts]
    assert told == [("without", "bad", "signature", "static"), ("with", "good", "passed", "static")]
    assert (Path(verdicts[0]["evidence"]) / "run-1.log").read_text().strip() == "FAULT: the engine stopped"


def test_what_is_known_is_not_run_again_unless_asked(world: World) -> None:
    assert run(["-q", "repro", str(world.recipe)]) == 0
    assert run(["-q", "repro", str(world.recipe)]) == 0
    assert len(world.runs) == 2
    assert run(["-q", "repro", str(world.recipe), "--fresh", "--series", "without"]) == 1
    assert len(world.runs) == 3


def test_a_commit_without_the_feature_is_told_and_no_failure(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-q", "repro", str(world.recipe), "--at", "v1.0.0"]) == 0
    assert "fault/read: the issue is not there at v1.0.0: not there yet" in capsys.readouterr().out


def test_a_repro_that_is_good_without_the_series_is_an_error_of_the_issue(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["-q", "repro", str(world.recipe), "--at", "main~1", "--json"]) == 1
    (problem,) = document_of(capsys)["problems"]  # type: ignore[misc]
    assert problem["message"] == "good without the series: it proves nothing at main~1"
    assert run(["-q", "repro", str(world.recipe), "--at", "main~1"]) == 1
    assert "error of the issue: fault/read: good without the series" in capsys.readouterr().out


def test_where_affects_says_no_good_is_as_it_should_be(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    issue = world.folder / "issues/fault/issue.yaml"
    issue.write_text(issue.read_text() + 'affects: ["has(fault.txt)"]\n')
    assert run(["-q", "repro", str(world.recipe), "--at", "main~1"]) == 0
    assert "the issue does not affect main~1" in capsys.readouterr().out


def test_a_repro_that_reads_nothing_of_the_tree_is_refused(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    write_repro(world, "import sys\nsys.exit('FAULT')\n")
    assert run(["-q", "repro", str(world.recipe)]) == 1
    assert "read no file of the tree: it proves nothing" in capsys.readouterr().out
    assert run(["-q", "repro", str(world.recipe), "--series", "without"]) == 125


def test_one_repro_of_an_issue_can_be_chosen(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    (world.folder / "issues/fault/second.py").write_text((world.folder / "issues/fault/repro.py").read_text())
    issue = world.folder / "issues/fault/issue.yaml"
    issue.write_text(issue.read_text() + SECOND)
    assert run(["-q", "repro", str(world.recipe), "--issue", "fault/second", "--series", "with", "--json"]) == 0
    verdicts = document_of(capsys)["verdicts"]
    assert isinstance(verdicts, list)
    assert [(one["repro"], one["fidelity"]) for one in verdicts] == [("second", "stubbed")]


@pytest.mark.parametrize(
    ("name", "message"), [("other", "no issue named other"), ("fault/other", "fault: no repro named other")]
)
def test_a_name_that_is_not_there_stops(
    world: World, capsys: pytest.CaptureFixture[str], name: str, message: str
) -> None:
    assert run(["-q", "repro", str(world.recipe), "--issue", name]) == 128
    assert message in capsys.readouterr().err


def test_a_point_means_what_is_checked_out_here_and_needs_a_repository(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(world.upstream.path)
    assert run(["-q", "repro", str(world.recipe), "--series", "without", "--at", "."]) == 1
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert run(["-q", "repro", str(world.recipe), "--at", "."]) == 128
    assert "--at .: the current folder is in no git repository" in capsys.readouterr().err


def test_a_log_is_named_where_something_needs_a_look(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    write_repro(world, "import os\nopen(os.environ['PATCHKIT_TREE'] + '/engine.txt')\nraise KeyError('what')\n")
    assert run(["-q", "repro", str(world.recipe)]) == 125
    lines = capsys.readouterr().out.splitlines()
    (log, _) = [line.split(": ")[1] for line in lines if line.startswith("log of fault/read")]
    assert "KeyError: 'what'" in Path(log).read_text()
