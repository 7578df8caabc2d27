"""Real git, as the reference that our own patches are held against."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RealGit:
    """`git diff` and `git apply` on plain folders below one folder."""

    folder: Path

    def diff(self, before: Mapping[str, bytes], after: Mapping[str, bytes], *options: str) -> bytes:
        """Return the diff between two sets of files."""
        self._fill("a", before)
        self._fill("b", after)
        arguments = ("diff", "--no-index", "--no-prefix", "--binary", "--full-index", *options, "a", "b")
        return self._run(*arguments, expect=(0, 1)).stdout

    def apply(self, files: Mapping[str, bytes], diff: bytes) -> dict[str, bytes] | None:
        """Return the files after `git apply`, None when it refuses."""
        target = self._fill("target", files)
        patch = self.folder / "patch.diff"
        patch.write_bytes(diff)
        if self._run("apply", str(patch), cwd=target, expect=(0, 1, 128)).returncode:
            return None
        return {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}

    def _fill(self, name: str, files: Mapping[str, bytes]) -> Path:
        root = self.folder / name
        if root.exists():
            subprocess.run(["rm", "-r", str(root)], check=True)
        root.mkdir()
        for path, data in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)
        return root

    def _run(
        self, *arguments: str, cwd: Path | None = None, expect: tuple[int, ...] = (0,)
    ) -> subprocess.CompletedProcess[bytes]:
        env = {
            "GIT_CONFIG_NOSYSTEM": "1",
            "HOME": str(self.folder),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LC_ALL": "C",
        }
        done = subprocess.run(["git", *arguments], cwd=cwd or self.folder, env=env, capture_output=True, check=False)
        assert done.returncode in expect, done.stderr.decode()
        return done
