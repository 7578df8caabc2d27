from __future__ import annotations

from xml.etree import ElementTree

from patchkit.report.junit import junit
from tests.report.pictures import NASTY, make_report


def suites(detail: str = "why") -> dict[str, ElementTree.Element]:
    root = ElementTree.fromstring(junit(make_report(detail)))
    return {suite.get("name", ""): suite for suite in root}


def test_each_repro_is_a_suite_and_each_commit_a_case() -> None:
    found = suites()
    assert list(found) == ["deepgemm-unsupported-arch/static", "e8m0-scale-dtype/stubbed"]
    for suite in found.values():
        assert [case.get("name") for case in suite.findall("testcase")] == ["v0.30.0", "v0.28.0", "v0.26.0", "v0.25.1"]
        assert suite.get("tests") == "4"


def test_a_conflict_fails_what_cannot_be_told_is_skipped_and_a_healed_fault_passes() -> None:
    first, second = suites().values()
    assert (first.get("failures"), first.get("skipped")) == ("0", "0")
    assert (second.get("failures"), second.get("skipped")) == ("1", "1")
    cases = {case.get("name"): case for case in second.findall("testcase")}
    failure = cases["v0.30.0"].find("failure")
    assert failure is not None
    assert (failure.get("message"), failure.text) == ("the series does not apply", "why")
    assert cases["v0.28.0"].find("properties/property[@name='patched']") is not None
    assert cases["v0.26.0"].find("properties/property[@name='patched']") is None


def test_text_from_a_log_cannot_break_the_document() -> None:
    found = suites(NASTY)
    assert "<script>" in "".join(found["e8m0-scale-dtype/stubbed"].itertext())
