"""Evidence is whole, of limited size, and can be graded again without running anything."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

import patchkit.verdict.evidence as evidence_module
from patchkit.errors import InfrastructureFailure, RequestError
from patchkit.tools.process import Completed
from patchkit.verdict.evidence import KEPT_BYTES, find_signature, read_evidence, read_loaded, read_log
from patchkit.verdict.grade import grade
from patchkit.verdict.verdict import Answer, Reason
from tests.verdict.workbench import LOAD, Workbench

FAILS = LOAD + "import sys; print('patchkit: metric=41.5'); sys.exit('it is broken')"


def test_evidence_is_read_as_it_was_written(bench: Workbench) -> None:
    evidence = bench.probe(FAILS, repeat=2)
    assert evidence.folder is not None
    assert read_evidence(evidence.folder) == evidence
    assert evidence.metrics == (41.5, 41.5)
    assert evidence.versions["python"]
    record = json.loads((evidence.folder / "record.json").read_text())
    assert record["format"] == 1
    assert [run["exit_code"] for run in record["runs"]] == [1, 1]
    assert record["loaded"] == ["product/__init__.py"]


def test_evidence_is_graded_again_with_another_signature(bench: Workbench) -> None:
    evidence = bench.probe(FAILS)
    assert evidence.folder is not None
    again = read_evidence(evidence.folder)
    issue = bench.issue(FAILS).issue
    assert grade(again, issue, issue.repros[0]).answer is Answer.BAD
    changed = issue.model_copy(update={"signature": "something else"})
    assert grade(again, changed, issue.repros[0]).reason is Reason.OTHER_FAILURE


def test_the_same_question_replaces_its_evidence_and_another_does_not(bench: Workbench) -> None:
    first, again = bench.probe(FAILS), bench.probe(FAILS)
    other = bench.probe(FAILS, tree=bench.tree_of({"product/x.py": ""}))
    assert first.folder == again.folder
    assert first.folder != other.folder
    assert again.folder is not None
    assert read_evidence(again.folder) == again


@pytest.mark.parametrize("content", ["", "{", '{"format": 99}', '{"format": 1, "runs": []}'])
def test_evidence_that_cannot_be_read_is_told(tmp_path: Path, content: str) -> None:
    (tmp_path / "record.json").write_text(content)
    with pytest.raises(RequestError, match="no evidence that can be read"):
        read_evidence(tmp_path)


def test_a_huge_log_is_searched_whole_and_kept_in_part(bench: Workbench) -> None:
    script = """
        import sys, product
        print("first line")
        for half in range(2):
            for _ in range(20_000):
                print("x" * 100)
            print("it is broken in the middle" if not half else "last line")
            print("patchkit: metric=7" if not half else "")
        sys.exit(1)
    """
    evidence = bench.probe(script)
    (one,) = evidence.runs
    assert one.found == "it is broken in the middle"
    assert one.marks == ("metric=7",)
    assert one.output.startswith("first line\n")
    assert one.output.rstrip().endswith("last line")
    assert "bytes left out" in one.output
    assert "it is broken" not in one.output
    assert evidence.folder is not None
    assert (evidence.folder / "run-1.log").stat().st_size < 2 * KEPT_BYTES + 100
    issue = bench.issue(script).issue
    assert grade(read_evidence(evidence.folder), issue, issue.repros[0]).answer is Answer.BAD


def test_a_signature_may_span_lines_and_anchor_at_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("a\nsecond: b\nthird\n")
    assert find_signature(log, read_log(log), r"^second: b\nthird$") == "second: b"
    assert find_signature(log, read_log(log), r"^b$") == ""


def test_bytes_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"\xff\xfe broken\npatchkit: absent\r\n")
    assert read_log(log).marks == ("absent",)
    assert find_signature(log, read_log(log), "broken") == "\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER} broken"


def test_a_signature_that_backtracks_for_ever_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    log.write_text("a" * 40 + "\n")
    monkeypatch.setattr(evidence_module, "SEARCH_SECONDS", 0.5)
    started = time.monotonic()
    assert find_signature(log, read_log(log), "(a+)+b") is None
    assert time.monotonic() - started < 5


def test_marks_are_read_from_any_log_in_no_time(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"patchkit:" + b" " * 1_000_000 + b"\n" + b"patchkit:   metric=1  \n" * 5000 + b"x" * 5_000_000)
    started = time.monotonic()
    assert set(read_log(log).marks) == {"metric=1"}
    assert len(read_log(log).marks) == 1000
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("left", ["nothing", "a pipe", "a link", "a folder"])
def test_a_log_or_record_that_the_run_replaced_is_not_believed(tmp_path: Path, left: str) -> None:
    place = tmp_path / "log"
    if left == "a pipe":
        os.mkfifo(place)
    elif left == "a link":
        (tmp_path / "mine").write_text("F secret\n")
        place.symlink_to(tmp_path / "mine")
    elif left == "a folder":
        place.mkdir()
    with pytest.raises(InfrastructureFailure, match=r"its (own )?log"):
        read_log(place)
    assert read_loaded(place) == (frozenset(), frozenset())


@pytest.mark.parametrize(
    ("signature", "quick"),
    [
        ("REGRESSION", True),
        (r"call is not guarded|DeepGEMM is not taken", True),
        (r"^writes to \w, declared is \(a\+\)$", True),
        (r"(a|a)(a|a)", False),  # two ways for each letter
        (r"a.*b", False),
        (r"\N{DASH}{2}", False),
        ("a" * 201, False),
    ],
)
def test_only_a_pattern_without_groups_and_repeats_is_searched_for_without_a_process(
    signature: str, quick: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def run(command: object, **_: object) -> Completed:
        asked.append(command)
        return Completed((), 0, b"", b"", 0.0, timed_out=False)

    monkeypatch.setattr(evidence_module, "run_process", run)
    log = tmp_path / "log"
    log.write_text("first\nthe REGRESSION is here\n")
    found = find_signature(log, read_log(log), signature)
    assert bool(asked) is not quick
    assert found == ("the REGRESSION is here" if signature == "REGRESSION" else "")
