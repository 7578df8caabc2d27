from __future__ import annotations

from dataclasses import replace

from patchkit.report.html import html
from patchkit.report.json import transition_document
from patchkit.report.markdown import markdown
from patchkit.report.watch import conflict_document, event_text, report_text, summary_document
from tests.report.pictures import make_report


def test_how_things_stand_is_the_last_transition_of_each_issue() -> None:
    report = make_report("why")
    assert [(t.issue, t.at, t.change.value) for t in report.standing] == [
        ("deepgemm-unsupported-arch", "v0.30.0", "still-bad"),
        ("e8m0-scale-dtype", "v0.30.0", "conflict"),
    ]
    assert (report.alarming, report.untold) == (1, 0)
    assert report_text(report).splitlines()[1:] == [
        "at       issue                             now        without  with      fidelity  detail",
        "v0.30.0  deepgemm-unsupported-arch/static  still-bad  bad      good      static",
        "v0.30.0  e8m0-scale-dtype/stubbed          conflict   bad      conflict  stubbed   why",
        "the series does not apply from v0.30.0 on: e8m0-upcast: conflict: why",
        "6 new since v0.25.1: 1 demands attention",
    ]


def test_a_series_that_does_not_apply_alarms_even_without_issues() -> None:
    assert replace(make_report(), transitions=()).alarming == 1
    assert replace(make_report(), transitions=(), conflict=None).alarming == 0


def test_events_are_lines_for_people() -> None:
    report = make_report("why")
    assert event_text(transition_document(report.transitions[0])) == (
        "v0.26.0       newly-bad       deepgemm-unsupported-arch/static  patched  (since v0.25.1)"
    )
    assert report.conflict is not None
    assert event_text(conflict_document(report.conflict)) == "v0.30.0       conflict        the series"
    assert event_text(summary_document(report)) == ""


def test_lines_for_people_cut_commit_ids_and_say_absent_as_the_reports_do() -> None:
    start = {"event": "start", "upstream": "vllm", "since": "a" * 40, "newest": "b" * 40, "new": 3, "resumed": True}
    assert event_text(start) == f"watch vllm since {'a' * 12}, where the last look ended: 3 new, newest {'b' * 12}"
    probe = {"event": "probe", "at": "v1", "issue": "i", "repro": "r", "series": "with", "answer": "good"}
    assert event_text({**probe, "reason": "absent"}).split() == ["v1", "i/r", "with", "absent"]
    assert event_text({**probe, "reason": "passed"}).split() == ["v1", "i/r", "with", "good"]


def test_patches_that_are_not_needed_any_more_are_named_in_every_form() -> None:
    report = replace(make_report(), removable={"heal": "contains abc"})
    line = "heal is not needed any more: contains abc (remove-when)"
    assert line in report_text(report).splitlines()
    assert line in markdown(report).splitlines()
    assert f"<p>{line}</p>" in html(report)
    assert summary_document(report)["removable"] == [{"patch": "heal", "detail": "contains abc"}]
