"""What history says of a range: which commits change which files, and the line of first parents behind a commit."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

from pygit2.enums import SortMode

from patchkit.tools.git.objects import Repository
from patchkit.tools.process import run_process

MARK = re.compile(rb"\x01(?=[0-9a-f]{40,64}\0)")  # begins a commit in the output; with -z git quotes no path


def commits_touching(repository: Repository, good: str, bad: str, wanted: Callable[[str], bool]) -> frozenset[str]:
    """Return the commits in `bad` and not in `good` that change a path that is wanted, merges by their first parent.

    Empty when git cannot tell (a repository with objects missing): whoever asks may only prefer, never exclude.
    """
    git = ["git", "--git-dir", str(repository.path), "log", "-z", "--no-show-signature", "--name-only", "--no-renames"]
    command = [*git, "--diff-merges=first-parent", "--format=%x01%H", f"{good}..{bad}", "--"]
    result = run_process(command)
    found = set()
    for entry in MARK.split(result.stdout)[1:] if result.exit_code == 0 else ():
        commit, *names = entry.split(b"\0")
        if any(wanted(os.fsdecode(name.lstrip(b"\n"))) for name in names if name.strip()):
            found.add(commit.decode())
    return frozenset(found)


def first_parents(repository: Repository, tip: str) -> Iterator[tuple[str, int]]:
    """Yield a commit, its first parent, and so on, each with its committer's time (seconds since 1970 UTC)."""
    walker = repository.opened.walk(tip, SortMode.TOPOLOGICAL)
    walker.simplify_first_parent()
    for commit in walker:
        yield str(commit.id), commit.commit_time
