"""The key of a build: everything that the compiled files depend on, and nothing else.

BuildKey = hash of the native inputs after patching, the interpreter's ABI, torch, the target's architecture and what
the recipe says of the build. Trees that differ in Python files only have the same key and share one build.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchkit.environment.local import Interpreter
from patchkit.recipe.model.native import NativeSpec
from patchkit.source.commit import Commit
from patchkit.stack.paths import matches
from patchkit.tools.cache import digest_of
from patchkit.tools.git.objects import Entry, Repository

ANYWHERE = frozenset("*?[")


@dataclass(frozen=True)
class NativeRequest:
    """What needs compiled files: a patched tree of a commit. `built_from` is the tree that `installed:` names."""

    spec: NativeSpec
    commit: Commit
    arch: str | None
    repository: Repository
    base_tree: str  # the commit's own
    tree: str  # with the series
    built_from: str | None = None

    def inputs(self, tree: str) -> dict[str, str]:
        """Return the native inputs of a tree, path to content."""
        return read_inputs(self.repository, tree, self.spec.inputs)


def read_inputs(repository: Repository, tree: str, globs: Sequence[str]) -> dict[str, str]:
    """Return what a tree has of the native inputs: path to content. Globs are anchored at the root of the tree.

    A whole folder (`csrc/**`) is one entry: its tree says it all, and 10,000 commits are keyed without reading it.
    """
    found: dict[str, str] = {}
    for glob in (one.lstrip("/") for one in globs):
        if glob.endswith("/**") and not ANYWHERE & set(glob[:-3]):
            folder = repository.find_folder(tree, glob[:-3])
            found |= {glob: folder} if folder is not None else {}
        elif not ANYWHERE & set(glob):
            entry = repository.entry(tree, glob)
            found |= {glob: _text(entry)} if entry is not None else {}
        else:
            found |= {
                path: _text(entry) for path, entry in _below(repository, tree, glob) if matches(path, [f"/{glob}"])
            }
    return found


def _below(repository: Repository, tree: str, glob: str) -> Iterator[tuple[str, Entry]]:
    """Yield the files among which the matches of a glob are."""
    if "**" in glob or glob.count("/") > 1:
        yield from repository.walk(tree)
        return
    folder, slash, _ = glob.rpartition("/")
    for name in repository.list_folder(tree, folder):
        path = f"{folder}{slash}{name}"
        if (entry := repository.entry(tree, path)) is not None:
            yield path, entry


def _text(entry: Entry) -> str:
    return f"{entry.mode:o} {entry.blob}"


def build_key(spec: NativeSpec, arch: str | None, interpreter: Interpreter, inputs: Mapping[str, str]) -> str:
    """Name a build: equal keys, equal compiled files."""
    return digest_of(
        {
            "inputs": dict(inputs),
            "abi": interpreter.build,
            "torch": interpreter.packages.get("torch"),
            "arch": arch,
            "outputs": list(spec.outputs),
            "how": [spec.installed, spec.wheel, list(spec.build or ()), dict(spec.env)],
        }
    )
