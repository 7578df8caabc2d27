"""What people use today, run as they run it: git am, git apply, git apply --3way, patch -F3, quilt push."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.patch_clone import run_git
from benchmarks.patch_drift import Case
from patchkit.tools.git.objects import Repository

TOOLS = ("git", "patch", "quilt")
ENVIRONMENT = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "LC_ALL": "C"}
AM = ("-c", "user.name=b", "-c", "user.email=b@example.org", "-c", "gc.auto=0", "am", "-q")


def missing_tools() -> list[str]:
    """Return the rivals that are not installed."""
    return [name for name in TOOLS if shutil.which(name) is None]


def call(folder: Path, *command: str, stdin: bytes = b"") -> int:
    """Run a program quietly and return its exit code."""
    done = subprocess.run(command, cwd=folder, env=ENVIRONMENT, input=stdin, capture_output=True, check=False)
    return done.returncode


def check_out(repository: Repository, tree: str, folder: Path) -> str:
    """Make a work tree with a repository of its own that holds a tree, and return its commit.

    Files whose content the clone lacks (a partial one) are left out.
    """
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / ".git/objects/info/alternates").write_text(
        f"{repository.path}/objects\n" + (repository.path / "objects/info/alternates").read_text()
    )
    files = ((path, entry) for path, entry in repository.walk(tree) if entry.mode != 0o160000)
    absent = [path for path, entry in files if not is_there(repository, entry.blob)]
    whole = repository.edit(tree, dict.fromkeys(absent))
    commit = repository.create_commit(whole, (), "base", 1_700_000_000)
    run_git(folder, "update-ref", "refs/heads/base", commit)
    subprocess.run(["git", "-C", str(folder), "checkout", "-q", "base"], check=True)
    return commit


def is_there(repository: Repository, blob: str) -> bool:
    """Return whether the clone holds a blob."""
    return blob in repository.opened


def apply_am(folder: Path, mails: bytes) -> int:
    """Apply mails with commits."""
    return call(folder, "git", *AM, stdin=mails)


def prepare_quilt(folder: Path, patches: Sequence[bytes]) -> None:
    """Write the patches as quilt wants them."""
    (folder / "patches").mkdir()
    names = [f"{number:04}.patch" for number in range(len(patches))]
    for name, data in zip(names, patches, strict=True):
        (folder / "patches" / name).write_bytes(data)
    (folder / "patches/series").write_text("".join(f"{name}\n" for name in names))


def push_quilt(folder: Path) -> int:
    """Apply all patches."""
    return call(folder, "quilt", "push", "-a", "-q", "--quiltrc", "/dev/null")


class DriftDesk:
    """One work tree in which each case's files are laid out for the rivals."""

    def __init__(self, repository: Repository, folder: Path) -> None:
        self.repository = repository
        self.folder = folder
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
        (folder / ".git/objects/info/alternates").write_text(
            f"{repository.path}/objects\n" + (repository.path / "objects/info/alternates").read_text()
        )

    def run(self, rival: str, case: Case) -> dict[str, bytes] | None:
        """Return the files that a rival made, None when it refused."""
        self._lay_out(case)
        commands = {
            "git apply": ("git", "apply"),
            "git apply --3way": ("git", "apply", "--3way"),
            "patch -F3": ("patch", "-p1", "-F3", "-s", "-f", "--no-backup-if-mismatch", "-r", "-"),
        }
        if rival == "git apply --3way":
            call(self.folder, "git", "add", "-f", *case.paths)
        if call(self.folder, *commands[rival], stdin=case.diff):
            return None
        return {path: (self.folder / path).read_bytes() for path in case.paths}

    def is_reversed(self, case: Case) -> bool:
        """Return whether `git apply -R --check` takes the case as upstream already."""
        self._lay_out(case)
        return call(self.folder, "git", "apply", "-R", "--check", stdin=case.diff) == 0

    def _lay_out(self, case: Case) -> None:
        (self.folder / ".git/index").unlink(missing_ok=True)
        shutil.rmtree(self.folder / "vllm", ignore_errors=True)
        tree = self.repository.read_commit(case.target).tree
        for path in case.paths:
            data = self.repository.read(tree, path)
            if data is not None:
                (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
                (self.folder / path).write_bytes(data)
