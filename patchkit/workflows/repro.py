"""Run a recipe's repros at one commit, without and with the series, and compare with what the issues expect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from patchkit.pipeline import (
    OpenedRecipe,
    Question,
    is_affected,
    judge,
    open_recipe,
    resolve_commit,
)
from patchkit.recipe.library import LoadedIssue
from patchkit.source.commit import Commit
from patchkit.source.source import Preference
from patchkit.tools.git.client import HERE, find_head
from patchkit.tools.toolkit import Toolkit
from patchkit.verdict.expectation import Fulfilment, IssueProblem, Judgement, judge_pair, judge_single
from patchkit.verdict.verdict import Answer, Series, Verdict

SeriesChoice = Literal["with", "without", "others", "both"]
YES, NO, CANNOT_TELL = 0, 1, 125


@dataclass(frozen=True)
class ReproRequest:
    """What to run. `issues` are names, `issue/repro` for one repro; none means all that the recipe names."""

    recipe: Path
    source: Preference = "auto"
    issues: tuple[str, ...] = ()
    at: str | None = None
    series: SeriesChoice = "both"
    fresh: bool = False
    locked: bool = False


@dataclass(frozen=True)
class ReproReport:
    """The verdicts, in order. `exit_code` is what the verb exits with, so that `git bisect run` can use it."""

    verdicts: tuple[Verdict, ...]
    problems: tuple[IssueProblem, ...]
    notes: tuple[str, ...]
    exit_code: int


def run_repros(toolkit: Toolkit, request: ReproRequest) -> ReproReport:
    """Run repros one after the other.

    Raises `RequestError` for what is wrong whatever the commit: recipe, names, tools.
    """
    opened = open_recipe(toolkit, request.recipe, request.source, request.locked)
    chosen = opened.loaded.chosen(request.issues)
    at = find_head(toolkit.env) if request.at == HERE else request.at
    main = opened.loaded.recipe.main_upstream
    commits = {
        upstream: resolve_commit(opened, at if upstream == main else None, upstream)
        for upstream in dict.fromkeys(issue.issue.upstream for issue, _ in chosen)
    }
    wanted: tuple[Series, ...] = ("without", "with") if request.series == "both" else (request.series,)
    verdicts: list[Verdict] = []
    judgements: list[tuple[str, Judgement]] = []
    for issue, repro in chosen:
        commit = commits[issue.issue.upstream]
        beside = _recipe_pair(opened, commit.upstream) if repro.pair and at is None else None
        questions = [Question(commit, issue, repro, series, request.fresh, beside) for series in wanted]
        pair = [judge(opened, question) for question in questions]
        verdicts += pair
        judgements.append((f"{issue.slug}/{repro.name}", _judge(opened, issue, commit, pair)))
    fulfilments = [judgement.fulfilment for _, judgement in judgements]
    return ReproReport(
        verdicts=tuple(verdicts),
        problems=tuple(problem for _, judgement in judgements for problem in judgement.problems),
        notes=tuple(f"{name}: {judgement.note}" for name, judgement in judgements if judgement.note),
        exit_code=exit_of_pairs(fulfilments) if request.series == "both" else exit_of_answers(verdicts),
    )


def exit_of_pairs(fulfilments: Sequence[Fulfilment]) -> int:
    """Return 0 when every issue answers as expected, 1 when one really does not, 125 when one cannot be told."""
    if Fulfilment.NOT_AS_EXPECTED in fulfilments:
        return NO
    return CANNOT_TELL if Fulfilment.CANNOT_TELL in fulfilments else YES


def exit_of_answers(verdicts: Sequence[Verdict]) -> int:
    """Return what `git bisect run` reads: 1 when one is bad, else 125 when one cannot be told, else 0."""
    answers = {verdict.answer for verdict in verdicts}
    if Answer.BAD in answers:
        return NO
    return CANNOT_TELL if Answer.SKIP in answers else YES


def _judge(opened: OpenedRecipe, issue: LoadedIssue, commit: Commit, verdicts: Sequence[Verdict]) -> Judgement:
    if len(verdicts) == 1:
        return judge_single(verdicts[0])
    return judge_pair(issue.issue.expects, verdicts[0], verdicts[1], is_affected(opened, issue, commit))


def _recipe_pair(opened: OpenedRecipe, upstream: str) -> Commit | None:
    """Return what the recipe itself names for the upstream that another is paired with; None without `pairs-with`."""
    other = opened.loaded.recipe.upstream[upstream].pairs_with
    return resolve_commit(opened, upstream=other) if other else None
