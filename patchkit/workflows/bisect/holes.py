"""Commits that cannot be tested as they are: a later commit that repairs them is carried back onto them.

A hole of broken commits leaves a set of suspects. What ended the hole is a commit, too: with it put onto the broken
ones, before the series, they can be told apart. Only a skip is judged so, and only where the repair is not in history
yet: what can be tested is tested as it is. What a repair changes in a file that a commit does not have has nothing to
mend there and is left out.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from patchkit.environment.native import Native, NativeRequest
from patchkit.environment.open import prepare_native
from patchkit.errors import BuildFailed, PatchConflict
from patchkit.pipeline import Question, environment_request, judge, native_request, patch_tree, skip_verdict, source_of
from patchkit.recipe.model import ChangeCherryPick
from patchkit.source.commit import Commit
from patchkit.tools.cache import digest_of
from patchkit.verdict.verdict import Answer, Reason, Verdict
from patchkit.workflows.bisect.overlay import with_changes

if TYPE_CHECKING:
    from patchkit.workflows.bisect.subject import CommitSubject

FixUp = tuple[str, ...]  # commits that are carried together, in this order
LASTING = {Reason.CONFLICT, Reason.BUILD_FAILED, Reason.NO_PAIR}  # the next run cannot answer otherwise
TRANSIENT = {Reason.INFRASTRUCTURE, Reason.FLAKY}  # no repair mends these: the same commit may answer the next time


def judge_mended(subject: CommitSubject, commit: Commit, fresh: bool) -> Verdict:
    """Return the verdict at a commit; where that is a skip, with the first fix-up that makes it good or bad."""
    plain = _judge_plain(subject, commit, fresh)
    if plain.answer is not Answer.SKIP or plain.reason in TRANSIENT:
        return plain
    told, seconds, build_seconds = [plain.detail], plain.duration_seconds, plain.build_seconds
    reason = plain.reason
    for fix_up in _missing(subject, commit):
        found = judge_with(subject, commit, fix_up, fresh)
        seconds, build_seconds = seconds + found.duration_seconds, build_seconds + found.build_seconds
        if found.answer is not Answer.SKIP:
            subject.holes.setdefault(commit.id, plain)
        if found.answer is not Answer.SKIP or found.reason is Reason.INFRASTRUCTURE:
            return replace(found, duration_seconds=seconds, build_seconds=build_seconds)
        told.append(f"with {name_fix_up(fix_up)}: {found.reason}: {found.detail}")
        if reason is Reason.BUILD_FAILED:  # commits that share the build fail as well, unless they take a fix-up
            reason = found.reason
    detail = "; ".join(told)
    return replace(plain, reason=reason, detail=detail, duration_seconds=seconds, build_seconds=build_seconds)


def judge_with(
    subject: CommitSubject, commit: Commit, fix_up: FixUp, fresh: bool, pair: Commit | None = None
) -> Verdict:
    """Return the verdict at a commit with a fix-up carried onto it; beside `pair` where one is given."""
    overlaid = carry_onto(subject, commit, fix_up)
    question = Question(commit, subject.issue, subject.repro, overlaid.series, fresh, pair)
    return replace(judge(overlaid.opened, question), series=subject.series, fix_up=fix_up)


def lacks(subject: CommitSubject, commit: Commit, fix_up: FixUp) -> FixUp:
    """Return those commits of a fix-up that are not in a commit's history."""
    repository = subject.source.repository
    return tuple(one for one in fix_up if not repository.is_ancestor(one, commit.id))


def name_fix_up(fix_up: FixUp) -> str:
    """Return a fix-up as messages show it."""
    return "+".join(one[:12] for one in fix_up)


def prepare_mended(subject: CommitSubject, commit: Commit) -> Native | None:
    """Make the compiled files that the probe of a commit will need, with the first fix-up where it takes one.

    Raises `BuildFailed` when it cannot be built with any, and what else `prepare_native` does.
    """
    try:
        return _prepare(subject, commit)
    except BuildFailed as error:
        _note_hole(subject, commit, skip_verdict(_question(subject, commit), "", Reason.BUILD_FAILED, error.message))
        conflicts = []
        for fix_up in _missing(subject, commit):
            try:
                if (native := _prepare(carry_onto(subject, commit, fix_up), commit)) is not None:
                    return native
                conflicts.append(fix_up)
            except BuildFailed:
                continue
        if conflicts:  # those that share the build may take them
            names = ", ".join(name_fix_up(fix_up) for fix_up in conflicts)
            raise PatchConflict(f"{error.message}; what does not apply: {names}") from error
        raise


def _judge_plain(subject: CommitSubject, commit: Commit, fresh: bool) -> Verdict:
    """Return the verdict at a commit as it is; where there are fix-ups a skip is not asked for twice.

    Where runs may err, only if the next would be one, too.
    """
    question = replace(_question(subject, commit), fresh=fresh)
    if not subject.fix_ups:
        return judge(subject.opened, question)
    known = next((subject.holes[key] for key in _hole_keys(subject, commit) if key in subject.holes), None)
    if known is not None:
        return skip_verdict(question, known.tree if known.commit == commit.id else "", known.reason, known.detail)
    verdict = judge(subject.opened, question)
    holds = not (subject.flaky or subject.measures)
    if verdict.answer is Answer.SKIP and (verdict.reason in LASTING or (holds and verdict.reason not in TRANSIENT)):
        _note_hole(subject, commit, verdict)
    return verdict


def _question(subject: CommitSubject, commit: Commit) -> Question:
    return Question(commit, subject.issue, subject.repro, subject.series)


def _note_hole(subject: CommitSubject, commit: Commit, verdict: Verdict) -> None:
    own, *shared = _hole_keys(subject, commit)
    for key in (own, *shared) if verdict.reason is Reason.BUILD_FAILED else (own,):
        subject.holes[key] = verdict


def _hole_keys(subject: CommitSubject, commit: Commit) -> tuple[str, ...]:
    """Return under which names a skip is remembered: the commit, and what its build is made from."""
    if subject.opened.loaded.recipe.environment.native is None:
        return (commit.id,)
    native = _native_of(subject, commit)
    return (commit.id,) if native is None else (commit.id, digest_of(native.inputs(native.tree)))


def _missing(subject: CommitSubject, commit: Commit) -> Iterator[FixUp]:
    """Yield what can be carried onto a commit and changes it: each fix-up alone, then all of them together."""
    every = tuple(dict.fromkeys(one for fix_up in subject.fix_ups for one in fix_up))
    wanted = dict.fromkeys(lacks(subject, commit, fix_up) for fix_up in (*subject.fix_ups, every))
    for fix_up in filter(None, wanted):
        before, after = (
            patch_tree(one.opened, commit, one.series, subject.issue.slug).patched
            for one in (subject, carry_onto(subject, commit, fix_up))
        )
        if after is None or before is None or after.id != before.id:
            yield fix_up


def carry_onto(subject: CommitSubject, commit: Commit, fix_up: FixUp) -> CommitSubject:
    """Return the search with a fix-up before the series, as far as it is about what a commit has."""
    source = source_of(subject.opened, commit.upstream)
    repository, tree, change = source.repository, source.tree(commit).id, []
    for one in fix_up:
        record = repository.read_commit(one)
        deltas = repository.diff(repository.read_commit(record.parents[0]).tree, record.tree)
        moot = [d.path for d in deltas if d.old is not None and repository.entry(tree, d.path) is None]
        change.append(ChangeCherryPick(cherry_pick=one, exclude=tuple(f"/{glob.escape(path)}" for path in moot)))
    opened, series = with_changes(subject.opened, subject.series, source.upstream, change)
    return replace(subject, opened=opened, series=series, fix_ups=(), holes={})


def _native_of(subject: CommitSubject, commit: Commit) -> NativeRequest | None:
    """Return what compiled files the patched tree of a commit needs; None where it needs none, or cannot be patched."""
    patched = patch_tree(subject.opened, commit, subject.series, subject.issue.slug).patched
    return native_request(subject.opened, commit, patched) if patched else None


def _prepare(subject: CommitSubject, commit: Commit) -> Native | None:
    opened, native = subject.opened, _native_of(subject, commit)
    if native is None:
        return None
    return prepare_native(opened.toolkit, replace(environment_request(opened, subject.repro), native=native))
