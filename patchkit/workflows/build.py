"""Build a recipe's image: patch, run the repros before and after, put the result on the base."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from patchkit.errors import RequestError
from patchkit.image.build import build_image, check_plan
from patchkit.image.image import EngineChoice, Image, ImagePlan
from patchkit.pipeline import (
    OpenedRecipe,
    Question,
    is_affected,
    judge,
    open_recipe,
    patch_tree,
    resolve_commit,
    series_of,
    source_of,
)
from patchkit.recipe.library import LoadedIssue
from patchkit.recipe.lock import Lock, dump_lock
from patchkit.recipe.model import Repro
from patchkit.source.commit import Commit, Tree
from patchkit.source.source import Preference
from patchkit.stack.outcome import PatchedTree, SeriesResult
from patchkit.tools.toolkit import Toolkit
from patchkit.verdict.expectation import Fulfilment, IssueProblem, Judgement, judge_pair
from patchkit.verdict.verdict import Verdict

YES, NO, CANNOT_TELL = 0, 1, 125


@dataclass(frozen=True)
class BuildRequest:
    """What to build. No `tags`: the recipe's. `output` is the archive of the engine oci, named by default."""

    recipe: Path
    engine: EngineChoice = "auto"
    tags: tuple[str, ...] = ()
    output: Path | None = None
    at: str | None = None
    source: Preference = "auto"
    verify: bool = True
    locked: bool = False
    fresh: bool = False


@dataclass(frozen=True)
class Check:
    """One repro before and after, and what that says."""

    before: Verdict
    after: Verdict
    judgement: Judgement


@dataclass(frozen=True)
class BuildReport:
    """What was made. `image` is None when a patch does not stand or a repro is not as expected."""

    base: Tree
    result: SeriesResult
    checks: tuple[Check, ...]
    image: Image | None
    exit_code: int
    beside: tuple[tuple[Tree, SeriesResult], ...] = ()  # the other upstreams that the series patches

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Return all verdicts, in the order of the runs."""
        return tuple(verdict for check in self.checks for verdict in (check.before, check.after))

    @property
    def problems(self) -> tuple[IssueProblem, ...]:
        """Return what is wrong with the issues themselves."""
        return tuple(problem for check in self.checks for problem in check.judgement.problems)


def build_recipe(toolkit: Toolkit, request: BuildRequest) -> BuildReport:
    """Build the image with the files of every upstream that the series patches.

    Nothing is written unless patches and repros are as expected.

    Raises what opening the recipe and `build_image` raise.
    """
    opened = open_recipe(toolkit, request.recipe, request.source, request.locked)
    commit = resolve_commit(opened, request.at)
    base = source_of(opened, commit.upstream).tree(commit)
    result = patch_tree(opened, commit)
    beside = tuple(_patch_others(opened, commit.upstream))
    others = tuple(other.patched for _, other in beside if other.patched is not None)
    if result.patched is None or len(others) < len(beside):
        return BuildReport(base, result, (), None, NO, beside)
    plan = _plan(opened, request, result.patched)
    plan = replace(plan, beside=tuple(_part(opened, plan, patched) for patched in others))
    engine: EngineChoice = "oci" if request.output and request.engine == "auto" else request.engine
    output = request.output or default_archive(plan)
    check_plan(toolkit, plan, engine, output)  # what cannot be built is told before the repros run, not after
    checks = tuple(_check(opened, commit, pair, request) for pair in opened.loaded.selected) if request.verify else ()
    code = _exit_code([check.judgement.fulfilment for check in checks])
    if code != YES:
        return BuildReport(base, result, checks, None, code, beside)
    image = build_image(toolkit, plan, engine, output)
    return BuildReport(base, result, checks, image, YES, beside)


def _patch_others(opened: OpenedRecipe, main: str) -> Iterator[tuple[Tree, SeriesResult]]:
    """Yield what the series makes of the other upstreams that it patches, at the recipe's own commits of them."""
    for name in opened.sources:
        if name != main and series_of(opened, name):
            commit = resolve_commit(opened, upstream=name)
            yield source_of(opened, name).tree(commit), patch_tree(opened, commit)


def _part(opened: OpenedRecipe, plan: ImagePlan, patched: PatchedTree) -> ImagePlan:
    """Return the plan of an upstream whose files go beside those of the main one."""
    commit = patched.base.commit
    roots = plan.spec.roots
    return replace(
        plan,
        spec=plan.spec.model_copy(update={"root": roots.get(commit.upstream)}),
        version=commit.version or commit.id[:12],
        patched=patched,
        origins={commit.upstream: source_of(opened, commit.upstream).origin(commit)},
        is_installed=opened.loaded.recipe.upstream[commit.upstream].is_installed,
    )


def default_archive(plan: ImagePlan) -> Path:
    """Return the archive's path in the current folder: NAME-VERSION.oci.tar."""
    return Path.cwd() / re.sub(r"[^A-Za-z0-9_.+-]", "-", f"{plan.name}-{plan.version}.oci.tar")


def _plan(opened: OpenedRecipe, request: BuildRequest, patched: PatchedTree) -> ImagePlan:
    recipe = opened.loaded.recipe
    lock = _lock_of(opened, patched)
    locked_base = lock.image if lock and lock.image and lock.image.base == recipe.image.base else None
    commit = patched.base.commit
    return ImagePlan(
        spec=recipe.image.model_copy(update={"tags": request.tags}) if request.tags else recipe.image,
        name=recipe.name,
        version=commit.version or commit.id[:12],
        patched=patched,
        origins={commit.upstream: source_of(opened, commit.upstream).origin(commit)},
        lock_text=dump_lock(lock) if lock else b"",
        target=recipe.target,
        recipe_folder=opened.loaded.path.parent,
        base_digest=(locked_base.digest or "") if locked_base else "",
        is_installed=recipe.upstream[commit.upstream].is_installed,
    )


def _lock_of(opened: OpenedRecipe, patched: PatchedTree) -> Lock | None:
    """Return the lock if it is about this very commit. Raises `RequestError` when the series gave another tree."""
    commit = patched.base.commit
    locked = opened.lock.upstream.get(commit.upstream) if opened.lock else None
    if opened.lock is None or locked is None or locked.commit != commit.id:
        return None
    if opened.lock.tree != patched.id:
        raise RequestError(
            f"the series gives the tree {patched.id[:12]}, the lock says {opened.lock.tree[:12]}",
            f"another version of a tool? To take the new tree: patchkit lock {opened.loaded.path}",
        )
    return opened.lock


def _check(opened: OpenedRecipe, commit: Commit, pair: tuple[LoadedIssue, Repro], request: BuildRequest) -> Check:
    """Run one repro without and with the series."""
    issue, repro = pair
    if issue.issue.upstream != commit.upstream:
        commit = resolve_commit(opened, None, issue.issue.upstream)
    before = judge(opened, Question(commit, issue, repro, "without", request.fresh))
    after = judge(opened, Question(commit, issue, repro, "with", request.fresh))
    judgement = judge_pair(issue.issue.expects, before, after, is_affected(opened, issue, commit))
    return Check(before, after, judgement)


def _exit_code(fulfilments: Sequence[Fulfilment]) -> int:
    if Fulfilment.NOT_AS_EXPECTED in fulfilments:
        return NO
    return CANNOT_TELL if Fulfilment.CANNOT_TELL in fulfilments else YES
