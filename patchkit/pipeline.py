"""The one page where the stages meet: recipe → commit → tree → patched tree → environment → verdict.

`build`, `repro`, `bisect` and `watch` are four callers of these functions; they cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from patchkit.errors import BuildFailed, InfrastructureFailure, PatchConflict, RequestError, StageFailure
from patchkit.recipe.condition import Or, parse_condition
from patchkit.recipe.library import LoadedIssue, LoadedRecipe
from patchkit.recipe.load import load_recipe
from patchkit.recipe.lock import Lock, matching_lock
from patchkit.recipe.model import Repro
from patchkit.source.commit import Commit
from patchkit.source.open import open_source
from patchkit.source.pins import PairedUpstreams, Prefer
from patchkit.source.source import FactSettings, Preference, Source
from patchkit.stack.apply import apply_series
from patchkit.stack.outcome import PatchedTree, SeriesResult
from patchkit.stack.series import StackPatch, freeze_pulls, leave_out, load_series
from patchkit.tools.cache import digest_of
from patchkit.tools.toolkit import Toolkit
from patchkit.verdict.verdict import Answer, Reason, Series, Verdict, recall, to_record

if TYPE_CHECKING:  # imported where a tree is judged: who only patches does not wait for these rooms
    from patchkit.environment.installed.overlay import Overlay
    from patchkit.environment.native import NativeRequest
    from patchkit.environment.open import EnvironmentRequest

REASONS = (
    (BuildFailed, Reason.BUILD_FAILED),
    (InfrastructureFailure, Reason.INFRASTRUCTURE),
)  # of other skips: conflict


@dataclass(frozen=True)
class OpenedRecipe:
    """A recipe with its upstreams at hand. `lock` is None when there is none or it does not match the recipe.

    `prefer`: which counts when a commit names two commits of the upstream that it is paired with.
    """

    toolkit: Toolkit
    loaded: LoadedRecipe
    sources: Mapping[str, Source]
    lock: Lock | None
    prefer: Prefer = "newest"

    @property
    def settings(self) -> FactSettings:
        """Return what conditions may ask besides the commit."""
        target = self.loaded.recipe.target
        return FactSettings(arch=target.arch, python=target.python, torch=target.torch, pins=self.loaded.recipe.pins)

    @cached_property
    def paired(self) -> PairedUpstreams:
        """Return how to find what a commit of one upstream is paired with."""
        return PairedUpstreams(self.toolkit, self.loaded.recipe.upstream, self.sources, self.prefer)


@dataclass(frozen=True)
class Question:
    """One repro at one commit, on a tree with or without the series. `fresh`: run even if the answer is known.

    A repro with `pair` runs beside the commit `pair` of the other upstream; None: the one that the patched files name.
    `only` names the patches that are applied, None all that `series` says; `requirements` replace the repro's own.
    """

    commit: Commit
    issue: LoadedIssue
    repro: Repro
    series: Series
    fresh: bool = False
    pair: Commit | None = None
    only: frozenset[str] | None = None
    requirements: Path | None = None


def open_recipe(
    toolkit: Toolkit, path: Path, preference: Preference = "auto", locked: bool = False, use_lock: bool = True
) -> OpenedRecipe:
    """Load a recipe and open its upstreams; a stale lock is told and not used, with `use_lock` false none is.

    Raises `InvalidFile`, `RemoteUnavailable`; with `locked` also `RequestError` when no lock matches.
    """
    loaded = load_recipe(path)
    sources = {
        name: open_source(toolkit, name, upstream, preference) for name, upstream in loaded.recipe.upstream.items()
    }
    lock = matching_lock(toolkit, loaded, locked) if use_lock else None
    return OpenedRecipe(toolkit, loaded, sources, lock)


def source_of(opened: OpenedRecipe, upstream: str) -> Source:
    """Return the source of an upstream. Raises `RequestError` when the recipe has none of that name."""
    if upstream not in opened.sources:
        names = ", ".join(opened.sources)
        raise RequestError(f"{opened.loaded.path}: no upstream named {upstream}", f"the recipe has: {names}")
    return opened.sources[upstream]


def resolve_commit(opened: OpenedRecipe, ref: str | None = None, upstream: str | None = None) -> Commit:
    """Return a commit: of `ref` where given, else the lock's, else the recipe's own.

    Raises `RequestError` for an unknown ref, and when upstream now has something else than the lock says.
    """
    name = upstream or opened.loaded.recipe.main_upstream
    source = source_of(opened, name)
    if ref is not None:
        return source.resolve(ref)
    pinned = opened.lock.upstream.get(name) if opened.lock else None
    if pinned is None or pinned.kind != source.kind:
        return source.resolve(opened.loaded.recipe.upstream[name].ref)
    commit = source.resolve(pinned.commit if source.kind == "git" else pinned.ref)
    if commit.id != pinned.commit:
        raise RequestError(
            f"{name} {pinned.ref} is {commit.id[:12]}, the lock says {pinned.commit[:12]}",
            f"upstream replaced it; to take the new one: patchkit lock {opened.loaded.path}",
        )
    return commit if source.kind == "package" else replace(commit, ref=pinned.ref)


def series_of(opened: OpenedRecipe, upstream: str) -> tuple[StackPatch, ...]:
    """Return the series of one upstream, with pull requests held at the commits that the lock names."""
    pulls = opened.lock.pulls if opened.lock else ()
    heads = {pull.pull: pull.commit for pull in pulls if pull.upstream == upstream}
    return freeze_pulls(load_series(opened.loaded, upstream), heads)


def patch_tree(
    opened: OpenedRecipe,
    commit: Commit,
    series: Series = "with",
    issue: str = "",
    only: frozenset[str] | None = None,
) -> SeriesResult:
    """Apply the series, or `only` some of it, to a commit's tree; `others` leaves out those that name `issue`."""
    source = opened.paired.holder(commit)
    base = source.tree(commit)
    if series == "without":
        return SeriesResult((), PatchedTree(base.id, base, ()))
    patches = series_of(opened, commit.upstream)
    if series == "others":
        patches = leave_out(patches, issue)
    if only is not None:
        patches = tuple(patch for patch in patches if patch.name in only)
    return apply_series(source, base, patches, source.facts(commit, opened.settings))


def judge(opened: OpenedRecipe, question: Question) -> Verdict:
    """Return the verdict on one repro at one commit.

    What fails at this commit only (conflict, environment, machine) is a skip verdict; `RequestError` passes through.
    Verdicts good and bad are kept in the store by what went into them, so equal trees share one.
    """
    trees: list[PatchedTree] = []
    waiting = [question.commit]
    try:
        while waiting:
            trees.append(_patch(opened, question, waiting.pop()))
            if question.repro.pair and len(trees) == 1:
                question = replace(question, pair=question.pair or opened.paired.find(question.commit, trees[0].id))
                if question.pair is None:
                    told = "its files name no commit of the other upstream that is there"
                    return skip_verdict(question, "", Reason.NO_PAIR, told)
                waiting.append(question.pair)
        return _judge_trees(opened, question, *trees)
    except StageFailure as error:
        reason = next((reason for kind, reason in REASONS if isinstance(error, kind)), Reason.CONFLICT)
        return skip_verdict(question, "" if isinstance(error, PatchConflict) else trees[0].id, reason, error.message)


def _patch(opened: OpenedRecipe, question: Question, commit: Commit) -> PatchedTree:
    """Return the tree of a commit with the series of a question. Raises `PatchConflict`."""
    result = patch_tree(opened, commit, question.series, question.issue.slug, question.only)
    if result.patched is None:
        failed = (record for record in result.records if not record.outcome.stands)
        raise PatchConflict("; ".join(f"{record.patch}: {record.outcome}: {record.detail}" for record in failed))
    return result.patched


def is_affected(opened: OpenedRecipe, issue: LoadedIssue, commit: Commit) -> bool | None:
    """Return what `affects:` says of a commit: yes if one line holds, no if none does, None when it cannot be told."""
    facts = source_of(opened, commit.upstream).facts(commit, opened.settings)
    lines = tuple(parse_condition(line) for line in issue.issue.affects)
    return Or(lines).judge(facts).value if lines else None


def environment_request(opened: OpenedRecipe, repro: Repro) -> EnvironmentRequest:
    """Return where a repro runs: the recipe's interpreter or requirements where it names some, else the repro's own."""
    from patchkit.environment.open import EnvironmentRequest

    spec = opened.loaded.recipe.environment
    requirements: Path | None = None
    if repro.environment is not None and spec.python is None:
        requirements = opened.loaded.own_requirements or opened.loaded.requirements(repro.environment)
    return EnvironmentRequest(requirements, spec.python, spec.env, spec.model_caches, spec.network)


def _judge_trees(
    opened: OpenedRecipe, question: Question, patched: PatchedTree, pair: PatchedTree | None = None
) -> Verdict:
    from patchkit.environment.open import PairTree, environment_id, open_environment
    from patchkit.verdict.grade import grade
    from patchkit.verdict.probe import ReproRun, run_repro

    toolkit, issue, repro = opened.toolkit, question.issue, question.repro
    native = native_request(opened, question.commit, patched)
    request = replace(environment_request(opened, repro), overlays=_overlays(opened, question), native=native)
    if question.requirements is not None:
        request = replace(request, requirements=question.requirements)
    key = _test_key(opened, question, [patched, pair] if pair else [patched], environment_id(toolkit, request))
    keeps = not (repro.flaky or repro.metric)  # one run that may err is no verdict on the tree
    if keeps and not question.fresh and (kept := toolkit.cache.read_record("verdicts", key)):
        return recall(skip_verdict(question, patched.id, Reason.UNDECIDED, ""), kept)
    words = {"others": "with the other patches of"}.get(question.series, question.series)
    toolkit.progress.step(f"run {issue.slug}/{repro.name} {words} the series at {question.commit.name}")
    run = ReproRun(issue, repro, question.commit, opened.settings, question.pair)
    beside = PairTree(pair.id, pair.base.repository) if pair else None
    with open_environment(toolkit, request, patched.id, patched.base.repository, beside) as environment:
        evidence = run_repro(toolkit, environment, run)
    mark = grade(evidence, issue.issue, repro)
    verdict = replace(
        skip_verdict(question, patched.id, mark.reason, mark.detail),
        answer=mark.answer,
        duration_seconds=evidence.duration_seconds,
        evidence=str(evidence.folder),
        value=evidence.value,
        build=environment.build,
        build_seconds=environment.build_seconds,
    )
    if keeps and verdict.answer is not Answer.SKIP:  # a skip may be the machine's fault
        toolkit.cache.write_record("verdicts", key, to_record(verdict))
    return verdict


def native_request(opened: OpenedRecipe, commit: Commit, patched: PatchedTree) -> NativeRequest | None:
    """Return what compiled files the tree of a commit needs; None when the recipe says nothing of them."""
    from patchkit.environment.native import NativeRequest

    spec = opened.loaded.recipe.environment.native
    if spec is None or commit.upstream != opened.loaded.recipe.main_upstream:
        return None
    source = source_of(opened, commit.upstream)
    built = source.tree(source.resolve(spec.installed)).id if spec.installed else None
    base = source.tree(commit)
    return NativeRequest(spec, commit, opened.settings.arch, base.repository, base.id, patched.id, built)


def _overlays(opened: OpenedRecipe, question: Question) -> tuple[Overlay, ...]:
    """Return what the series makes of upstreams that a repro finds installed. Raises `PatchConflict`."""
    from patchkit.environment.installed.overlay import Overlay

    found = (
        Overlay(upstream.wheel or name, _patch(opened, question, resolve_commit(opened, upstream=name)))
        for name, upstream in opened.loaded.recipe.upstream.items()
        if upstream.is_installed and question.series != "without"
    )
    return tuple(overlay for overlay in found if overlay.deltas)


def _test_key(opened: OpenedRecipe, question: Question, trees: list[PatchedTree], environment: str) -> str:
    """Name everything that a verdict depends on: trees, environment, repro and what the repro is told."""
    settings = opened.settings
    beside = {"pair": [trees[-1].id, question.pair.version]} if question.pair else {}
    return digest_of(
        {
            **beside,
            "tree": trees[0].id,
            "environment": environment,
            "issue": question.issue.sha256,
            "repro": question.repro.name,
            "version": question.commit.version,
            "told": [settings.arch, settings.python, settings.torch, dict(settings.pins)],
        }
    )


def skip_verdict(question: Question, tree: str, reason: Reason, detail: str) -> Verdict:
    """Return that a question cannot be answered, and why."""
    return Verdict(
        *(question.issue.slug, question.repro.name),
        at=question.commit.name,
        commit=question.commit.id,
        tree=tree,
        series=question.series,
        answer=Answer.SKIP,
        reason=reason,
        detail=detail,
        fidelity=question.repro.fidelity,
        duration_seconds=0.0,
        evidence=None,
        pair=question.pair.id if question.pair else None,
    )
