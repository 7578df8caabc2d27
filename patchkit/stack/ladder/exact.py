"""The first rung: hunks with all their context, at any offset, in memory; byte for byte or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from patchkit.stack.ladder.attempt import Attempt, FileResult, HunkResult, HunkState, summarize
from patchkit.stack.ladder.place import place_hunks
from patchkit.stack.ladder.view import REGULAR, View
from patchkit.stack.outcome import Outcome
from patchkit.stack.patch.binary import Binary, blob_id
from patchkit.stack.patch.model import FilePatch, Hunk, Patch
from patchkit.tools.git.objects import Repository

METHOD = "exact"
DEFAULT_MODE = 0o100644
FULL_ID = 40  # hexadecimal digits of a SHA-1

ApplyFile = Callable[[View, FilePatch], FileResult]


def apply_exact(repository: Repository, tree: str, patches: Sequence[Patch]) -> Attempt:
    """Apply the patches of a file, one after the other, to a tree; all of it or nothing.

    A patch that does not apply but whose reverse does, whole, is already upstream: the reverse also sees what several
    patches of one mailbox have made together.
    """
    forward = attempt_patches(repository, tree, patches)
    if forward.outcome.stands:
        return forward
    backward = attempt_patches(repository, tree, [patch.reverse() for patch in reversed(patches)])
    if backward.files and all(result.outcome in {Outcome.CLEAN, Outcome.OFFSET} for result in backward.files):
        return Attempt(Outcome.ALREADY_UPSTREAM, METHOD, "the whole patch is in the tree", tree)
    return forward


def attempt_patches(
    repository: Repository, tree: str, patches: Sequence[Patch], apply: ApplyFile | None = None, method: str = METHOD
) -> Attempt:
    """Apply patches one after the other, file by file with `apply`; all of it or nothing."""
    results: list[FileResult] = []
    current = tree
    for patch in patches:
        moved = {file.old_path for file in patch.files if file.moves and not file.copies}
        view = View(repository, current, leaving=frozenset(filter(None, moved)))
        results += [(apply or apply_file)(view, file) for file in patch.files]
        try:
            current = view.store()
        except ValueError as error:
            results.append(FileResult(patch.files[0].path, Outcome.BROKEN, message=str(error)))
    outcome, detail = summarize(results)
    return Attempt(outcome, method, detail, current if outcome.stands else tree, tuple(results))


def apply_file(view: View, file: FilePatch) -> FileResult:
    """Apply what a patch says of one file to a view; where that fails, the view stays as it was."""
    reason = _refusal(view, file)
    if reason:
        return FileResult(file.path, Outcome.BROKEN, message=reason)
    if file.old_path is None:
        return _create(view, file)
    if file.new_path is None:
        return _delete(view, file, file.old_path)
    if file.moves:
        return _move(view, file, file.old_path, file.new_path)
    return _edit(view, file, file.new_path)


def _refusal(view: View, file: FilePatch) -> str:
    for mode in (file.old_mode, file.new_mode):
        if mode is not None and mode not in REGULAR:
            return f"the mode {mode:o} is no regular file's; patches cannot touch symlinks and submodules"
    return next(filter(None, (view.obstacle(path) for path in (file.old_path, file.new_path) if path)), "")


def _create(view: View, file: FilePatch) -> FileResult:
    found = view.read(file.path)
    made = _edit_content(file, b"")
    if not made.outcome.stands:
        return made.result(file.path)
    mode = file.new_mode or DEFAULT_MODE
    if found is None or (not file.git and not found[1]):
        view.write(file.path, mode, made.data)
        return FileResult(file.path, Outcome.CLEAN, made.hunks)
    if found[1] == made.data and (file.new_mode is None or found[0] == mode):
        there = tuple(HunkResult(hunk.number, HunkState.UPSTREAM, 1) for hunk in made.hunks)
        return FileResult(file.path, Outcome.ALREADY_UPSTREAM, there)
    what = "mode" if found[1] == made.data else "content"
    return FileResult(file.path, Outcome.CONFLICT, message=f"the patch creates it, but it is there with another {what}")


def _delete(view: View, file: FilePatch, path: str) -> FileResult:
    found = view.read(path)
    if found is None:
        hunks = tuple(HunkResult(number, HunkState.UPSTREAM) for number, _ in enumerate(file.hunks, 1))
        return FileResult(path, Outcome.ALREADY_UPSTREAM, hunks)
    edited = _edit_content(file, found[1])
    if not edited.outcome.stands:
        return edited.result(path)
    if edited.data or edited.outcome is Outcome.ALREADY_UPSTREAM:
        return FileResult(
            path, Outcome.CONFLICT, message="the patch deletes it, but it has more than the patch knows of"
        )
    view.delete(path)
    return FileResult(path, Outcome.CLEAN, edited.hunks)


def _move(view: View, file: FilePatch, old: str, new: str) -> FileResult:
    source = view.read_base(old)
    occupied = view.occupied(new)
    if source is None or (occupied and file.copies):
        return _moved_already(view, file, old, new)
    if occupied:
        return FileResult(new, Outcome.CONFLICT, message=f"the patch moves {old} there, but it exists")
    edited = _edit_content(file, source[1])
    if edited.outcome is Outcome.ALREADY_UPSTREAM and file.hunks:
        edited = edited.as_partly()
    if edited.outcome.stands:
        view.write(new, file.new_mode or source[0], edited.data)
        if not file.copies:
            view.move_away(old)
    return edited.result(new)


def _moved_already(view: View, file: FilePatch, old: str, new: str) -> FileResult:
    """Judge a rename or copy whose source is gone, or whose target is there; after a rename the rest of it is made."""
    target = view.read(new)
    if target is None:
        return FileResult(file.path, Outcome.TARGET_GONE, message=f"{old} is not in this tree")
    mode, data = target
    edited = _edit_content(file, data) if file.hunks or file.binary else _Edited(Outcome.ALREADY_UPSTREAM, data)
    if edited.outcome is Outcome.ALREADY_UPSTREAM and file.new_mode in {None, mode}:
        return FileResult(file.path, Outcome.ALREADY_UPSTREAM, edited.hunks)
    if edited.outcome.stands and not file.copies:
        view.write(new, file.new_mode or mode, edited.data)
        return edited.as_partly().result(file.path)
    return FileResult(file.path, Outcome.CONFLICT, message=f"the patch makes it from {old}, but it is there already")


def _edit(view: View, file: FilePatch, path: str) -> FileResult:
    found = view.read(path)
    if found is None:
        if not file.git and len(file.hunks) == 1 and not file.hunks[0].old:  # a traditional diff cannot say "new"
            return _create(view, file)
        return FileResult(path, Outcome.TARGET_GONE, message="is not in this tree")
    edited = _edit_content(file, found[1])
    if not edited.outcome.stands:
        return edited.result(path)
    mode_there = file.new_mode is None or found[0] == file.new_mode
    view.write(path, file.new_mode or found[0], edited.data)
    if not (file.hunks or file.binary):
        return FileResult(path, Outcome.ALREADY_UPSTREAM if mode_there else Outcome.CLEAN)
    if not mode_there and edited.outcome is Outcome.ALREADY_UPSTREAM:
        return edited.as_partly().result(path)
    return edited.result(path)


# --- content ---


@dataclass(frozen=True)
class _Edited:
    """The bytes of a file after its hunks; `data` means nothing unless the outcome stands."""

    outcome: Outcome
    data: bytes
    hunks: tuple[HunkResult, ...] = ()
    message: str = ""

    def result(self, path: str) -> FileResult:
        return FileResult(path, self.outcome, self.hunks, self.message)

    def as_partly(self) -> _Edited:
        return _Edited(Outcome.PARTLY_UPSTREAMED, self.data, self.hunks)


def _edit_content(file: FilePatch, data: bytes) -> _Edited:
    """Apply a file's hunks, or its binary change, to the bytes that are there."""
    if file.binary is not None:
        return _edit_binary(file, file.binary, data)
    hunks = _hunks_for(file, data)
    placed = place_hunks(data, hunks)
    failed = [
        (result, hunk) for result, hunk in zip(placed.hunks, hunks, strict=True) if result.state is HunkState.FAILED
    ]
    if failed:
        message = "; ".join(f"hunk {result.number} (-{hunk.old_start}): {result.message}" for result, hunk in failed)
        return _Edited(Outcome.CONFLICT, data, placed.hunks, message)
    return _Edited(_outcome_of(placed.hunks), placed.data, placed.hunks)


def _outcome_of(hunks: Sequence[HunkResult]) -> Outcome:
    states = {hunk.state for hunk in hunks}
    if states == {HunkState.UPSTREAM}:
        return Outcome.ALREADY_UPSTREAM
    if HunkState.UPSTREAM in states:
        return Outcome.PARTLY_UPSTREAMED
    return Outcome.OFFSET if any(hunk.offset for hunk in hunks) else Outcome.CLEAN


def _hunks_for(file: FilePatch, data: bytes) -> tuple[Hunk, ...]:
    """Return the hunks with the line ends of the file, where the patch's own were lost on its way."""
    if file.crlf and (lines := data.count(b"\n")) and data.count(b"\r\n") == lines:
        return tuple(hunk.with_crlf() for hunk in file.hunks)
    return file.hunks


def _edit_binary(file: FilePatch, binary: Binary, data: bytes) -> _Edited:
    """Apply a binary change; git's ids of both contents decide whether it may be, and whether it came out right."""
    forward = binary.forward
    if forward is None or len(file.old_blob) < FULL_ID or len(file.new_blob) < FULL_ID:
        return _Edited(Outcome.BROKEN, data, (), "a binary patch needs full ids in its index line (git diff --binary)")
    found = blob_id(data)
    if found == file.new_blob and file.new_path is not None:
        return _Edited(Outcome.ALREADY_UPSTREAM, data)
    if file.old_path is not None and found != file.old_blob:
        return _Edited(Outcome.CONFLICT, data, (), "the binary file is another one than the patch was made for")
    try:
        made = forward.apply(data)
    except ValueError as error:
        return _Edited(Outcome.BROKEN, data, (), f"the binary patch does not fit: {error}")
    if file.new_path is not None and blob_id(made) != file.new_blob:
        return _Edited(Outcome.BROKEN, data, (), "the binary patch makes another content than it names")
    return _Edited(Outcome.CLEAN, made)
