"""Git objects in one bare repository, through pygit2: no process, no work tree, no index on disk.

Ids are full hexadecimal strings. Trees are edited into new trees, so nothing that has an id ever changes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pygit2
from pygit2.enums import RepositoryOpenFlag, SortMode

from patchkit.errors import StoreFailure
from patchkit.tools.git.paths import check_path
from patchkit.tools.git.raw.packs import BLOB, COMMIT
from patchkit.tools.git.raw.session import Draft, Session
from patchkit.tools.git.raw.trees import (
    FILE_MODES,
    Delta,
    Entry,
    decode_name,
    diff_trees,
    find_folder,
    walk_tree,
)

__all__ = ["FILE_MODES", "CommitRecord", "Delta", "Entry", "MergeOutcome", "Repository", "create_repository"]

SUBMODULE = 0o160000
COMMITTER = ("patchkit", "patchkit@localhost")  # fixed, so that equal inputs give equal commit ids on every machine

# As git itself, libgit2 trusts what it reads from a pack beyond zlib's own checksum: hashing each object again costs a
# third of the time that reading takes.
pygit2.option(pygit2.enums.Option.ENABLE_STRICT_HASH_VERIFICATION, False)
_OWNER_CHECK = threading.Lock()  # libgit2 has one owner check a process; it is off only while this lock is held


@dataclass(frozen=True)
class CommitRecord:
    """What a commit says of itself. Times are seconds since 1970 UTC; `author` is name and email."""

    id: str
    tree: str
    parents: tuple[str, ...]
    author_time: int
    commit_time: int
    subject: str
    author: tuple[str, str]


@dataclass(frozen=True)
class MergeOutcome:
    """A three-way merge: the merged tree, or None and the paths in conflict."""

    tree: str | None
    conflicts: tuple[str, ...]


Keep = Callable[..., None]  # takes ids of trees and commits


class Repository:
    """One bare repository of the store. Cheap to make, opened at first use once per thread, pickled as its path."""

    def __init__(self, path: Path) -> None:
        """Name the repository at a path; it need not exist yet."""
        self.path = path
        self._local = threading.local()

    def __reduce__(self) -> tuple[type[Repository], tuple[Path]]:
        """Pickle as the path."""
        return Repository, (self.path,)

    def find_commit(self, revision: str) -> str | None:
        """Return the id of the commit that a rev-parse expression names, or None; a leading '-' names nothing."""
        if not revision or revision.startswith("-") or "\0" in revision:
            return None
        try:
            return str(self.opened.revparse_single(revision).peel(pygit2.Commit).id)
        except (KeyError, ValueError, pygit2.GitError):
            return None

    def read_commit(self, commit: str) -> CommitRecord:
        """Return what a commit says. Raises `KeyError` when there is no such commit."""
        found = self.opened[commit].peel(pygit2.Commit)
        subject = found.raw_message.decode("utf-8", "replace").strip().split("\n\n", 1)[0]
        return CommitRecord(
            id=str(found.id),
            tree=str(found.tree_id),
            parents=tuple(str(parent) for parent in found.parent_ids),
            author_time=found.author.time,
            commit_time=found.commit_time,
            subject=subject.replace("\n", " "),
            author=(found.author.name, found.author.email),
        )

    def entry(self, tree: str, path: str) -> Entry | None:
        """Return the file at a path, None when there is none (or a folder). Raises `KeyError` for an unknown tree."""
        found = self.locate(tree, path)
        return found[1] if found is not None and found[0] == path else None

    def locate(self, tree: str, path: str) -> tuple[str, Entry] | None:
        """Return the file at a path or, where a file, symlink or submodule stands above it, that one; with its path.

        Raises `KeyError` for an unknown tree.
        """
        return self._session.find(tree, path)

    def read(self, tree: str, path: str) -> bytes | None:
        """Return the bytes of the file at a path (of a symlink: its target); None for all else."""
        found = self.entry(tree, path)
        return None if found is None or found.mode == SUBMODULE else self.read_blob(found.blob)

    def read_blob(self, blob: str) -> bytes:
        """Return the bytes of a blob. Raises `KeyError` when it is not there."""
        kind, data = self._session.read(blob)
        if kind != BLOB:
            raise KeyError(blob)
        return data

    def write_blob(self, data: bytes) -> str:
        """Store bytes and return their id. Raises `StoreFailure`."""
        with self.write_errors():
            return self._session.write(BLOB, data)

    def walk(self, tree: str) -> Iterator[tuple[str, Entry]]:
        """Yield every file with its path, recursively, in git's order (by bytes of the path)."""
        return walk_tree(self._session.read_folder, tree)

    def find_folder(self, tree: str, path: str) -> str | None:
        """Return the id of the tree of a folder, None when there is none: equal ids, equal folders."""
        return find_folder(self._session.read_folder, tree, path)

    def list_folder(self, tree: str, path: str) -> tuple[str, ...]:
        """Return the names in a folder ('' is the root), in git's order; none when it is not a folder."""
        read = self._session.read_folder
        found = find_folder(read, tree, path)
        return tuple(map(decode_name, read(found))) if found is not None else ()

    def edit(self, tree: str, changes: Mapping[str, Entry | None]) -> str:
        """Return the id of a tree with some files set or (None) deleted; folders that become empty vanish.

        Deleting what is not there changes nothing. Raises `ValueError` for a path that leaves the tree, lies below a
        file, symlink or submodule, or names a folder; `StoreFailure` when the tree cannot be written.
        """
        session = self._session
        for path, entry in changes.items():
            check_path(path)
            if entry is not None and entry.mode not in FILE_MODES:
                raise ValueError(f"{path}: {entry.mode:o} is no mode of a file")
            if entry is not None and entry.mode != SUBMODULE and not session.holds(entry.blob):
                raise StoreFailure(f"{self.path}: has no object {entry.blob}, which is to be {path}")
        with self.write_errors():
            return session.edit(tree, changes)

    def settle(self, tree: str) -> str:
        """Return the id of a tree that may be a sketch of a rough draft (see `draft`): only ids can be compared."""
        return self._session.settle(tree)

    def diff(self, old: str, new: str) -> tuple[Delta, ...]:
        """Return the paths that differ between two trees, in git's order; renames are a deletion and an addition."""
        return diff_trees(self._session.read_folder, old, new) if old != new else ()

    @contextmanager
    def draft(self, rough: bool = False) -> Iterator[Keep]:
        """Hold what this thread writes in memory, and yield what names the trees and commits worth keeping.

        They are stored, with all that they are made of, when the block ends; with an exception, or when nothing was
        named, nothing is. A draft inside a draft is part of it. In a rough one, `edit` may return a sketch of a tree,
        which is read and edited like it and has its id when asked for (`settle`). Raises `StoreFailure`.
        """
        below = self._session
        if isinstance(below, Draft):
            yield below.keep
            return
        draft = self._local.session = Draft(below, _open_repository(self.path), rough)
        try:
            yield draft.keep
        finally:
            self._local.session = below
        with self.write_errors():
            draft.store(self.path)

    def is_ancestor(self, old: str, new: str) -> bool:
        """Return whether `old` is `new` or one of its ancestors. Raises `KeyError` for an unknown commit."""
        return bool(self.opened[old].id == self.opened[new].id or self.opened.descendant_of(new, old))

    def parents_between(self, good: str, bad: str) -> dict[str, tuple[str, ...]]:
        """Return the ancestors of `bad` (itself too) that are not ancestors of `good`, each with all its parents.

        Oldest first, parents before children. A parent that is no key is `good` or one of its ancestors.
        """
        walker = self.opened.walk(bad, SortMode.TOPOLOGICAL | SortMode.REVERSE)
        walker.hide(good)
        return {str(commit.id): tuple(str(parent) for parent in commit.parent_ids) for commit in walker}

    def create_commit(self, tree: str, parents: tuple[str, ...], message: str, time_seconds: int) -> str:
        """Store a commit by the fixed committer, in UTC, and return its id; no ref moves. Raises `StoreFailure`."""
        session, tree = self._session, self.settle(tree)
        if missing := [one for one in (tree, *parents) if not session.holds(one)]:
            raise StoreFailure(f"{self.path}: has no object {missing[0]}, which a commit is to name")
        by = "{} <{}> {} +0000".format(*COMMITTER, time_seconds)
        head = [f"tree {tree}", *(f"parent {one}" for one in parents), f"author {by}", f"committer {by}"]
        with self.write_errors():
            return session.write(COMMIT, "\n".join([*head, "", message]).encode())

    def set_ref(self, name: str, commit: str) -> None:
        """Point a ref (its full name, refs/…) at a commit, replacing an earlier one. Raises `StoreFailure`."""
        with self.write_errors():
            self.opened.references.create(name, commit, force=True)

    def find_ref(self, name: str) -> str | None:
        """Return the commit that a ref (its full name, refs/…) points to, or None."""
        try:
            return str(self.opened.references[name].peel(pygit2.Commit).id)
        except (KeyError, ValueError, pygit2.GitError):
            return None

    def tags(self) -> dict[str, str]:
        """Return the commit of every tag by the tag's name; tags of other objects are left out."""
        names = [name for name in self.opened.references if name.startswith("refs/tags/")]
        return {name[10:]: commit for name in names if (commit := self.find_ref(name)) is not None}

    def merge_trees(self, base: str, ours: str, theirs: str) -> MergeOutcome:
        """Merge two trees that both come from `base`, renames followed. Raises `StoreFailure`.

        What is the same in `ours` need not be there (a partial clone).
        """
        trees = (self._tree(base), self._tree(ours), self._tree(theirs))
        with self.write_errors():
            index = self.opened.merge_trees(*trees)
        if not index.conflicts:
            try:
                return MergeOutcome(str(index.write_tree(self.opened)), ())
            except pygit2.GitError:  # it wants every file, also where nothing changed
                return MergeOutcome(self._edit_like(ours, index), ())
        sides = (side for conflict in index.conflicts for side in conflict if side is not None)
        return MergeOutcome(None, tuple(sorted({side.path for side in sides})))

    def _edit_like(self, tree: str, index: pygit2.Index) -> str:
        """Return the tree of an index, made from another: only what differs is written."""
        own = dict(self.walk(tree))
        wanted = {entry.path: Entry(int(entry.mode), str(entry.id)) for entry in index}
        changes: dict[str, Entry | None] = dict.fromkeys(own.keys() - wanted.keys())
        changes |= {path: entry for path, entry in wanted.items() if own.get(path) != entry}
        return self.edit(tree, changes)

    @contextmanager
    def write_errors(self) -> Iterator[None]:
        """Turn a failure to write objects into a `StoreFailure` that says where and what next."""
        try:
            yield
        except (OSError, pygit2.GitError) as error:
            hint = f"is there space on the disk of {self.path}, and may you write there?"
            raise StoreFailure(f"{self.path}: cannot write git objects: {error}", hint) from error

    @property
    def opened(self) -> pygit2.Repository:
        """Return this thread's pygit2 repository, for `tools` only."""
        return self._session.opened

    @property
    def _session(self) -> Session:
        session: Session | None = getattr(self._local, "session", None)
        if session is None:
            session = self._local.session = Session(_open_repository(self.path))
        return session

    def _tree(self, tree: str) -> pygit2.Tree:
        return self.opened[self.settle(tree)].peel(pygit2.Tree)


def create_repository(path: Path) -> Repository:
    """Make an empty bare repository (nothing happens when it is there) and return it. Raises `StoreFailure`."""
    repository = Repository(path)
    with repository.write_errors():
        pygit2.init_repository(path, bare=True)
    return repository


def _open_repository(path: Path) -> pygit2.Repository:
    """Open a repository whoever owns it: containers share stores between users, and no hook or filter runs here."""
    with _OWNER_CHECK:
        pygit2.option(pygit2.enums.Option.SET_OWNER_VALIDATION, False)
        try:
            return pygit2.Repository(str(path), RepositoryOpenFlag.NO_SEARCH)
        finally:
            pygit2.option(pygit2.enums.Option.SET_OWNER_VALIDATION, True)
