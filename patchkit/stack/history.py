"""Changes that upstream's own history holds: a revert, a cherry-pick, a pull request, as three-way merges of trees."""

from __future__ import annotations

from collections.abc import Sequence

from patchkit.recipe.model import ChangeCherryPick, ChangePull, ChangeRevert
from patchkit.source.commit import Commit
from patchkit.source.source import Source
from patchkit.stack.ladder.attempt import Attempt
from patchkit.stack.ladder.merge import METHOD, merge_change
from patchkit.stack.outcome import Outcome
from patchkit.stack.paths import matches
from patchkit.tools.git.objects import Repository


def apply_history(source: Source, tree: str, change: ChangeRevert | ChangeCherryPick) -> Attempt:
    """Bring a commit of upstream's history, or its reverse, onto a tree. Raises `RequestError` for an unknown commit.

    A merge commit counts as the change from its first parent.
    """
    if source.kind == "package":
        return _without_history(tree)
    repository = source.repository
    commit = source.resolve(change.revert if isinstance(change, ChangeRevert) else change.cherry_pick)
    parents = repository.read_commit(commit.id).parents
    if not parents:
        return _broken(f"{commit.name} is a root commit: it changes nothing, it begins everything", tree)
    before = _tree_of(repository, parents[0])
    if isinstance(change, ChangeRevert):
        return _merge(repository, tree, (commit.tree, before), ())
    return _merge(repository, tree, (before, commit.tree), change.exclude)


def apply_pull(source: Source, base: Commit, tree: str, change: ChangePull, frozen: str | None) -> Attempt:
    """Bring a pull request onto a tree: what changed from its fork to its head, or to the commit it is frozen to.

    Raises `RequestError` when upstream has no such pull request or commit.
    """
    if source.kind == "package":
        return _without_history(tree)
    repository = source.repository
    head = source.resolve(frozen or f"pull/{change.pull}")
    fork = find_fork(repository, base.id, head.id)
    if fork is None:
        return _broken(f"pull/{change.pull} has no common history with {base.name}", tree)
    return _merge(repository, tree, (_tree_of(repository, fork), head.tree), change.exclude)


def _without_history(tree: str) -> Attempt:
    return _broken("needs git history (--source git): the releases of a package have none", tree)


def find_fork(repository: Repository, base: str, head: str) -> str | None:
    """Return the last commit that `head` has in common with `base`; None when they have none.

    Of several (upstream was merged into a branch more than once) it is the one that has all others as ancestors; in a
    criss-cross history, where none has, the first.
    """
    own = repository.parents_between(base, head)
    if not own:
        return head
    shared = dict.fromkeys(parent for parents in own.values() for parent in parents if parent not in own)
    latest = [one for one in shared if not any(other != one and repository.is_ancestor(one, other) for other in shared)]
    return latest[0] if latest else None


def _merge(repository: Repository, tree: str, change: tuple[str, str], exclude: Sequence[str]) -> Attempt:
    before, after = change
    if exclude:
        kept = {d.path: d.new for d in repository.diff(before, after) if not matches(d.path, exclude)}
        if not kept:
            return Attempt(Outcome.NOT_APPLICABLE, "none", "`exclude` leaves nothing of it", tree)
        after = repository.edit(before, kept)
    return merge_change(repository, tree, before, after)


def _tree_of(repository: Repository, commit: str) -> str:
    return repository.read_commit(commit).tree


def _broken(detail: str, tree: str) -> Attempt:
    return Attempt(Outcome.BROKEN, METHOD, detail, tree)
