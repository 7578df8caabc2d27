"""A watch report with every kind of finding, and with text that wants to break out of its format."""

from __future__ import annotations

from patchkit.report.watch import SeriesConflict, Subject, WatchReport
from patchkit.verdict.transition import VerdictPair, judge_transition
from patchkit.verdict.verdict import Answer, Reason, Series, Verdict

NASTY = '</details><script>alert(1)</script> & "quoted" | pipe `tick` *star*\x00\x1b[31m'
SAID = {
    "good": (Answer.GOOD, Reason.PASSED),
    "absent": (Answer.GOOD, Reason.ABSENT),
    "bad": (Answer.BAD, Reason.SIGNATURE),
    "conflict": (Answer.SKIP, Reason.CONFLICT),
    "unknown": (Answer.SKIP, Reason.TIMEOUT),
}
STORY = {
    "v0.30.0": (("bad", "good"), ("bad", "conflict")),
    "v0.28.0": (("bad", "good"), ("bad", "good")),
    "v0.26.0": (("bad", "good"), ("good", "good")),
    "v0.25.1": (("absent", "absent"), ("unknown", "good")),
}
SUBJECTS = (
    Subject("deepgemm-unsupported-arch", "static", 'DeepGEMM asserts "Unsupported architecture" on sm_121', "static"),
    Subject("e8m0-scale-dtype", "stubbed", NASTY, "stubbed"),
)


def verdict(said: str, series: Series, at: str, subject: Subject = SUBJECTS[0], detail: str = "") -> Verdict:
    answer, reason = SAID[said]
    commit = f"{abs(hash(at)) % 16**8:08x}" * 5
    evidence = None if said == "conflict" else f"/home/ada/.cache/patchkit/evidence/{series}-{at}"
    seconds = 0.0 if said == "conflict" else 1.25
    return Verdict(
        subject.issue,
        subject.repro,
        at,
        commit,
        "",
        series,
        answer,
        reason,
        detail,
        subject.fidelity,
        seconds,
        evidence,
    )


def pair(words: tuple[str, str], at: str, subject: Subject = SUBJECTS[0], detail: str = "") -> VerdictPair:
    return VerdictPair(
        verdict(words[0], "without", at, subject, detail), verdict(words[1], "with", at, subject, detail)
    )


def make_report(detail: str = "Assertion error (hyperconnection.hpp:56): Unsupported architecture") -> WatchReport:
    """Four releases, two issues; the series stops applying with the newest."""
    nodes = tuple(STORY)
    pairs = {
        subject.name: {at: pair(words[place], at, subject, detail) for at, words in STORY.items()}
        for place, subject in enumerate(SUBJECTS)
    }
    first, second = (pairs[subject.name] for subject in SUBJECTS)
    changes = [
        (first, "v0.25.1", "v0.26.0"),
        (first, "v0.26.0", "v0.30.0"),
        (second, "v0.26.0", "v0.28.0"),
        (second, "v0.28.0", "v0.30.0"),
    ]
    return WatchReport(
        recipe="deepseek-v4-gb10",
        upstream="vllm",
        axis="releases",
        since="v0.25.1",
        newest="v0.30.0",
        new=6,
        nodes=nodes,
        subjects=SUBJECTS,
        pairs=pairs,
        transitions=tuple(judge_transition(of[before], of[after]) for of, before, after in changes),
        conflict=SeriesConflict("v0.30.0", f"e8m0-upcast: conflict: {detail}"),
    )
