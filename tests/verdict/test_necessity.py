"""Is a patch needed? Decided from the verdicts with the whole series and without the patch."""

from __future__ import annotations

import pytest

from patchkit.verdict.expectation import Need, Trial, judge_removal
from patchkit.verdict.verdict import Answer, Reason, Verdict

APART = "i/r is out of reach, since the rest does not apply"
UNTOLD = "i/r cannot be told without it (undecided)"


def verdict(answer: str, reason: Reason = Reason.PASSED) -> Verdict:
    return Verdict("i", "r", "v1", "c", "t", "with", Answer(answer), reason, "", "static", 0.0, None)


def trial(whole: str, without: str, expected: str = "good", reason: Reason = Reason.UNDECIDED) -> Trial:
    return Trial(verdict(whole), verdict(without, reason), expected)


@pytest.mark.parametrize(
    ("trials", "not_here", "need", "detail"),
    [
        ([trial("good", "bad")], "", Need.NEEDED, "i/r is bad without it"),
        ([trial("good", "good"), trial("good", "bad")], "", Need.NEEDED, "i/r is bad without it"),
        ([trial("good", "skip", reason=Reason.CONFLICT)], "", Need.NEEDED, APART),
        ([trial("good", "good")], "", Need.REMOVABLE, "no repro notices that it is gone"),
        ([trial("good", "good"), trial("good", "skip")], "", Need.CANNOT_TELL, UNTOLD),
        ([trial("bad", "good")], "", Need.CANNOT_TELL, "i/r is bad with the whole series (passed)"),
        ([trial("skip", "bad")], "", Need.CANNOT_TELL, "i/r is skip with the whole series (passed)"),
        ([trial("bad", "good", expected="bad")], "", Need.NEEDED, "i/r is good without it"),
        ([], "vllm is 0.26.0", Need.NOT_HERE, "vllm is 0.26.0"),
        ([], "", Need.REMOVABLE, "it changes no file here"),
    ],
)  # fmt: skip
def test_a_patch_is_needed_if_a_repro_notices(trials: list[Trial], not_here: str, need: Need, detail: str) -> None:
    removal = judge_removal("p", (), tuple(trials), not_here)
    assert (removal.need, removal.detail) == (need, detail)
