"""Real git, as the reference that our own patches are held against."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.stack.bench import Desk
from tests.support.repositories import Files


@dataclass(frozen=True)
class RealGit:
    """`git diff` between trees of a repository, and `git apply` on plain folders."""

    folder: Path
    desk: Desk

    def diff(self, before: Files, after: Files, *options: str) -> bytes:
        """Return the diff between two sets of files."""
        trees = (self.desk.tree(before), self.desk.tree(after))
        return self._run("diff", "--binary", "--full-index", *options, *trees, cwd=self.desk.git.path).stdout

    def apply(self, files: Mapping[str, bytes], diff: bytes) -> dict[str, bytes] | None:
        """Return the files after `git apply`, None when it refuses."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            target = Path(name)
            for path, data in files.items():
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                (target / path).write_bytes(data)
            patch = self.folder / "patch.diff"
            patch.write_bytes(diff)
            if self._run("apply", str(patch), cwd=target, expect=(0, 1, 128)).returncode:
                return None
            return {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}

    def _run(self, *arguments: str, cwd: Path, expect: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[bytes]:
        env = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(self.folder), "LC_ALL": "C"}
        done = subprocess.run(["git", *arguments], cwd=cwd, env=env, capture_output=True, check=False)
        assert done.returncode in expect, done.stderr.decode()
        return done
