"""Does an issue answer as it says it does? Pure: a pair of verdicts against `expects`.

A repro that is good without the series proves nothing about the series. That is an error of the issue, not a verdict
on the commit, and it is told as such.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from patchkit.recipe.model import Expects
from patchkit.verdict.verdict import Answer, Reason, Verdict

READ_THE_TREE = (
    "a repro must import or open files below PATCHKIT_TREE; `exists()` alone is not seen, opening or listing is"
)


class Fulfilment(StrEnum):
    """Whether verdicts are as expected. `not-there`: the commit does not have the issue, so nothing is proved."""

    AS_EXPECTED = "as-expected"
    NOT_THERE = "not-there"
    NOT_AS_EXPECTED = "not-as-expected"
    CANNOT_TELL = "cannot-tell"


@dataclass(frozen=True)
class IssueProblem:
    """Something wrong with an issue or its repro, as far as this commit shows."""

    issue: str
    repro: str
    at: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.issue}/{self.repro}: {self.message}"


@dataclass(frozen=True)
class Judgement:
    """How the verdicts on one repro compare with what the issue expects."""

    fulfilment: Fulfilment
    problems: tuple[IssueProblem, ...] = ()
    note: str = ""


class Need(StrEnum):
    """Whether a recipe needs a patch. `removable`: no repro notices that it is gone. `not-here`: it does not apply."""

    NEEDED = "needed"
    REMOVABLE = "removable"
    NOT_HERE = "not-here"
    CANNOT_TELL = "cannot-tell"


@dataclass(frozen=True)
class Trial:
    """One repro with the whole series, and with the series but for a patch; `expected` with the whole."""

    whole: Verdict
    without: Verdict
    expected: str

    @property
    def notices(self) -> bool:
        """Return whether the repro answers otherwise without the patch, or the rest does not apply."""
        if self.whole.answer is Answer.SKIP:
            return False
        if self.without.answer is Answer.SKIP:
            return self.without.reason is Reason.CONFLICT
        return self.without.answer is not self.whole.answer

    @property
    def proves(self) -> bool:
        """Return whether the repro shows that the patch is needed: right with it, and it notices."""
        return self.notices and self.whole.answer.value == self.expected

    @property
    def complaint(self) -> str:
        """Return why nothing can be told from the repro, '' when something can."""
        name = f"{self.whole.issue}/{self.whole.repro}"
        if self.whole.answer.value != self.expected:
            return f"{name} is {self.whole.answer} with the whole series ({self.whole.reason})"
        return f"{name} cannot be told without it ({self.without.reason})" if self.without.answer is Answer.SKIP else ""


@dataclass(frozen=True)
class Removal:
    """What became of the repros without a patch; `also` are the patches that went with it, since they require it."""

    patch: str
    also: tuple[str, ...]
    need: Need
    detail: str
    trials: tuple[Trial, ...]


def judge_removal(patch: str, also: tuple[str, ...], trials: tuple[Trial, ...], not_here: str) -> Removal:
    """Decide whether a patch is needed.

    Without a trial its removal changes no tree: `not_here` says why that is as it should be, '' when it is not.
    """
    noticed = [trial for trial in trials if trial.proves]
    complaints = list(dict.fromkeys(trial.complaint for trial in trials if trial.complaint))
    if noticed:
        names = dict.fromkeys(f"{one.whole.issue}/{one.whole.repro} is {_without(one)}" for one in noticed)
        return Removal(patch, also, Need.NEEDED, "; ".join(names), trials)
    if not trials and not_here:
        return Removal(patch, also, Need.NOT_HERE, not_here, trials)
    if complaints:
        return Removal(patch, also, Need.CANNOT_TELL, "; ".join(complaints), trials)
    detail = "no repro notices that it is gone" if trials else "it changes no file here"
    return Removal(patch, also, Need.REMOVABLE, detail, trials)


def _without(trial: Trial) -> str:
    if trial.without.answer is Answer.SKIP:
        return "out of reach, since the rest does not apply"
    return f"{trial.without.answer} without it"


def judge_pair(expects: Expects, without: Verdict, with_: Verdict, affected: bool | None = None) -> Judgement:
    """Compare a repro's verdicts without and with the series with what the issue expects.

    `affected` is what `affects:` says about the commit (None when nobody knows): where it says no, good is expected.
    """
    problems = _proves_nothing([without, with_])
    if problems:
        return Judgement(Fulfilment.NOT_AS_EXPECTED, problems)
    if Answer.SKIP in (without.answer, with_.answer):
        return Judgement(Fulfilment.CANNOT_TELL)
    if without.answer is Answer.GOOD and expects.without == "bad":
        return _good_without(without, with_, affected)
    if without.answer.value == expects.without and with_.answer.value == expects.with_:
        return Judgement(Fulfilment.AS_EXPECTED)
    return Judgement(Fulfilment.NOT_AS_EXPECTED, note=_disappointment(expects, without, with_))


def judge_single(verdict: Verdict) -> Judgement:
    """Return whether one verdict stands; nothing is expected of it but that it touched the tree."""
    problems = _proves_nothing([verdict])
    return Judgement(Fulfilment.CANNOT_TELL if problems else Fulfilment.AS_EXPECTED, problems)


def _proves_nothing(verdicts: Sequence[Verdict]) -> tuple[IssueProblem, ...]:
    blank = [verdict for verdict in verdicts if verdict.reason is Reason.NOTHING_LOADED]
    if not blank:
        return ()
    series = " and ".join(verdict.series for verdict in blank)
    message = f"{blank[0].detail} at {blank[0].at} ({series} the series)"
    return (_problem(blank[0], message, READ_THE_TREE),)


def _good_without(without: Verdict, with_: Verdict, affected: bool | None) -> Judgement:
    """Tell a commit that does not have the issue from a repro that does not show it."""
    if with_.answer is Answer.BAD:
        return Judgement(Fulfilment.NOT_AS_EXPECTED, note=f"good without the series, bad with it at {without.at}")
    if without.reason is Reason.ABSENT:
        return Judgement(Fulfilment.NOT_THERE, note=f"the issue is not there at {without.at}: {without.detail}")
    if affected is False:
        return Judgement(Fulfilment.NOT_THERE, note=f"the issue does not affect {without.at}, and the repro agrees")
    message = f"good without the series: it proves nothing at {without.at}"
    hint = "is the issue fixed upstream there? then say so in `affects`; else the repro does not show it"
    return Judgement(Fulfilment.NOT_AS_EXPECTED, (_problem(without, message, hint),))


def _disappointment(expects: Expects, without: Verdict, with_: Verdict) -> str:
    if with_.answer.value != expects.with_:
        still = "still " if without.answer is with_.answer else ""
        return f"{still}{with_.answer} with the series at {with_.at}, {expects.with_} is expected"
    return f"{without.answer} without the series at {without.at}, {expects.without} is expected"


def _problem(verdict: Verdict, message: str, hint: str) -> IssueProblem:
    return IssueProblem(verdict.issue, verdict.repro, verdict.at, message, hint)
