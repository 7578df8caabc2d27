"""Git objects in one bare repository, through pygit2: no process, no work tree, no index on disk.

Ids are full hexadecimal strings. Trees are edited into new trees, so nothing that has an id ever changes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pygit2
from pygit2.enums import DiffOption, FileMode, RepositoryOpenFlag, SortMode

from patchkit.errors import StoreFailure
from patchkit.tools.git.paths import check_path

FILE_MODES = frozenset({0o100644, 0o100755, 0o120000, 0o160000})  # file, executable, symlink, submodule: all git knows
COMMITTER = ("patchkit", "patchkit@localhost")  # fixed, so that equal inputs give equal commit ids on every machine

_OWNER_CHECK = threading.Lock()  # libgit2 has one owner check a process; it is off only while this lock is held


@dataclass(frozen=True)
class Entry:
    """A file of a tree. `mode` is one of `FILE_MODES`; for a submodule `blob` is the commit it points to."""

    mode: int
    blob: str


@dataclass(frozen=True)
class Delta:
    """A path that differs between two trees; None where the path is absent."""

    path: str
    old: Entry | None
    new: Entry | None


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


Changes = Mapping[tuple[str, ...], Entry | None]  # by the parts of the path


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
        found = self._lookup(tree, path)
        return None if found is None or found.filemode == FileMode.TREE else _entry_of(found)

    def read(self, tree: str, path: str) -> bytes | None:
        """Return the bytes of the file at a path (of a symlink: its target); None for all else."""
        found = self._lookup(tree, path)
        return found.data if isinstance(found, pygit2.Blob) else None

    def read_blob(self, blob: str) -> bytes:
        """Return the bytes of a blob. Raises `KeyError` when it is not there."""
        if isinstance(found := self.opened[blob], pygit2.Blob):
            return bytes(found.data)
        raise KeyError(blob)

    def write_blob(self, data: bytes) -> str:
        """Store bytes and return their id. Raises `StoreFailure`."""
        with self.write_errors():
            return str(self.opened.create_blob(data))

    def walk(self, tree: str) -> Iterator[tuple[str, Entry]]:
        """Yield every file with its path, recursively, in git's order (by bytes of the path)."""
        yield from self._walk_folder(self._tree(tree), "")

    def list_folder(self, tree: str, path: str) -> tuple[str, ...]:
        """Return the names in a folder ('' is the root), in git's order; none when it is not a folder."""
        found = self._lookup(tree, path) if path else self._tree(tree)
        return tuple(str(entry.name) for entry in found) if isinstance(found, pygit2.Tree) else ()

    def edit(self, tree: str, changes: Mapping[str, Entry | None]) -> str:
        """Return the id of a tree with some files set or (None) deleted; folders that become empty vanish.

        Deleting what is not there changes nothing. Raises `ValueError` for a path that leaves the tree, lies below a
        file, symlink or submodule, or names a folder; `StoreFailure` when the tree cannot be written.
        """
        for path, entry in changes.items():
            check_path(path)
            if entry is not None and entry.mode not in FILE_MODES:
                raise ValueError(f"{path}: {entry.mode:o} is no mode of a file")
        nested = {tuple(path.split("/")): entry for path, entry in changes.items()}
        with self.write_errors():
            return str(self._edit_folder(self._tree(tree), nested, ""))

    def diff(self, old: str, new: str) -> tuple[Delta, ...]:
        """Return the paths that differ between two trees, in git's order; renames are a deletion and an addition."""
        if old == new:
            return ()
        found = self._tree(old).diff_to_tree(self._tree(new), flags=DiffOption.INCLUDE_TYPECHANGE)
        sides = ((delta.new_file.path, delta.old_file, delta.new_file) for delta in found.deltas)
        return tuple(Delta(path, _side_of(before), _side_of(after)) for path, before, after in sides)

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
        signature = pygit2.Signature(*COMMITTER, time_seconds, 0)
        with self.write_errors():
            return str(self.opened.create_commit(None, signature, signature, message, tree, list(parents)))

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
        """Merge two trees that both come from `base`, renames followed. Raises `StoreFailure`."""
        trees = (self._tree(base), self._tree(ours), self._tree(theirs))
        with self.write_errors():
            index = self.opened.merge_trees(*trees)
            if not index.conflicts:
                return MergeOutcome(str(index.write_tree(self.opened)), ())
        sides = (side for conflict in index.conflicts for side in conflict if side is not None)
        return MergeOutcome(None, tuple(sorted({side.path for side in sides})))

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
        opened = getattr(self._local, "repository", None)
        if opened is None:
            opened = self._local.repository = _open_repository(self.path)
        return opened

    def _tree(self, tree: str) -> pygit2.Tree:
        return self.opened[tree].peel(pygit2.Tree)

    def _lookup(self, tree: str, path: str) -> Any:
        """Return the pygit2 object at a path. A submodule's commit is not in the repository, hence Any and no read."""
        root = self._tree(tree)
        try:
            return root[path] if path and not path.startswith("/") else None
        except KeyError:
            return None

    def _walk_folder(self, folder: pygit2.Tree, prefix: str) -> Iterator[tuple[str, Entry]]:
        for found in folder:
            path = prefix + str(found.name)
            if isinstance(found, pygit2.Tree):
                yield from self._walk_folder(found, path + "/")
            else:
                yield path, _entry_of(found)

    def _edit_folder(self, folder: pygit2.Tree | None, changes: Changes, where: str) -> pygit2.Oid:
        """Rebuild one folder. Deeper changes come between deletions and additions, so that one can make room."""
        builder = self.opened.TreeBuilder(folder) if folder is not None else self.opened.TreeBuilder()
        here = {parts[0]: entry for parts, entry in changes.items() if len(parts) == 1}
        deeper: dict[str, dict[tuple[str, ...], Entry | None]] = {}
        for (name, *rest), entry in changes.items():
            if rest:
                deeper.setdefault(name, {})[tuple(rest)] = entry
        for name, entry in here.items():
            if entry is None and _holds_file(builder, name, where):
                builder.remove(name)
        for name, inner in deeper.items():
            self._edit_inner(builder, name, inner, where)
        for name, entry in here.items():
            if entry is not None:
                _holds_file(builder, name, where)
                builder.insert(name, entry.blob, entry.mode)
        return builder.write()

    def _edit_inner(self, builder: Any, name: str, inner: Changes, where: str) -> None:
        existing = builder.get(name)
        if existing is not None and existing.filemode != FileMode.TREE:
            raise ValueError(f"{where}{name}: is not a folder, so nothing can lie below it")
        if existing is None and all(entry is None for entry in inner.values()):
            return
        edited = self._edit_folder(existing and self._tree(str(existing.id)), inner, f"{where}{name}/")
        if len(self._tree(str(edited))):
            builder.insert(name, edited, FileMode.TREE)
        elif existing is not None:
            builder.remove(name)


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


def _entry_of(found: Any) -> Entry:
    return Entry(int(found.filemode), str(found.id))


def _side_of(side: Any) -> Entry | None:
    return Entry(int(side.mode), str(side.id)) if side.mode else None


def _holds_file(builder: Any, name: str, where: str) -> bool:
    """Return whether a folder has a file of that name. Raises `ValueError` when it has a folder of that name."""
    existing = builder.get(name)
    if existing is not None and existing.filemode == FileMode.TREE:
        raise ValueError(f"{where}{name}: is a folder")
    return existing is not None
