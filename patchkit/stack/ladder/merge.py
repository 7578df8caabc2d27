"""Three-way merges: how a revert, a cherry-pick or a pull request lands on another commit, and the second rung.

A diff is merged file by file: what it was made for, what it makes of that, and what stands in the tree.
"""

from __future__ import annotations

from dataclasses import replace

from patchkit.stack.ladder.attempt import Attempt, FileResult, HunkResult, HunkState
from patchkit.stack.ladder.exact import apply_file
from patchkit.stack.ladder.view import REGULAR, View
from patchkit.stack.lineage.lineage import Image, Images
from patchkit.stack.outcome import Outcome
from patchkit.stack.patch.model import FilePatch
from patchkit.stack.scope import check_scope
from patchkit.tools.git.lines import merge_lines
from patchkit.tools.git.objects import Repository

METHOD = "merge"
LISTED = 5  # files of a conflict named in the detail


def merge_change(repository: Repository, tree: str, before: str, after: str) -> Attempt:
    """Bring the change from tree `before` to tree `after` onto `tree`. Nothing new in it: already upstream.

    Where a file is merged, the gate looks at it as at that of a diff: what it objects to is for review.
    """
    tree = repository.settle(tree)  # it is compared below
    merged = repository.merge_trees(before, tree, after)
    if merged.tree is None:
        files = tuple(FileResult(path, Outcome.CONFLICT, message="both sides changed it") for path in merged.conflicts)
        named = ", ".join(merged.conflicts[:LISTED])
        more = len(merged.conflicts) - LISTED
        detail = f"merge conflict in {named}" + (f" and {more} more files" if more > 0 else "")
        return Attempt(Outcome.CONFLICT, METHOD, detail, tree, files)
    if merged.tree == tree:
        return Attempt(Outcome.ALREADY_UPSTREAM, METHOD, "the merge changes nothing", tree)
    if complaint := _check_trees(repository, (before, after), (tree, merged.tree)):
        return Attempt(Outcome.REVIEW, METHOD, f"merged, but {complaint}", tree)
    count = len(repository.diff(tree, merged.tree))
    return Attempt(Outcome.MERGED, METHOD, f"{count} file{'s' if count != 1 else ''}", merged.tree)


def _check_trees(repository: Repository, change: tuple[str, str], landing: tuple[str, str]) -> str:
    """Return what speaks against the files of a merge, '' when nothing; those that no other side changed are exact."""
    for delta in repository.diff(*change):
        there, made = (repository.entry(tree, delta.path) for tree in landing)
        entries = (delta.old, delta.new, there, made)
        if not all(entry is not None and entry.mode in REGULAR for entry in entries):
            continue
        blobs = [entry.blob for entry in entries if entry is not None]
        if blobs[2] in {blobs[0], blobs[3]}:
            continue
        old, new, ours, result = map(repository.read_blob, blobs)
        if complaint := check_scope((old, new), (ours, result), delta.path.endswith(".py")):
            return f"{delta.path}: {complaint}"
    return ""


def merge_file(view: View, file: FilePatch, images: Images) -> FileResult:
    """Apply what a patch says of one file: exactly, else by a merge with the content that it was made for."""
    exact = apply_file(view, file)
    image = images.get(file.line)
    if exact.outcome is not Outcome.CONFLICT or image is None or file.new_path is None:
        return exact
    source = view.read_base(str(file.old_path)) if file.moves else view.read(file.new_path)
    if source is None or (file.moves and view.occupied(file.new_path)):
        return exact
    mode, data = source
    merged = merge_lines(view.repository, image.before, data, image.after)
    if merged is None:
        return exact
    result = judge_merge(file, image, data, merged)
    if result.outcome is Outcome.MERGED:
        result = replace(result, hunks=tuple(map(_merged_hunk, exact.hunks)))
    if result.outcome is Outcome.REVIEW:
        return replace(result, hunks=exact.hunks)
    if result.outcome.stands:
        view.write(file.new_path, file.new_mode or mode, merged)
        if file.moves and not file.copies:
            view.move_away(str(file.old_path))
    return result


def _merged_hunk(hunk: HunkResult) -> HunkResult:
    return HunkResult(hunk.number, HunkState.MERGED) if hunk.state is HunkState.FAILED else hunk


def judge_merge(
    file: FilePatch, image: Image, data: bytes, made: bytes, outcome: Outcome = Outcome.MERGED
) -> FileResult:
    """Return what became of a file that was `data`: upstream already, done, or for review where the gate objects."""
    if made == data and not file.moves:
        return FileResult(file.path, Outcome.ALREADY_UPSTREAM)
    complaint = check_scope((image.before, image.after), (data, made), file.path.endswith(".py"))
    if not complaint and outcome is Outcome.MERGED and not image.named:
        complaint = "the patch does not name the content that it was made for, and others changed the lines around it"
    if complaint:
        return FileResult(file.path, Outcome.REVIEW, message=f"{outcome.value}, but {complaint}")
    return FileResult(file.path, outcome)
