"""Evidence → answer. Pure, so that old evidence can be graded again.

Only a failure that shows the issue's signature is bad: a commit that fails in another way says nothing about the issue.
"""

from __future__ import annotations

import re
import signal
from collections import Counter
from dataclasses import dataclass

from patchkit.recipe.model import Issue, Repro
from patchkit.recipe.model.issue import Metric
from patchkit.verdict.evidence import LOG_BYTES, SEARCH_SECONDS, Evidence, Run
from patchkit.verdict.search import search
from patchkit.verdict.verdict import Answer, Reason

UNDECIDED = 125
PYTEST_PROBLEMS = {
    2: "pytest was interrupted",
    3: "internal error of pytest",
    4: "usage error of pytest",
    5: "no tests",
}
NO_SPACE = re.compile(r"\[Errno 28\]|No space left on device")
EXCEPTION_LINE = re.compile(
    r"^(?:E {1,9})?[A-Za-z_][\w.]*(?:Error|Exception|Warning|Exit|Interrupt|Failure|Failed)\b.*$", re.M
)
STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
FATAL = tuple(-one for one in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE))
CRASH = re.compile(
    r"Fatal Python error: |Segmentation fault|SIG(?:SEGV|ABRT|BUS|ILL|FPE)\b|core dumped|terminate called after"
    r"|illegal memory access|[Ii]llegal instruction|device-side assert|misaligned address|undefined symbol: "
)  # what a crash in compiled code leaves, of the process itself or of one that it started
PASSED = re.compile(r"\b[1-9]\d* passed\b")


@dataclass(frozen=True)
class Grade:
    """An answer, why, and one line of detail."""

    answer: Answer
    reason: Reason
    detail: str


def grade(evidence: Evidence, issue: Issue, repro: Repro) -> Grade:
    """Return what the evidence says; runs that disagree, or that never touched the tree, say nothing."""
    signature = repro.signature or issue.signature
    grades = [_grade_run(evidence, run, signature, repro) for run in evidence.runs]
    answers = Counter(one.answer for one in grades)
    if len(answers) > 1:
        counts = ", ".join(f"{count} {answer}" for answer, count in sorted(answers.items()))
        return Grade(Answer.SKIP, Reason.FLAKY, f"{len(grades)} runs disagree: {counts}")
    first = grades[0]
    return _refuse_without_files(evidence, first) if first.answer is not Answer.SKIP else first


def _refuse_without_files(evidence: Evidence, answer: Grade) -> Grade:
    """Refuse an answer from a repro that read no file of the tree: it would be the same on any tree.

    To say that a feature is absent it is enough to have looked: listed a folder, or tried to open what is not there.
    """
    if evidence.loaded or (answer.reason is Reason.ABSENT and evidence.looked):
        return answer
    what = "did not look at the tree" if answer.reason is Reason.ABSENT else "read no file of the tree"
    said = "absent" if answer.reason is Reason.ABSENT else str(answer.answer)
    return Grade(Answer.SKIP, Reason.NOTHING_LOADED, f"said {said}, but {what}: it proves nothing")


def _grade_run(evidence: Evidence, run: Run, signature: str, repro: Repro) -> Grade:
    if run.overflowed:
        return Grade(Answer.SKIP, Reason.OTHER_FAILURE, f"ended: it wrote more than {LOG_BYTES >> 20} MiB of output")
    if run.timed_out:
        waited, said = f"no answer after {run.duration_seconds:.0f} s", last_words(run)
        return Grade(Answer.SKIP, Reason.TIMEOUT, f"{waited}; {said}" if said else waited)
    if run.exit_code == 0:
        return _grade_pass(evidence, run, repro)
    if evidence.kind == "pytest" and run.exit_code in PYTEST_PROBLEMS:
        reason = Reason.UNDECIDED if run.exit_code == 5 else Reason.OTHER_FAILURE
        return Grade(Answer.SKIP, reason, f"{PYTEST_PROBLEMS[run.exit_code]}: {last_words(run)}")
    if run.exit_code == UNDECIDED:
        return Grade(Answer.SKIP, Reason.UNDECIDED, last_words(run) or "the repro could not tell")
    return _grade_failure(evidence, run, signature)


def _grade_failure(evidence: Evidence, run: Run, signature: str) -> Grade:
    """Only a failure with the signature is bad; with the signature of the run itself it was looked for then."""
    same = signature == evidence.signature
    if same and not run.searched:
        told = (
            f"the signature gave no answer within {SEARCH_SECONDS:.0f} s: does it repeat what repeats, as (a+)+ does?"
        )
        return Grade(Answer.SKIP, Reason.UNDECIDED, told)
    found = run.found if same else search(signature, run.output)
    if found:
        return Grade(Answer.BAD, Reason.SIGNATURE, plain(found))
    reason = Reason.INFRASTRUCTURE if NO_SPACE.search(run.output) else Reason.OTHER_FAILURE
    return Grade(Answer.SKIP, reason, f"{_ending(run)} without the signature: {last_words(run) or 'no output'}")


def _grade_pass(evidence: Evidence, run: Run, repro: Repro) -> Grade:
    absent = [mark for mark in run.marks if re.match(r"absent\b", mark)]
    if absent:
        told = plain(absent[-1].removeprefix("absent").lstrip(" :—-"))
        return Grade(Answer.GOOD, Reason.ABSENT, told or "not there yet")
    if repro.metric is not None:
        return _grade_metric(run, repro.metric)
    if evidence.kind == "pytest" and not PASSED.search(run.output):
        return Grade(Answer.SKIP, Reason.UNDECIDED, f"no test passed: {last_words(run)}")
    return Grade(Answer.GOOD, Reason.PASSED, "")


def _grade_metric(run: Run, metric: Metric) -> Grade:
    if run.metric is None:
        return Grade(Answer.SKIP, Reason.UNDECIDED, "printed no `patchkit: metric=NUMBER`")
    told = f"metric {run.metric:g}, bad from {metric.limit:g}"
    return Grade(Answer.BAD if metric.is_bad(run.metric) else Answer.GOOD, Reason.METRIC, told)


def _ending(run: Run) -> str:
    if run.exit_code >= 0:
        return f"exit {run.exit_code}"
    try:
        return f"killed by {signal.Signals(-run.exit_code).name}"
    except ValueError:
        return f"killed by signal {-run.exit_code}"


def has_crashed(evidence: Evidence) -> bool:
    """Return whether a run ended in compiled code: by a signal of it, or with the words that it leaves in the log."""
    fatal = {*FATAL, *(128 - number for number in FATAL)}  # a shell in between adds 128
    return any(run.exit_code in fatal or CRASH.search(run.output) for run in evidence.runs)


def last_words(run: Run) -> str:
    """Return the last line of a run's output that names an exception, else its last line; '' without output."""
    exceptions = EXCEPTION_LINE.findall(run.output)
    lines = [line for line in run.output.splitlines() if line.strip()]
    return plain((exceptions or lines or [""])[-1].strip())[:500]


def plain(text: str) -> str:
    """Return a repro's words without what would steer a terminal or a report: control and direction characters."""
    return STEERING.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
