"""The drift set: real commits brought onto trees 30 to 500 commits older, and a judge that knows nothing of the engine.

The judge follows every line of a file from the commit back to the older tree, through the diffs of the commits between
(as `git blame` would), so it knows where a change belongs. A tool's result is right where all it removed and added lies
there: between the nearest lines that can be followed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.patch_clone import run_git
from patchkit.tools.git.lines import Region, diff_lines
from patchkit.tools.git.log import FileChange, file_log
from patchkit.tools.git.objects import Repository

DISTANCES = (30, 60, 120, 200, 350, 500)
SEED = 20261129
FILES_AT_MOST = 4
LINES_AT_MOST = 60  # of a diff: patches that people carry are small


Spot = tuple[int, int, list[int], list[bytes]]  # a gap of the older file, what is removed there, what is added


@dataclass(frozen=True)
class Case:
    """A commit's change, and the older commit that it is brought to."""

    commit: str
    target: str
    distance: int
    paths: tuple[str, ...]
    diff: bytes


def make_cases(repository: Repository, tip: str, commits: int, window: int = 6000) -> list[Case]:
    """Choose commits of the newest `window` by chance, the same for the same history, with all distances for each."""
    chain = first_parents(repository.path, tip, window + max(DISTANCES))
    order = list(range(window))
    random.Random(SEED).shuffle(order)
    cases: list[Case] = []
    chosen = 0
    for position in order:
        if chosen == commits:
            break
        diff, paths = read_change(repository.path, chain[position])
        if not paths:
            continue
        chosen += 1
        for distance in DISTANCES:
            if all(blob_of(repository, chain[position + distance], path) for path in paths):  # else no right place
                cases.append(Case(chain[position], chain[position + distance], distance, paths, diff))
    return cases


def first_parents(path: Path, tip: str, count: int) -> list[str]:
    """Return commits, newest first."""
    out = run_git(path, "rev-list", "--first-parent", f"--max-count={count}", tip)
    return out.decode().split()


def read_change(path: Path, commit: str) -> tuple[bytes, tuple[str, ...]]:
    """Return a commit's diff and its files when it is such as people carry: a few product files, changed in place."""
    status = run_git(path, "diff", "--name-status", "--no-renames", f"{commit}^", commit).decode().splitlines()
    names = [line.split("\t", 1) for line in status]
    product = tuple(name for _, name in names if name.startswith("vllm/") and name.endswith(".py"))
    if not 1 <= len(product) <= FILES_AT_MOST or any(kind != "M" for kind, name in names if name in product):
        return b"", ()
    diff = run_git(path, "diff", "--no-color", "--full-index", f"{commit}^", commit, "--", *product)
    changed = sum(line[:1] in (b"+", b"-") for line in diff.splitlines())
    return (diff, product) if changed <= LINES_AT_MOST else (b"", ())


@dataclass
class Judge:
    """Tells whether a result is right."""

    repository: Repository
    tip: str
    logs: dict[str, tuple[FileChange, ...]]

    @classmethod
    def over(cls, repository: Repository, tip: str, cases: Sequence[Case]) -> Judge:
        """Read the history of all files of the cases at once."""
        paths = sorted({path for case in cases for path in case.paths})
        logs: dict[str, list[FileChange]] = {path: [] for path in paths}
        for change in file_log(repository, tip, paths):
            logs[change.path].append(change)
        return cls(repository, tip, {path: tuple(changes) for path, changes in logs.items()})

    def is_right(self, case: Case, result: dict[str, bytes]) -> bool:
        """Return whether every file was changed where the commit's change belongs, and by the same lines."""
        return all(self._file_is_right(case, path, result.get(path)) for path in case.paths)

    def _file_is_right(self, case: Case, path: str, made: bytes | None) -> bool:
        before, after, there = (self._read(tree, path) for tree in (f"{case.commit}^", case.commit, case.target))
        if before is None or after is None or there is None or made is None:
            return False
        back = self._follow(case, path, before)
        if back is None:
            return False
        lines = (before.split(b"\n"), after.split(b"\n"), there.split(b"\n"), made.split(b"\n"))
        wanted = [
            (region, lines[1][region.new_start : region.new_start + region.new_count])
            for region in diff_lines(before, after)
        ]
        spots = [self._spot(region, back, len(lines[2])) for region, _ in wanted]
        return explains(lines[2], lines[3], [(*spot, text) for spot, (_, text) in zip(spots, wanted, strict=True)])

    @staticmethod
    def _spot(region: Region, back: list[int | None], end: int) -> tuple[int, int, list[int]]:
        """Return the gap of the older file that a region belongs to, and the lines that it removes there."""
        low = next((back[at] for at in range(region.old_start - 1, -1, -1) if back[at] is not None), -1)
        stop = region.old_start + region.old_count
        high = next((back[at] for at in range(stop, len(back)) if back[at] is not None), end)
        return low + 1, high, [at for at in back[region.old_start : stop] if at is not None]

    def _follow(self, case: Case, path: str, before: bytes) -> list[int | None] | None:
        """Return for each line of the newer file its number in the older one."""
        start, end = blob_of(self.repository, f"{case.commit}^", path), blob_of(self.repository, case.target, path)
        back: list[int | None] = list(range(before.count(b"\n") + 1))
        current = start
        for change in self._between(path, start):
            if current == end:
                return back
            if not change.old or change.new != current:
                return None
            back = step(back, self.repository.read_blob(change.old), self.repository.read_blob(change.new))
            current = change.old
        return back if current == end else None

    def _between(self, path: str, start: str) -> Iterator[FileChange]:
        log = self.logs[path]
        first = next((at for at, change in enumerate(log) if change.new == start), len(log))
        yield from log[first:]

    def _read(self, revision: str, path: str) -> bytes | None:
        commit = self.repository.find_commit(revision)
        assert commit is not None
        return self.repository.read(self.repository.read_commit(commit).tree, path)


def blob_of(repository: Repository, revision: str, path: str) -> str:
    """Return the blob of a file at a revision, '' when there is none."""
    commit = repository.find_commit(revision)
    assert commit is not None
    entry = repository.entry(repository.read_commit(commit).tree, path)
    return entry.blob if entry else ""


def step(back: list[int | None], old: bytes, new: bytes) -> list[int | None]:
    """Follow lines one commit further back."""
    mapping: list[int | None] = []
    at = 0
    for region in diff_lines(old, new):
        mapping += range(at, region.old_start)
        mapping += [None] * region.new_count
        at = region.old_start + region.old_count
    mapping += range(at, old.count(b"\n") + 1)
    return [mapping[line] if line is not None and line < len(mapping) else None for line in back]


def explains(old: list[bytes], new: list[bytes], spots: Sequence[Spot]) -> bool:
    """Return whether a result is the older file with each change made inside its gap, and nothing else.

    A change may stand anywhere in its gap (lines there are upstream's own), and what it removes must be the lines
    that were followed there; lines that were changed meanwhile may be removed by their text. A file that has all that
    the change adds, and nothing that it removes, is right as it is.
    """
    made = b"\n".join(new)
    found = diff_lines(b"\n".join(old), made)
    if not found and any(removed for _, _, removed, _ in spots):
        return False  # left as it was, though it has lines that the change removes
    return all(any(fits(old, new, region, spot) for spot in spots) for region in found) and covers(
        found, old, new, spots
    )


def fits(old: list[bytes], new: list[bytes], region: Region, spot: Spot) -> bool:
    """Return whether a region of the result lies in a gap, where need be after sliding over equal lines."""
    low, high, _, _ = spot
    start, stop = region.old_start, region.old_start + region.old_count
    if low <= start and stop <= high:
        return True
    if region.old_count and region.new_count:
        return False
    block = new[region.new_start : region.new_start + region.new_count] or old[start:stop]
    for way in (-1, 1):
        text, at = list(block), start
        while 0 < at < len(old) and not low <= at <= high:
            edge = (
                old[at - 1] if way < 0 else (old[at + region.old_count] if at + region.old_count < len(old) else None)
            )
            if edge != (text[-1] if way < 0 else text[0]):
                break
            text = [edge, *text[:-1]] if way < 0 else [*text[1:], edge]
            at += way
        if low <= at and at + region.old_count <= high:
            return True
    return False


def covers(found: Sequence[Region], old: list[bytes], new: list[bytes], spots: Sequence[Spot]) -> bool:
    """Return whether all that the change adds is there: added, or in its gap before. Nothing was dropped on the way."""
    added = {line for region in found for line in new[region.new_start : region.new_start + region.new_count]}
    return all(line in added or line in old[low:high] for low, high, _, text in spots for line in text if line.strip())
