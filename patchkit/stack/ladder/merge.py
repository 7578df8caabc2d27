"""Three-way merges of trees: how a revert, a cherry-pick or a pull request lands on another commit."""

from __future__ import annotations

from patchkit.stack.ladder.attempt import Attempt, FileResult
from patchkit.stack.outcome import Outcome
from patchkit.tools.git.objects import Repository

METHOD = "merge"
LISTED = 5  # files of a conflict named in the detail


def merge_change(repository: Repository, tree: str, before: str, after: str) -> Attempt:
    """Bring the change from tree `before` to tree `after` onto `tree`. Nothing new in it: already upstream."""
    merged = repository.merge_trees(before, tree, after)
    if merged.tree is None:
        files = tuple(FileResult(path, Outcome.CONFLICT, message="both sides changed it") for path in merged.conflicts)
        named = ", ".join(merged.conflicts[:LISTED])
        more = len(merged.conflicts) - LISTED
        detail = f"merge conflict in {named}" + (f" and {more} more files" if more > 0 else "")
        return Attempt(Outcome.CONFLICT, METHOD, detail, tree, files)
    if merged.tree == tree:
        return Attempt(Outcome.ALREADY_UPSTREAM, METHOD, "the merge changes nothing", tree)
    count = len(repository.diff(tree, merged.tree))
    return Attempt(Outcome.MERGED, METHOD, f"{count} file{'s' if count != 1 else ''}", merged.tree)
