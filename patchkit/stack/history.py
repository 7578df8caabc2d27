"""Changes that upstream's own history holds: a revert, a cherry-pick, a pull request, as three-way merges of trees."""

from __future__ import annotations

import bisect
import re
from collections.abc import Mapping, Sequence

from patchkit.recipe.model import ChangeCherryPick, ChangePull, ChangeRevert
from patchkit.source.commit import Commit
from patchkit.source.source import Source
from patchkit.stack.ladder.attempt import Attempt
from patchkit.stack.ladder.merge import METHOD, merge_change
from patchkit.stack.outcome import Outcome
from patchkit.stack.paths import matches
from patchkit.tools.git.log import branch_heads, commits_apart
from patchkit.tools.git.objects import Repository

TRUNK = re.compile(r"main|master|dev|develop|releases?[/_-].*|v?\d.*")  # branches that pull requests are made against


def apply_history(source: Source, tree: str, change: ChangeRevert | ChangeCherryPick) -> Attempt:
    """Bring a commit of upstream's history, or its reverse, onto a tree. Raises `RequestError` for an unknown commit.

    A merge commit counts as the change from its first parent.
    """
    if source.kind == "package":
        return _broken(source.without_history, tree)
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
        return _broken(source.without_history, tree)
    repository = source.repository
    head = source.resolve(frozen or f"pull/{change.pull}")
    fork = find_pull_fork(repository, head.id) or find_fork(repository, base.id, head.id)
    if fork is None:
        return _broken(f"pull/{change.pull} has no common history with {base.name}", tree)
    return _merge(repository, tree, (_tree_of(repository, fork), head.tree), change.exclude)


def find_fork(repository: Repository, base: str, head: str) -> str | None:
    """Return the last commit that `head` has in common with `base`; None when they have none.

    Of several (upstream was merged into a branch more than once) it is the one that has all others as ancestors; in a
    criss-cross history, where none has, the first.
    """
    own = repository.parents_between(base, head)
    return _latest(repository, own) if own else head


def _latest(repository: Repository, own: Mapping[str, tuple[str, ...]]) -> str | None:
    """Return the last of the commits that a branch's own ones stand on."""
    shared = dict.fromkeys(parent for parents in own.values() for parent in parents if parent not in own)
    latest = [one for one in shared if not any(other != one and repository.is_ancestor(one, other) for other in shared)]
    return latest[0] if latest else None


def find_pull_fork(repository: Repository, head: str) -> str | None:
    """Return the commit at which a pull request left upstream's own branches; None when that cannot be told.

    Not where it left the commit that is patched: seen from an old release, a request made against today's branch would
    bring along all that came between. One that was merged with a merge commit left before that.
    """
    default = repository.find_commit("HEAD")
    trunks = [tip for name, tip in branch_heads(repository).items() if TRUNK.fullmatch(name)]
    trunks = list(dict.fromkeys([default, *trunks] if default else trunks))
    merged = next((tip for tip in trunks if repository.is_ancestor(head, tip)), None)
    if merged is None:
        own = commits_apart(repository, head, trunks)
        return _latest(repository, own) if trunks else None
    entry = _entry_of(repository, merged, head)
    parents = repository.read_commit(entry).parents if entry != head else ()
    return find_fork(repository, parents[0], head) if parents else None


def pull_commits(repository: Repository, fork: str, head: str) -> tuple[str, ...]:
    """Return the commits of a pull request, oldest first, without merges: what they bring is upstream's."""
    own = commits_apart(repository, head, [fork])
    return tuple(commit for commit, parents in own.items() if len(parents) == 1)


def _entry_of(repository: Repository, tip: str, head: str) -> str:
    """Return the first commit of a branch (along first parents) that has `head` among its ancestors, or is it."""
    born = repository.read_commit(head).commit_time
    chain = [tip]
    while (record := repository.read_commit(chain[-1])).parents and record.commit_time >= born:
        chain.append(record.parents[0])
    # newest first: those that have it come before those that do not
    return chain[bisect.bisect_left(chain, True, key=lambda one: not repository.is_ancestor(head, one)) - 1]


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
