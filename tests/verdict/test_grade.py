"""What an exit code and an output mean. Only the issue's own failure is bad; everything else says nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from patchkit.recipe.model import Issue, Repro
from patchkit.recipe.model.issue import Metric
from patchkit.verdict.evidence import Evidence, Run
from patchkit.verdict.grade import grade, has_crashed
from patchkit.verdict.search import search
from patchkit.verdict.verdict import Answer, Reason

REPRO = Repro(name="only", fidelity="real", script="repro.py")
ISSUE = Issue(format=1, title="An issue", signature=r"^Assertion.*: Unsupported architecture$", repros=(REPRO,))
SIGNED = "Traceback\nAssertionError: Unsupported architecture\nmore\n"


def run(exit_code: int = 0, output: str = "", marks: tuple[str, ...] = (), found: str = "", late: bool = False) -> Run:
    return Run(exit_code, late, 1.0, output, len(output), marks, found or search(ISSUE.signature, output))


def evidence(*runs: Run, loaded: tuple[str, ...] = ("a.py",), looked: tuple[str, ...] = ()) -> Evidence:
    return Evidence(
        issue="an-issue",
        issue_sha256="0",
        repro="only",
        kind="script",
        signature=ISSUE.signature,
        command=("python", "repro.py"),
        commit="c",
        version=None,
        tree="t",
        environment="e",
        versions={},
        runs=runs,
        loaded=loaded,
        looked=looked,
    )


@pytest.mark.parametrize(
    ("one", "answer", "reason", "detail"),
    [
        (run(0, "fine"), Answer.GOOD, Reason.PASSED, ""),
        (run(0, SIGNED), Answer.GOOD, Reason.PASSED, ""),
        (run(0, marks=("absent",)), Answer.GOOD, Reason.ABSENT, "not there yet"),
        (run(0, marks=("absent: no mhc folder",)), Answer.GOOD, Reason.ABSENT, "no mhc folder"),
        (run(1, SIGNED), Answer.BAD, Reason.SIGNATURE, "AssertionError: Unsupported architecture"),
        (run(-6, SIGNED), Answer.BAD, Reason.SIGNATURE, "AssertionError: Unsupported architecture"),
        (run(1, "long log", found="the line"), Answer.BAD, Reason.SIGNATURE, "the line"),
        (
            run(1, "Traceback\nModuleNotFoundError: no zmq\n"),
            Answer.SKIP,
            Reason.OTHER_FAILURE,
            "exit 1 without the signature: ModuleNotFoundError: no zmq",
        ),
        (run(-11, ""), Answer.SKIP, Reason.OTHER_FAILURE, "killed by SIGSEGV without the signature: no output"),
        (run(2, "usage: x\n"), Answer.SKIP, Reason.OTHER_FAILURE, "exit 2 without the signature: usage: x"),
        (
            run(1, "OSError: [Errno 28] No space left on device"),
            Answer.SKIP,
            Reason.INFRASTRUCTURE,
            "exit 1 without the signature: OSError: [Errno 28] No space left on device",
        ),
        (run(125, "no torch here\n"), Answer.SKIP, Reason.UNDECIDED, "no torch here"),
        (run(125, SIGNED), Answer.SKIP, Reason.UNDECIDED, "AssertionError: Unsupported architecture"),
        (run(-9, SIGNED, late=True), Answer.SKIP, Reason.TIMEOUT, None),
    ],
)
def test_one_run(one: Run, answer: Answer, reason: Reason, detail: str | None) -> None:
    mark = grade(evidence(one), ISSUE, REPRO)
    assert (mark.answer, mark.reason) == (answer, reason)
    assert detail is None or mark.detail == detail


def test_the_signature_of_the_repro_stands_before_that_of_the_issue() -> None:
    other = REPRO.model_copy(update={"signature": "another"})
    assert grade(evidence(run(1, SIGNED)), ISSUE, other).reason is Reason.OTHER_FAILURE
    assert grade(evidence(run(1, "another\n")), ISSUE, other).reason is Reason.SIGNATURE


def test_what_was_found_with_an_older_signature_does_not_count_for_a_new_one() -> None:
    cut = evidence(run(1, "kept part", found="the line"))
    changed = ISSUE.model_copy(update={"signature": "something else"})
    assert grade(cut, changed, REPRO).reason is Reason.OTHER_FAILURE


@pytest.mark.parametrize("one", [run(0), run(1, SIGNED)])
def test_an_answer_from_a_repro_that_read_nothing_of_the_tree_is_refused(one: Run) -> None:
    mark = grade(evidence(one, loaded=(), looked=("vllm",)), ISSUE, REPRO)
    assert (mark.answer, mark.reason) == (Answer.SKIP, Reason.NOTHING_LOADED)


def test_absent_needs_a_look_at_the_tree() -> None:
    absent = run(0, marks=("absent",))
    assert grade(evidence(absent, loaded=(), looked=("vllm",)), ISSUE, REPRO).reason is Reason.ABSENT
    assert grade(evidence(absent, loaded=()), ISSUE, REPRO).reason is Reason.NOTHING_LOADED


def test_a_failure_that_read_nothing_keeps_its_own_reason() -> None:
    assert grade(evidence(run(125), loaded=()), ISSUE, REPRO).reason is Reason.UNDECIDED


def test_runs_that_disagree_are_flaky_and_counted() -> None:
    mark = grade(evidence(run(0), run(1, SIGNED), run(0), run(125)), ISSUE, REPRO)
    assert (mark.answer, mark.reason) == (Answer.SKIP, Reason.FLAKY)
    assert mark.detail == "4 runs disagree: 1 bad, 2 good, 1 skip"


@pytest.mark.parametrize("code", [2, 3, 4, 5])
def test_pytests_own_problems_are_never_bad_even_with_the_signature(code: int) -> None:
    mark = grade(replace(evidence(run(code, SIGNED)), kind="pytest"), ISSUE, REPRO)
    assert mark.answer is Answer.SKIP


def test_metrics_are_the_last_number_of_each_run() -> None:
    marks = ("metric=1.5", "metric= 41.25", "metricx=9", "metric=nonsense")
    assert evidence(run(0, marks=marks[:2]), run(0, marks=("metric=-2e3",)), run(0)).metrics == (41.25, -2000.0)
    assert evidence(run(0, marks=marks)).metrics == ()


def test_a_signature_that_gave_no_answer_and_a_log_without_end_are_skips() -> None:
    endless = replace(run(1, "aaaa"), searched=False)
    told = grade(evidence(endless), ISSUE, REPRO)
    assert (told.answer, told.reason) == (Answer.SKIP, Reason.UNDECIDED)
    assert "the signature gave no answer" in told.detail
    for code in (0, -9):
        told = grade(evidence(replace(run(code, SIGNED), overflowed=True)), ISSUE, REPRO)
        assert (told.answer, told.reason) == (Answer.SKIP, Reason.OTHER_FAILURE)
        assert "MiB of output" in told.detail


@pytest.mark.parametrize("steering", ["\x1b[2J", "\x1b]0;title\x07", "\x00", "\x9b", "\u202e", "\ud800"])
def test_words_of_a_repro_cannot_steer_a_terminal(steering: str) -> None:
    signature = ISSUE.model_copy(update={"signature": "Unsupported"})
    for one in (run(3, f"a {steering} b"), run(0, marks=(f"absent: {steering} b",)), run(1, f"Unsupported {steering}")):
        detail = grade(evidence(one), signature, REPRO).detail
        assert detail.isprintable()
        assert "\\x" in detail


METRIC = Repro(name="speed", fidelity="real", script="speed.py", metric=Metric(good=41.0, bad=55.0))


@pytest.mark.parametrize(
    ("marks", "answer", "reason"),
    [
        (("metric=40.5",), Answer.GOOD, Reason.METRIC),
        (("metric=48",), Answer.BAD, Reason.METRIC),
        (("metric=99", "metric=4.1e1"), Answer.GOOD, Reason.METRIC),  # the last one counts
        (("metric=fast",), Answer.SKIP, Reason.UNDECIDED),
        (("metric=1e9999",), Answer.SKIP, Reason.UNDECIDED),  # no finite number
        ((), Answer.SKIP, Reason.UNDECIDED),
        (("absent: no such engine",), Answer.GOOD, Reason.ABSENT),
    ],
)
def test_a_metric_is_bad_on_the_side_of_the_bad_value(marks: tuple[str, ...], answer: Answer, reason: Reason) -> None:
    issue = Issue(format=1, title="Slow", signature="SLOW", repros=(METRIC,))
    found = grade(evidence(run(marks=marks)), issue, METRIC)
    assert (found.answer, found.reason) == (answer, reason)


def test_the_threshold_of_a_metric_lies_between_its_values_and_lower_may_be_worse() -> None:
    assert Metric(good=100, bad=50, threshold=60).is_bad(60)
    assert not Metric(good=100, bad=50, threshold=60).is_bad(61)
    for wrong in ({"good": 1, "bad": 1}, {"good": 1, "bad": 2, "threshold": 3}):
        with pytest.raises(ValueError, match="must lie between"):
            Metric.model_validate(wrong)


@pytest.mark.parametrize(
    ("code", "output", "crashed"),
    [
        (-11, "", True),
        (139, "", True),
        (134, "", True),
        (1, "Fatal Python error: Segmentation fault\n", True),
        (1, "RuntimeError: CUDA error: an illegal memory access was encountered\n", True),
        (1, "ImportError: vllm/_C.abi3.so: undefined symbol: _ZN3c10\n", True),
        (-9, "", False),  # ended from outside
        (137, "", False),
        (1, "AssertionError: expected scalar type Half\n", False),
        (0, "", False),
    ],
)
def test_a_crash_is_told_from_a_failure_in_python(code: int, output: str, crashed: bool) -> None:
    assert has_crashed(evidence(run(code, output))) is crashed
