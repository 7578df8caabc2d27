"""The ladder: exact, what upstream took already, merge, anchor. The first rung that stands is taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from patchkit.stack.ladder.anchor import anchor_file
from patchkit.stack.ladder.attempt import Attempt, FileResult
from patchkit.stack.ladder.exact import apply_exact, attempt_patches
from patchkit.stack.ladder.merge import merge_file
from patchkit.stack.ladder.view import View
from patchkit.stack.lineage.images import find_images
from patchkit.stack.lineage.lineage import Images, Lineage
from patchkit.stack.lineage.upstreamed import find_upstreamed
from patchkit.stack.outcome import Outcome
from patchkit.stack.patch.model import FilePatch, Patch
from patchkit.tools.git.objects import Repository

Rung = Callable[[View, FilePatch, Images], FileResult]

RUNGS: tuple[tuple[str, Rung], ...] = (("merge", merge_file), ("anchor", anchor_file))
# Of the first rung, which no other betters: where only tests fail, leaving them out beats merging the product too.
ANSWERS = {Outcome.BROKEN, Outcome.TARGET_GONE, Outcome.TEST_ONLY}


@dataclass(frozen=True)
class Footing:
    """The tree that a patch lands on. `lineage` is the history behind it: None for releases, which have none.

    `dry`: only whether it lands counts, so history is asked for contents and not for who took the patch.
    """

    repository: Repository
    tree: str
    lineage: Lineage | None = None
    dry: bool = False


def climb(footing: Footing, patches: Sequence[Patch]) -> Attempt:
    """Try the rungs in order; return the first attempt that stands, else the one that tells most."""
    first = apply_exact(footing.repository, footing.tree, patches)
    partly = first.outcome is Outcome.PARTLY_UPSTREAMED  # the rest may be what upstream has changed since it took all
    if first.outcome is Outcome.BROKEN or (first.outcome.stands and not partly):
        return first
    if footing.lineage is not None and not footing.dry:
        taken = find_upstreamed(footing.lineage, patches)
        if taken is not None:
            return Attempt(Outcome.ALREADY_UPSTREAM, "history", f"by {taken}", footing.tree, first.files)
    if partly or first.outcome in ANSWERS:
        return first
    images = find_images(footing.repository, patches, footing.lineage)
    best = first
    for method, rung in RUNGS:
        attempt = attempt_patches(footing.repository, footing.tree, patches, partial(_on_rung, rung, images), method)
        if attempt.outcome.stands:
            return _named(attempt)
        best = _telling(best, attempt)
    return best


def _on_rung(rung: Rung, images: Images, view: View, file: FilePatch) -> FileResult:
    return rung(view, file, images)


def _named(attempt: Attempt) -> Attempt:
    """Return the attempt under the method that it needed: a file that was anchored makes it an anchored patch."""
    return replace(attempt, method={Outcome.MERGED: "merge", Outcome.ANCHORED: "anchor"}.get(attempt.outcome, "merge"))


def _telling(one: Attempt, other: Attempt) -> Attempt:
    """Return what says more: a result to be reviewed, or only tests in the way, before a conflict."""
    order = (Outcome.REVIEW, Outcome.TEST_ONLY, Outcome.CONFLICT)
    ranks = [order.index(attempt.outcome) if attempt.outcome in order else len(order) for attempt in (one, other)]
    return other if ranks[1] < ranks[0] else one
