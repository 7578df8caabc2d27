"""What was done to some files before each commit of a range, from one reading of the newest commit's history.

Whether upstream took a patch, and what a patch was made for, is asked of a commit's own past. Reading the history of
each of thousands of commits takes minutes; most of them have the past of the commit before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from patchkit.stack.lineage.lineage import Lineage
from patchkit.tools.git.log import FileChange, commits_apart


@dataclass(frozen=True)
class Pasts:
    """The pasts of files: `of` has those of each node as a set, bit i for the i-th of `places`."""

    newest: Lineage
    later: Lineage
    changes: Mapping[str, Sequence[FileChange]]
    places: Mapping[str, int]  # of the commits that change a file
    of: Mapping[str, int]

    def holds(self, node: str, commits: Collection[str]) -> bool:
        """Return whether a node has one of some commits that change a file."""
        return any(self.of[node] >> self.places[commit] & 1 for commit in commits)

    def lineage(self, node: str) -> Lineage:
        """Return the history behind a node, as if it were read from there; only of the files that were named."""
        past, places = self.of[node], self.places
        mine = {
            path: tuple(change for change in changes if past >> places[change.commit] & 1)
            for path, changes in self.changes.items()
        }
        found = Lineage(self.newest.repository, node, self.later.commit, newest=mine, changes=dict(mine))
        found.newer = self.later if node != found.tip else None
        return found


def read_pasts(newest: Lineage, good: str, nodes: Collection[str], paths: Sequence[str]) -> Pasts:
    """Return the pasts of files at nodes, parents before children: what the newest commit has and `good` lacks."""
    newest.prepare(paths)
    changes = {path: tuple(newest.recent(path)) for path in paths}
    names = dict.fromkeys(change.commit for some in changes.values() for change in some)
    places = {commit: place for place, commit in enumerate(names)}
    inside = frozenset(nodes)
    before = sum(1 << place for commit, place in places.items() if commit not in inside)  # what the good end has
    older: dict[str, int] = {good: before}
    of: dict[str, int] = {}
    for node in nodes:
        of[node] = 1 << places[node] if node in places else 0
        for parent in newest.repository.read_commit(node).parents:
            if parent not in of and parent not in older:
                lacking = commits_apart(newest.repository, good, (parent,))
                older[parent] = before & ~sum(1 << places[one] for one in lacking if one in places)
            of[node] |= of[parent] if parent in of else older[parent]
    return Pasts(newest, newest.later() or newest, changes, places, of)
