"""Remove each patch of a recipe in turn and see whether any repro notices: `repro --leave-one-out`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from patchkit.errors import RemoteUnavailable, RequestError
from patchkit.pipeline import (
    OpenedRecipe,
    Question,
    judge,
    open_recipe,
    patch_tree,
    resolve_commit,
    series_of,
)
from patchkit.recipe.library import LoadedIssue
from patchkit.recipe.model import Repro
from patchkit.report.necessity import NecessityReport
from patchkit.source.commit import Commit
from patchkit.source.source import Preference
from patchkit.stack.outcome import Outcome
from patchkit.tools.git.client import HERE, find_head
from patchkit.tools.toolkit import Toolkit
from patchkit.verdict.expectation import Removal, Trial, judge_removal
from patchkit.verdict.verdict import Verdict

Trees = tuple[str | None, ...]  # of all upstreams, in the order of the recipe; None where the series does not apply


@dataclass(frozen=True)
class NecessityRequest:
    """What to look at: the repros of these issues (all when none is named), at the recipe's commit or another."""

    recipe: Path
    source: Preference = "auto"
    issues: tuple[str, ...] = ()
    at: str | None = None  # `.`: what is checked out in the current folder
    fresh: bool = False
    locked: bool = False


@dataclass(frozen=True)
class _Bench:
    """A recipe at one commit of each of its upstreams. Equal trees are judged once: `known` is by repro and trees."""

    opened: OpenedRecipe
    repros: tuple[tuple[LoadedIssue, Repro], ...]
    commits: Mapping[str, Commit]
    fresh: bool
    known: dict[tuple[str, str, Trees], Verdict] = field(default_factory=dict)
    made: dict[frozenset[str], Trees] = field(default_factory=dict)

    def patches(self) -> tuple[str, ...]:
        """Return the names of all patches, upstream by upstream."""
        return tuple(patch.name for upstream in self.commits for patch in series_of(self.opened, upstream))

    def trees(self, only: frozenset[str]) -> Trees:
        """Return the trees with some of the patches."""
        if only not in self.made:
            results = [patch_tree(self.opened, commit, only=only) for commit in self.commits.values()]
            self.made[only] = tuple(result.patched.id if result.patched else None for result in results)
        return self.made[only]

    def outcome(self, patch: str) -> tuple[Outcome, str]:
        """Return what becomes of a patch in the whole series."""
        results = (patch_tree(self.opened, commit) for commit in self.commits.values())
        return next((one.outcome, one.detail) for result in results for one in result.records if one.patch == patch)

    def likeliest(self, patches: frozenset[str]) -> tuple[tuple[LoadedIssue, Repro], ...]:
        """Return the repros, those of the patches' own issues first: one that notices is enough."""
        loaded = self.opened.loaded.patches
        own = {slug for name in patches if name in loaded for slug in loaded[name].patch.issue}
        return tuple(sorted(self.repros, key=lambda pair: pair[0].slug not in own))

    def judge(self, issue: LoadedIssue, repro: Repro, only: frozenset[str]) -> Verdict:
        """Return a repro's verdict with some of the patches."""
        key = (issue.slug, repro.name, self.trees(only))
        if key not in self.known:
            commit = self.commits[issue.issue.upstream]
            other = self.opened.loaded.recipe.upstream[commit.upstream].pairs_with
            beside = self.commits[other] if repro.pair and other else None
            self.known[key] = judge(
                self.opened, Question(commit, issue, repro, "with", self.fresh, pair=beside, only=only)
            )
        return self.known[key]


def find_necessity(toolkit: Toolkit, request: NecessityRequest) -> NecessityReport:
    """Judge repros with the whole series and without each patch, until one notices; who requires it goes with it.

    A recipe with a pair is looked at beside each commit that the other upstream's files name. Raises `RequestError` for
    what is wrong whatever the commit, and for a series that does not apply.
    """
    opened = open_recipe(toolkit, request.recipe, request.source, request.locked)
    repros = opened.loaded.chosen(request.issues)
    at = find_head(toolkit.env) if request.at == HERE else request.at
    benches = [_Bench(opened, repros, commits, request.fresh) for commits in _commits(opened, at)]
    names = benches[0].patches()
    if not names:
        raise RequestError(f"{opened.loaded.path}: the series is empty", "there is nothing to leave out")
    for bench in benches:
        if None in bench.trees(frozenset(names)):
            where = ", ".join(commit.name for commit in bench.commits.values())
            raise RequestError(
                f"the series does not apply at {where}", f"see: patchkit apply {request.recipe} --dry-run"
            )
    removals = tuple(_remove(benches, patch, names) for patch in names)
    places = tuple(tuple(f"{commit.upstream} {commit.name}" for commit in bench.commits.values()) for bench in benches)
    return NecessityReport(opened.loaded.recipe.name, places, removals)


def _commits(opened: OpenedRecipe, at: str | None) -> list[dict[str, Commit]]:
    """Return the commits to look at: the recipe's own, and the others that a paired upstream's files name."""
    recipe = opened.loaded.recipe
    own = {name: resolve_commit(opened, at if name == recipe.main_upstream else None, name) for name in recipe.upstream}
    found = [own]
    for name, upstream in recipe.upstream.items():
        other = upstream.pairs_with
        if other is None or (at is not None and other == recipe.main_upstream):
            continue
        for commit in _named(opened, own[name]):
            if commit.id not in {one[other].id for one in found}:
                found.append({**own, other: commit})
    return found


def _named(opened: OpenedRecipe, commit: Commit) -> Iterator[Commit]:
    """Yield the commits of the other upstream that a commit names: a release, and where it has one, a newer one."""
    for prefer in ("newest", "release"):
        try:
            named = replace(opened, prefer=prefer).paired.find(commit)
        except RemoteUnavailable as error:
            opened.toolkit.progress.warn(f"what {commit.name} is paired with: {error.message}", error.hint)
            continue
        if named is not None:
            yield named


def _remove(benches: list[_Bench], patch: str, names: tuple[str, ...]) -> Removal:
    """Judge all repros without a patch, and without those that need it."""
    gone = _needing(benches[0].opened, patch)
    also = tuple(name for name in names if name in gone and name != patch)
    whole, rest = frozenset(names), frozenset(names) - gone
    trials = []
    for bench in benches:
        if bench.trees(whole) == bench.trees(rest):
            continue  # the patch changes nothing there
        for issue, repro in bench.likeliest(gone):
            expected = issue.issue.expects.with_
            trials.append(Trial(bench.judge(issue, repro, whole), bench.judge(issue, repro, rest), expected))
            if trials[-1].proves:
                break
    outcome, detail = benches[0].outcome(patch)
    here = outcome is not Outcome.NOT_APPLICABLE
    return judge_removal(patch, also, tuple(trials), "" if here else detail or outcome.value)


def _needing(opened: OpenedRecipe, patch: str) -> frozenset[str]:
    """Return a patch and all that require it, or require one that does."""
    requires = {name: set(loaded.patch.requires) for name, loaded in opened.loaded.patches.items()}
    gone = {patch}
    while more := {name for name, needed in requires.items() if needed & gone} - gone:
        gone |= more
    return frozenset(gone)
