"""What one rung of the ladder made of one change: a tree, or the reasons why not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePosixPath

from patchkit.stack.outcome import Outcome

LISTED_FAILURES = 3  # of one patch in its detail: the first ones tell what is wrong, `status` tells all


class HunkState(StrEnum):
    """applied: at `line`; anchored: its first change is; merged: with the file; upstream: there already; or failed."""

    APPLIED = "applied"
    MERGED = "merged"
    ANCHORED = "anchored"
    UPSTREAM = "upstream"
    FAILED = "failed"


@dataclass(frozen=True)
class HunkResult:
    """Where one hunk landed. `number` and `line` count from 1; `offset` is in lines from where the patch says."""

    number: int
    state: HunkState
    line: int = 0
    offset: int = 0
    message: str = ""


@dataclass(frozen=True)
class FileResult:
    """What became of the part of a patch that is about one file."""

    path: str
    outcome: Outcome
    hunks: tuple[HunkResult, ...] = ()
    message: str = ""


@dataclass(frozen=True)
class Attempt:
    """What a rung made of a change. `tree` is the result, the tree before where the outcome does not stand."""

    outcome: Outcome
    method: str
    detail: str
    tree: str
    files: tuple[FileResult, ...] = field(default=(), compare=False)


def summarize(results: Sequence[FileResult]) -> tuple[Outcome, str]:
    """Return the outcome of a patch from those of its files, and what to tell about it in one line."""
    failed = [result for result in results if not result.outcome.stands]
    if failed:
        return _summarize_failure(failed, len(results))
    outcomes = {result.outcome for result in results}
    if outcomes == {Outcome.ALREADY_UPSTREAM}:
        return Outcome.ALREADY_UPSTREAM, _count(results)
    for inexact in (Outcome.ANCHORED, Outcome.MERGED):
        if inexact in outcomes:
            return inexact, "; ".join(filter(None, map(_inexact, results)))
    if outcomes & {Outcome.ALREADY_UPSTREAM, Outcome.PARTLY_UPSTREAMED}:
        return Outcome.PARTLY_UPSTREAMED, "; ".join(filter(None, map(_upstreamed, results)))
    if Outcome.OFFSET in outcomes:
        return Outcome.OFFSET, "; ".join(filter(None, map(_offsets, results)))
    return Outcome.CLEAN, _count(results)


def is_test(path: str) -> bool:
    """Return whether a file lies below a folder of tests."""
    return _test_folder(path) != ""


def exclude_globs(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the globs that leave out the folders of tests in which these files lie."""
    return tuple(sorted({f"{folder}/**" for path in paths if (folder := _test_folder(path))}))


def _test_folder(path: str) -> str:
    """Return the outermost folder of tests that a file lies in, '' when it lies in none."""
    folders = (folder.as_posix() for folder in reversed(PurePosixPath(path).parents))
    return next((folder for folder in folders if folder.rpartition("/")[2] in {"test", "tests"}), "")


def _summarize_failure(failed: Sequence[FileResult], total: int) -> tuple[Outcome, str]:
    told = [f"{result.path}: {result.message}" for result in failed[:LISTED_FAILURES]]
    if len(failed) > LISTED_FAILURES:
        told.append(f"and {len(failed) - LISTED_FAILURES} more files")
    detail = "; ".join(told)
    outcomes = {result.outcome for result in failed}
    if Outcome.BROKEN in outcomes:
        return Outcome.BROKEN, detail
    if len(failed) < total and all(is_test(result.path) for result in failed):
        globs = ", ".join(f'"{glob}"' for glob in exclude_globs([result.path for result in failed]))
        return Outcome.TEST_ONLY, f"only tests fail (exclude: [{globs}] leaves them out): {detail}"
    return outcomes.pop() if outcomes in ({Outcome.TARGET_GONE}, {Outcome.REVIEW}) else Outcome.CONFLICT, detail


def _count(results: Sequence[FileResult]) -> str:
    hunks = sum(len(result.hunks) for result in results)
    files = len({result.path for result in results})
    return f"{_plural(hunks, 'hunk')} in {_plural(files, 'file')}" if hunks else _plural(files, "file")


def _offsets(result: FileResult) -> str:
    moved = [f"hunk {hunk.number} {hunk.offset:+d}" for hunk in result.hunks if hunk.offset]
    return f"{result.path}: {', '.join(moved)}" if moved else ""


def _inexact(result: FileResult) -> str:
    """Say how a file that is not exact was changed; of the others, what is upstream or moved."""
    if result.outcome is Outcome.MERGED:
        return f"{result.path}: three-way merge"
    if result.outcome is Outcome.ANCHORED:
        held = (f"hunk {hunk.number} at line {hunk.line}" for hunk in result.hunks if hunk.state is HunkState.ANCHORED)
        return f"{result.path}: {', '.join(held)}, by what stands around it"
    return _upstreamed(result) or _offsets(result)


def _upstreamed(result: FileResult) -> str:
    if result.outcome is Outcome.ALREADY_UPSTREAM:
        return f"{result.path}: already upstream"
    there = [str(hunk.number) for hunk in result.hunks if hunk.state is HunkState.UPSTREAM]
    if result.outcome is Outcome.PARTLY_UPSTREAMED:
        what = f"hunk {', '.join(there)} of {len(result.hunks)}" if there else "a part"
        return f"{result.path}: {what} already upstream"
    return ""


def _plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
