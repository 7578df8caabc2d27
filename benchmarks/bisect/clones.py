"""Clones of real repositories that may lack large files: as a mirror of the store, and what git says of them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from patchkit.tools.git.mirror import Mirror
from patchkit.tools.git.objects import Repository
from patchkit.tools.toolkit import Toolkit

NEEDED = "needs --clones DIR with clones of the real repositories"


def read_or_empty(
    repository: Repository, blob: str, read: Callable[[Repository, str], bytes] = Repository.read_blob
) -> bytes:
    """Return a file's content, empty where the clone lacks it."""
    try:
        return read(repository, blob)
    except KeyError:
        return b""


def place_mirror(toolkit: Toolkit, clone: Path) -> None:
    """Put a clone where the mirror of its path lies: one that lacks objects cannot be cloned."""
    mirror = Mirror(toolkit, str(clone))
    if not mirror.exists():
        shutil.copytree(clone, mirror.path, copy_function=os.link, symlinks=True)


def ask_git(clone: Path, *arguments: str, text: str | None = None) -> str:
    """Return what git says in a clone."""
    command = ["git", "--git-dir", str(clone), *arguments]
    return subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout


def missing_paths(clone: Path, commit: str) -> list[str]:
    """Return the files of a commit whose content the clone lacks."""
    entries = [line.split("\t", 1) for line in ask_git(clone, "ls-tree", "-r", commit).splitlines() if " blob " in line]
    wanted = "".join(f"{head.split()[2]}\n" for head, _ in entries)
    answers = ask_git(clone, "cat-file", "--batch-check", text=wanted).splitlines()
    return [path for (_, path), answer in zip(entries, answers) if answer.endswith("missing")]


def find_clone(clones: Path, repository: str) -> Path:
    """Return the clone of a repository."""
    clone = clones / repository.replace("/", "+")
    return clone / "repo" if (clone / "repo").is_dir() else clone
