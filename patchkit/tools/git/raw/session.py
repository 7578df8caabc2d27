"""One thread's way into a repository: what it reads, the folders that it knows already, and what it has not stored yet.

A draft is a session whose objects are in memory. libgit2 sees them too, through a backend that is asked last; what
libgit2 itself writes (merges) goes to disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pygit2

from patchkit.tools.git.raw.packs import COMMIT, FEW, TREE, RawObject, object_id, write_pack
from patchkit.tools.git.raw.trees import ID_BYTES, Editor, Entry, Folder, find_entry, format_folder, parse_folder

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # known to every git, whether it is stored or not
FOLDERS = 4000  # that are kept: about the trees of ten commits of vLLM


class Session:
    """An opened repository. Objects are written at once."""

    def __init__(self, opened: pygit2.Repository) -> None:
        """Take a repository that pygit2 has opened, for this thread alone."""
        self.opened = opened
        self.odb = opened.odb
        self._folders: dict[str, Folder] = {}

    def read(self, key: str) -> RawObject:
        """Return an object. Raises `KeyError` when it is not there."""
        kind, data = self.odb.read(key)
        return RawObject(int(kind), data)

    def write(self, kind: int, data: bytes) -> str:
        """Store an object and return its id. Raises `OSError`, `pygit2.GitError`."""
        return str(self.odb.write(kind, data))

    def holds(self, key: str) -> bool:
        """Return whether an object is there."""
        return key == EMPTY_TREE or key in self.odb

    def read_folder(self, tree: str) -> Folder:
        """Return the entries of a tree, or of the tree of a commit or tag. Raises `KeyError` when it is not there."""
        found = self._folders.get(tree)
        if tree == EMPTY_TREE:
            return {}
        if found is None:
            if len(self._folders) >= FOLDERS:
                self._folders.clear()
            kind, data = self.read(tree)
            found = parse_folder(data) if kind == TREE else self.read_folder(self._peel(tree))
            self._folders[tree] = found
        return found

    def write_folder(self, folder: Folder) -> str:
        """Store a tree and return its id."""
        return self.write(TREE, format_folder(folder))

    def find(self, tree: str, path: str) -> tuple[str, Entry] | None:
        """Return the file at a path, or in the place of a folder above it; see `find_entry`."""
        return find_entry(self.read_folder, tree, path)

    def edit(self, tree: str, changes: Mapping[str, Entry | None]) -> str:
        """Return the tree with files set or deleted; see `Editor`."""
        nested = {tuple(path.split("/")): entry for path, entry in changes.items()}
        return Editor(self.read_folder, self.write_folder).edit(tree, nested)

    def settle(self, tree: str) -> str:
        """Return the id of a tree that may be a sketch."""
        return tree

    def _peel(self, key: str) -> str:
        return str(self.opened[key].peel(pygit2.Tree).id)


class Draft(Session):
    """A session over another one whose objects are in memory until `store` writes those that are worth keeping.

    In a rough draft a tree in which files are only replaced stays a sketch: a name for the tree before and the files,
    enough to be read and edited. It gets its id when more is asked of it. Sketches are not for comparing.
    """

    def __init__(self, below: Session, opened: pygit2.Repository, rough: bool = False) -> None:
        """Begin with nothing in memory; `opened` is the same repository as the one below, opened once more."""
        super().__init__(opened)
        self.below = below
        self.rough = rough
        self.objects: dict[str, RawObject] = {}
        self.sketches: dict[str, tuple[str, dict[str, Entry]]] = {}
        self.kept: list[str] = []
        self.odb.add_backend(_Memory(self.objects), 0)  # below files and packs, which are 1 and 2

    def read(self, key: str) -> RawObject:
        """Return an object. Raises `KeyError` when it is not there."""
        found = self.objects.get(key)
        return found if found is not None else self.below.read(key)

    def write(self, kind: int, data: bytes) -> str:
        """Take an object and return its id."""
        key = object_id(kind, data)
        self.objects[key] = RawObject(kind, data)
        return key

    def holds(self, key: str) -> bool:
        """Return whether an object is there."""
        return key in self.objects or self.below.holds(key)

    def read_folder(self, tree: str) -> Folder:
        """Return the entries of a tree. Raises `KeyError` when it is not there."""
        tree = self.settle(tree)
        return super().read_folder(tree) if tree in self.objects else self.below.read_folder(tree)

    def find(self, tree: str, path: str) -> tuple[str, Entry] | None:
        """Return the file at a path, or in the place of a folder above it; see `find_entry`."""
        base, files = self.sketches.get(tree, (tree, {}))
        found = (path, files[path]) if path in files else super().find(base, path)
        return found and (found[0], files.get(*found))

    def edit(self, tree: str, changes: Mapping[str, Entry | None]) -> str:
        """Return the tree with files set or deleted; see `Editor`. In a rough draft it may be a sketch."""
        base, files = self.sketches.get(tree, (tree, {}))
        replaced = {path: entry for path, entry in changes.items() if entry is not None and self._has(tree, path)}
        if not self.rough or len(replaced) < len(changes):
            return super().edit(tree, changes)
        sketch = f"sketch {len(self.sketches)}"
        self.sketches[sketch] = (base, {**files, **replaced})
        return sketch

    def _has(self, tree: str, path: str) -> bool:
        found = self.find(tree, path)
        return found is not None and found[0] == path

    def settle(self, tree: str) -> str:
        """Return the id of a tree that may be a sketch."""
        base, files = self.sketches.get(tree, (tree, {}))
        if files:
            base = super().edit(base, files)
            self.sketches[tree] = (base, {})
        return base

    def write_folder(self, folder: Folder) -> str:
        """Take a tree, which need not be read again, and return its id."""
        tree = super().write_folder(folder)
        self._folders[tree] = folder
        return tree

    def keep(self, *keys: str) -> None:
        """Have objects stored at the end, with all that they are made of."""
        self.kept += map(self.settle, keys)

    def store(self, path: Path) -> None:
        """Write what is kept below the repository at `path`. Raises `OSError`, `pygit2.GitError`."""
        wanted = self._reached()
        if self.kept and all(self.below.holds(key) for key in self.kept):  # the same was made before
            wanted = {key: one for key, one in wanted.items() if not self.below.holds(key)}
        if len(wanted) < FEW:
            for kind, data in wanted.values():
                self.below.write(kind, data)
        else:
            write_pack(path / "objects" / "pack", list(wanted.items()))

    def _reached(self) -> dict[str, RawObject]:
        """Return the objects in memory that are part of what is kept; what was kept last comes last."""
        known = {bytes.fromhex(key): key for key in self.objects}
        found: dict[str, RawObject] = {}
        waiting = list(self.kept)
        while waiting:
            key = waiting.pop()
            one = self.objects.get(key)
            if one is not None and key not in found:
                found[key] = one
                if one.kind == TREE:
                    ids = (raw[-ID_BYTES:] for raw in self.read_folder(key).values())
                    waiting += [known[one] for one in ids if one in known]
                elif one.kind == COMMIT:
                    waiting += _named_by(one.data)
        return dict(reversed(found.items()))


def _named_by(commit: bytes) -> list[str]:
    """Return the ids of a commit's tree and parents."""
    head = commit.split(b"\n\n", 1)[0].decode("utf-8", "replace")
    lines = (line.partition(" ") for line in head.split("\n"))
    return [value for name, _, value in lines if name in {"tree", "parent"}]


class _Memory(pygit2.OdbBackend):
    """Shows the objects of a draft to libgit2."""

    def __init__(self, objects: dict[str, RawObject]) -> None:
        super().__init__()
        self.objects = objects

    def read_cb(self, key: Any) -> tuple[int, bytes]:
        return tuple(self.objects[str(key)])  # type: ignore[return-value]

    def read_header_cb(self, key: Any) -> tuple[int, int]:
        kind, data = self.objects[str(key)]
        return kind, len(data)

    def read_prefix_cb(self, prefix: Any) -> tuple[int, bytes, pygit2.Oid]:
        (key,) = self._begun_by(str(prefix))
        return *self.objects[key], pygit2.Oid(hex=key)

    def exists_cb(self, key: Any) -> bool:
        return str(key) in self.objects

    def exists_prefix_cb(self, prefix: Any) -> pygit2.Oid:
        (key,) = self._begun_by(str(prefix))
        return pygit2.Oid(hex=key)

    def refresh_cb(self) -> None:
        """Have nothing to look up again."""

    def _begun_by(self, prefix: str) -> list[str]:
        found = [prefix] if prefix in self.objects else [key for key in self.objects if key.startswith(prefix)]
        if len(found) != 1:
            raise KeyError(prefix)
        return found
