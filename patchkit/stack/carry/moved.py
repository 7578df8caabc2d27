"""A pull request whose head moved: whether it was only rebased, or is another change than the one that was locked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from patchkit.errors import RequestError
from patchkit.source.source import Source
from patchkit.stack.carry.compare import Pair, compare_series, same_change
from patchkit.stack.carry.export import read_header
from patchkit.stack.carry.text import join_parts, render_trees
from patchkit.stack.history import find_pull_fork, pull_commits
from patchkit.stack.patch import Header, Patch, parse_patches


class Movement(StrEnum):
    """What became of a pull request between two heads; the values are for JSON, `words` for people."""

    REBASED = "rebased"
    SURROUNDINGS = "same-lines"
    EXTENDED = "extended"
    CHANGED = "changed"
    UNKNOWN = "unknown"

    @property
    def words(self) -> str:
        """Return the movement in words."""
        return _WORDS[self]


_WORDS = {
    Movement.REBASED: "only rebased: the same change",
    Movement.SURROUNDINGS: "rebased: the same lines, others around them",
    Movement.EXTENDED: "more commits on top",
    Movement.CHANGED: "another change",
    Movement.UNKNOWN: "what changed cannot be told: the old head is gone",
}


@dataclass(frozen=True)
class PullMove:
    """A pull request that was at `old` and is at `new`; `pairs` are its commits side by side.

    `patch` is the one that was imported from it at `old`; a lock cannot take the new head there, `import` does.
    """

    upstream: str
    pull: int
    old: str
    new: str
    movement: Movement
    pairs: tuple[Pair, ...] = ()
    patch: str = ""

    def __str__(self) -> str:
        of = f", from which {self.patch} was imported," if self.patch else ""
        return f"pull/{self.pull}{of} moved from {self.old[:12]} to {self.new[:12]}: {self.movement.words}"

    def how_to_take(self, recipe: Path) -> str:
        """Return the command that takes the new head."""
        if self.patch:
            name = f"--name {self.patch} --upstream {self.upstream}"
            return f"patchkit import pull/{self.pull} {recipe} {name} --update"
        return f"patchkit lock {recipe} --update"


def judge_move(source: Source, number: int, old: str, new: str) -> PullMove:
    """Compare two heads of a pull request by what they change, not by their ids.

    Raises `RequestError` kinds other than for an old head that nobody has any more.
    """
    move = PullMove(source.upstream, number, old, new, Movement.UNKNOWN)
    try:
        source.resolve(old)
        before, after = _whole(source, old), _whole(source, new)
    except (RequestError, KeyError):  # not given out any more; objects missing
        return move
    pairs = compare_series(_commits(source, old), _commits(source, new))
    return PullMove(source.upstream, number, old, new, _movement(source, (old, new), before, after), pairs)


def _movement(source: Source, heads: tuple[str, str], before: Sequence[Patch], after: Sequence[Patch]) -> Movement:
    if same_change(before, after):
        return Movement.REBASED
    if source.repository.is_ancestor(*heads):
        return Movement.EXTENDED
    return Movement.SURROUNDINGS if same_change(before, after, context=False) else Movement.CHANGED


def _whole(source: Source, head: str) -> tuple[Patch, ...]:
    """Return all that a pull request changes as one patch; none when it changes nothing."""
    fork = find_pull_fork(source.repository, head)
    return _patches(source, fork, head, Header()) if fork else ()


def _commits(source: Source, head: str) -> list[Patch]:
    fork = find_pull_fork(source.repository, head)
    found: list[Patch] = []
    for commit in pull_commits(source.repository, fork, head) if fork else ():
        parent = source.repository.read_commit(commit).parents[0]
        found += _patches(source, parent, commit, read_header(source, commit))
    return found


def _patches(source: Source, before: str, after: str, header: Header) -> tuple[Patch, ...]:
    repository = source.repository
    trees = (repository.read_commit(before).tree, repository.read_commit(after).tree)
    text = join_parts(render_trees(repository, trees))
    return tuple(Patch(header, patch.files) for patch in parse_patches(text)) if text else ()
