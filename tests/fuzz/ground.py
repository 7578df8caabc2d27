"""A tree to apply spoiled patches to, and the rule: an error of ours, or a whole result; never half of one."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from patchkit.errors import PatchkitError
from patchkit.recipe.model import Change, RewriteStep
from patchkit.source.commit import Tree
from patchkit.stack.apply import apply_series
from patchkit.stack.series import StackPatch
from patchkit.tools.cache import digest_of
from tests.stack.bench import GivenFacts, RepositorySource
from tests.support.repositories import GitRepository

PYTHON = (
    "import os\n\n\ndef first(x):\n    if x:\n        return 1\n    return g(x)\n\n\ndef second(x):\n    return g(x)\n"
)
FILES: dict[str, str | bytes] = {
    "vllm/a.py": PYTHON,
    "vllm/b.py": PYTHON.replace("first", "third"),
    "vllm/crlf.py": PYTHON.replace("\n", "\r\n"),
    "vllm/end.txt": "one\ntwo",
    "vllm/latin.txt": b"gr\xfc\xdfe\nzwei\ndrei\n",
    "csrc/k.cu": "int f(int a) { return a; }\n",
    "data.bin": bytes(range(256)) * 4,
}
CHANGED: dict[str, str | bytes | None] = {
    "vllm/a.py": PYTHON.replace("return 1", "return 2"),
    "vllm/b.py": None,
    "vllm/moved.py": PYTHON.replace("first", "third").replace("return 1", "return 3"),
    "vllm/crlf.py": PYTHON.replace("return 1", "return 2").replace("\n", "\r\n"),
    "vllm/end.txt": "one\nzwei\n",
    "vllm/latin.txt": b"gr\xfc\xdfe\nZWEI\ndrei\n",
    "vllm/new.py": "x = 1\n",
    "csrc/k.cu": "int f(int a) { return a + 1; }\n",
    "data.bin": bytes(range(255, -1, -1)) * 4,
}


@dataclass(frozen=True)
class Ground:
    """The tree before, and the change to `CHANGED` as diffs and as mails."""

    source: RepositorySource
    base: Tree
    folder: Path
    texts: list[bytes]

    @classmethod
    def at(cls, folder: Path) -> Ground:
        """Make the repository and the texts."""
        git = GitRepository(folder / "repository")
        first, second = git.commit(FILES), git.commit(CHANGED, "change it\n\nbecause of that")
        ends = (first, second)
        texts = [
            _git(git, "diff", *ends),
            _git(git, "diff", "--binary", "--full-index", "-M", *ends),
            _git(git, "diff", "--no-prefix", "-U0", *ends),
            _git(git, "diff", *ends, "--", "vllm/a.py"),
            _git(git, "diff", *ends, "--", "vllm/end.txt", "vllm/latin.txt", "vllm/crlf.py"),
            _git(git, "format-patch", "--stdout", "--binary", f"{first}..{second}"),
        ]
        texts.append(texts[-1] * 2)
        source = RepositorySource(git)
        (folder / "patch").mkdir()
        return cls(source, source.tree(source.resolve(first)), folder / "patch", texts)

    def apply(self, change: Change, data: bytes, steps: tuple[RewriteStep, ...] = ()) -> None:
        """Apply a change whose file has these bytes, and hold what comes out against the rule."""
        (self.folder / "x.patch").write_bytes(data)
        key = digest_of(data.hex())
        patch = StackPatch("x.patch", self.folder, (change,), key, rewrites={"x.yaml": steps})
        try:
            result = apply_series(self.source, self.base, [patch], GivenFacts())  # type: ignore[arg-type]
        except PatchkitError:
            return
        (record,) = result.records
        repository = self.source.repository
        assert record.outcome.stands == (result.patched is not None)
        if result.patched is None:
            assert record.files == ()
            assert record.detail, "a patch that does not stand says why"
            return
        files = {path for path, _ in repository.walk(result.patched.id)}
        assert not any(set(path.split("/")) & {"", ".", "..", ".git"} for path in files)
        assert {delta.path for delta in repository.diff(self.base.id, result.patched.id)} == set(record.files)


def _git(git: GitRepository, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(git.path), *arguments], check=True, capture_output=True).stdout
