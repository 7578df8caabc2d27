"""What history says of files: the commits that changed them, and where a file went."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pygit2
from pygit2.enums import SortMode

from patchkit.errors import StoreFailure
from patchkit.tools.git.objects import Repository
from patchkit.tools.process import run_process

NO_BLOB = b"0" * 40
FEW = 12  # files: with more, git compares names for longer than it takes to print all changes of all files
FORMAT = ("--format=commit %H %ct", "--raw", "--no-abbrev", "--no-renames")
SETTINGS = ("git", "--literal-pathspecs", "-c", "core.quotePath=off")


@dataclass(frozen=True)
class FileChange:
    """One commit's change of one file. A blob is '' on the side where the file is absent; `time` is the committer's."""

    commit: str
    time: int
    path: str
    old: str
    new: str


@dataclass(frozen=True)
class FileLog:
    """Changes of files, newest first, and the time of the oldest commit looked at; None when that is the first one."""

    changes: tuple[FileChange, ...]
    reach: int | None


@dataclass(frozen=True)
class CommitText:
    """What a person wrote into a commit. `author` is `Name <mail>`, `date` as in a mail (RFC 5322), in their zone."""

    author: str
    date: str
    subject: str
    body: str


def read_text(repository: Repository, commit: str) -> CommitText:
    """Return author, date and message of a commit. Raises `KeyError` when there is no such commit."""
    found = repository.opened[commit].peel(pygit2.Commit)
    message = found.raw_message.decode("utf-8", "replace").strip()
    subject, _, body = message.partition("\n\n")
    zone = timezone(timedelta(minutes=found.author.offset))
    date = format_datetime(datetime.fromtimestamp(found.author.time, zone))
    author = f"{found.author.name} <{found.author.email}>"
    return CommitText(author, date, " ".join(subject.split()), body.strip())


def commits_apart(repository: Repository, head: str, others: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the ancestors of a commit (itself too) that none of the others has, oldest first, with their parents."""
    walker = repository.opened.walk(head, SortMode.TOPOLOGICAL | SortMode.REVERSE)
    for other in others:
        walker.hide(other)
    return {str(commit.id): tuple(str(parent) for parent in commit.parent_ids) for commit in walker}


def branch_heads(repository: Repository) -> dict[str, str]:
    """Return the commit at the tip of every branch, by the branch's name."""
    prefix = "refs/heads/"
    names = [name for name in repository.opened.references if name.startswith(prefix)]
    return {name.removeprefix(prefix): commit for name in names if (commit := repository.find_ref(name))}


def file_log(repository: Repository, start: str, paths: Sequence[str]) -> tuple[FileChange, ...]:
    """Return who changed the files among `start` and its ancestors, newest first; one process for all of them.

    Merge commits are passed over: what they bring was changed by the commits that they merge. Raises `StoreFailure`.
    """
    if not paths:
        return ()
    return _parse_log(_print_log(repository, start, (), paths if len(paths) <= FEW else ()), paths)[0]


def recent_log(repository: Repository, start: str, paths: Sequence[str], commits: int) -> FileLog:
    """Return what `file_log` does, of the newest commits only: much sooner, and enough for a patch of this year."""
    changes, times = _parse_log(_print_log(repository, start, (f"--max-count={commits}",), ()), paths)
    return FileLog(changes, times[-1] if len(times) == commits else None)


def _print_log(repository: Repository, start: str, options: Sequence[str], paths: Sequence[str]) -> bytes:
    env = {"GIT_DIR": str(repository.path), "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C", "HOME": "/nonexistent"}
    env["GIT_FLUSH"] = "0"  # a pipe is written in large pieces, not once a commit: half the time
    done = run_process([*SETTINGS, "log", *FORMAT, *options, start, "--", *paths], env=env)
    if done.exit_code:
        raise StoreFailure(f"{repository.path}: cannot read its history: {done.complaint}", "is the repository whole?")
    return done.stdout


def _parse_log(text: bytes, paths: Sequence[str]) -> tuple[tuple[FileChange, ...], list[int]]:
    """Return the changes of the files, and the times of all commits."""
    wanted = {os.fsencode(path): path for path in paths}
    changes: list[FileChange] = []
    times: list[int] = []
    commit = ""
    for line in text.splitlines():
        if line.startswith(b":"):
            fields, _, name = line.partition(b"\t")
            if (path := wanted.get(name)) is not None:
                old, new = (_blob(field) for field in fields.split(b" ")[2:4])
                changes.append(FileChange(commit, times[-1], path, old, new))
        elif line.startswith(b"commit "):
            commit = line[7:47].decode()
            times.append(int(line[48:]))
    return tuple(changes), times


def _blob(field: bytes) -> str:
    return "" if field == NO_BLOB else field.decode()


def find_renamed(repository: Repository, commit: str, path: str) -> str | None:
    """Return what a commit renamed a file to, None when it did not, or did not say so clearly."""
    opened = repository.opened
    parents = opened[commit].peel(pygit2.Commit).parents
    if not parents:
        return None
    try:
        found = opened.diff(parents[0], opened[commit].peel(pygit2.Commit))
        found.find_similar()
    except (KeyError, pygit2.GitError):  # a shallow or partial repository
        return None
    return next((delta.new_file.path for delta in found.deltas if _moves(delta, path)), None)


def _moves(delta: pygit2.DiffDelta, path: str) -> bool:
    return bool(delta.old_file.path == path and delta.status == pygit2.enums.DeltaStatus.RENAMED)
