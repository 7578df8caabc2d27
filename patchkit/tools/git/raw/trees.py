"""Trees as git stores them: folders as bytes, edited and compared without an object for each entry.

A folder is a mapping from names to whole raw entries (`100644 name`, NUL, 20 bytes of id), in git's order: what an edit
does not touch is copied as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

FILE_MODES = frozenset({0o100644, 0o100755, 0o120000, 0o160000})  # file, executable, symlink, submodule: all git knows
TREE_MODE = b"40000"
ID_BYTES = 20

_ENTRY = re.compile(rb"([0-7]+ ([^\0]+)\0.{20})", re.DOTALL)
_FOLDER = TREE_MODE + b" "  # how the entry of a folder begins
_KINDS = {0o12: 0o120000, 0o16: 0o160000}  # by the upper digits of a mode

Folder = Mapping[bytes, bytes]


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a tree. `mode` is one of `FILE_MODES`; for a submodule `blob` is the commit it points to."""

    mode: int
    blob: str


@dataclass(frozen=True, slots=True)
class Delta:
    """A path that differs between two trees; None where the path is absent."""

    path: str
    old: Entry | None
    new: Entry | None


Changes = Mapping[tuple[str, ...], Entry | None]  # by the parts of the path
ReadFolder = Callable[[str], Folder]  # by the id of a tree; raises `KeyError`
WriteFolder = Callable[[Folder], str]  # to the id of the tree


def parse_folder(data: bytes) -> Folder:
    """Return the entries of a tree object by name. Raises `ValueError` for bytes that are none."""
    folder = {name: raw for raw, name in _ENTRY.findall(data)}
    if sum(map(len, folder.values())) != len(data):
        raise ValueError("a tree object that cannot be read")
    return folder


def format_folder(folder: Folder) -> bytes:
    """Return the tree object of a folder."""
    return b"".join(folder.values())


def find_entry(read: ReadFolder, tree: str, path: str) -> tuple[str, Entry] | None:
    """Return the file at a path, or in the place of a folder above it, with where it is; None when there is none."""
    *above, last = path.encode("utf-8", "surrogateescape").split(b"/")
    for depth, name in enumerate(above, 1):
        raw = read(tree).get(name)
        if raw is None:
            return None
        if not raw.startswith(_FOLDER):
            return "/".join(path.split("/")[:depth]), _entry_of(raw)
        tree = _id_of(raw)
    raw = read(tree).get(last)
    return None if raw is None or raw.startswith(_FOLDER) else (path, _entry_of(raw))


def find_folder(read: ReadFolder, tree: str, path: str) -> str | None:
    """Return the tree of the folder at a path ('' is the root), None when there is none."""
    for name in filter(None, path.encode("utf-8", "surrogateescape").split(b"/")):
        raw = read(tree).get(name)
        if raw is None or not raw.startswith(_FOLDER):
            return None
        tree = _id_of(raw)
    return tree


def walk_tree(read: ReadFolder, tree: str, prefix: str = "") -> Iterator[tuple[str, Entry]]:
    """Yield every file with its path, recursively, in git's order (by bytes of the path)."""
    for name, raw in read(tree).items():
        path = prefix + decode_name(name)
        if raw.startswith(_FOLDER):
            yield from walk_tree(read, _id_of(raw), path + "/")
        else:
            yield path, _entry_of(raw)


def decode_name(name: bytes) -> str:
    """Return a name as text; bytes that are no UTF-8 survive, as in `os.fsdecode`."""
    return name.decode("utf-8", "surrogateescape")


def diff_trees(read: ReadFolder, old: str, new: str) -> tuple[Delta, ...]:
    """Return the paths that differ, in git's order; only folders that differ are read."""
    found = sorted(_diff(read, old, new, ""), key=lambda delta: delta.path.encode("utf-8", "surrogateescape"))
    return tuple(found)


def _diff(read: ReadFolder, old: str, new: str, prefix: str) -> Iterator[Delta]:
    before, after = (read(tree) if tree else {} for tree in (old, new))
    for name in _differing(before, after):
        sides = before.get(name), after.get(name)
        path = prefix + decode_name(name)
        trees = ["" if raw is None or not raw.startswith(_FOLDER) else _id_of(raw) for raw in sides]
        if any(trees):
            yield from _diff(read, trees[0], trees[1], path + "/")
        files = [None if raw is None or raw.startswith(_FOLDER) else _entry_of(raw) for raw in sides]
        if any(files):
            yield Delta(path, files[0], files[1])


def _differing(before: Folder, after: Folder) -> Iterable[bytes]:
    """Return the names whose entries differ; in folders with the same names, made one from the other, that is quick."""
    if list(before) == list(after):
        pairs = zip(before, before.values(), after.values(), strict=True)
        return [name for name, old, new in pairs if old is not new and old != new]
    return [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]


# --- editing ---


@dataclass(frozen=True)
class Editor:
    """Makes trees out of trees, with what reads and writes them."""

    read: ReadFolder
    write: WriteFolder

    def edit(self, tree: str, changes: Changes) -> str:
        """Return the tree with files set or (None) deleted; folders that become empty vanish.

        Raises `ValueError` for a path below a file, symlink or submodule, and for one that names a folder.
        """
        return self.write(self._edit(tree, changes, ""))

    def _edit(self, tree: str, changes: Changes, where: str) -> Folder:
        """Rebuild one folder. Deeper changes come between deletions and additions, so that one can make room."""
        before = self.read(tree) if tree else {}
        folder = dict(before)
        here = {parts[0].encode(): entry for parts, entry in changes.items() if len(parts) == 1}
        deeper: dict[str, dict[tuple[str, ...], Entry | None]] = {}
        for (part, *rest), entry in changes.items():
            if rest:
                deeper.setdefault(part, {})[tuple(rest)] = entry
        for name in [name for name, entry in here.items() if entry is None and _holds_file(folder, name, where)]:
            del folder[name]
        for part, inner in deeper.items():
            self._edit_inner(folder, part, inner, where)
        for name, new in here.items():
            if new is not None:
                _holds_file(folder, name, where)
                folder[name] = b"%o %s\0%s" % (new.mode, name, bytes.fromhex(new.blob))
        return _in_order(before, folder, [*here, *(part.encode() for part in deeper)])

    def _edit_inner(self, folder: dict[bytes, bytes], part: str, inner: Changes, where: str) -> None:
        name = part.encode()
        raw = folder.get(name)
        if raw is not None and not raw.startswith(_FOLDER):
            raise ValueError(f"{where}{part}: is not a folder, so nothing can lie below it")
        if raw is None and all(entry is None for entry in inner.values()):
            return
        edited = self._edit(_id_of(raw) if raw is not None else "", inner, f"{where}{part}/")
        if edited:
            folder[name] = b"%s%s\0%s" % (_FOLDER, name, bytes.fromhex(self.write(edited)))
        elif raw is not None:
            del folder[name]


def _in_order(before: Folder, after: Folder, changed: Iterable[bytes]) -> Folder:
    """Return a folder in git's order, which it has where the same names are of the same kinds as before."""
    kinds = ((before.get(name, b"").startswith(_FOLDER), after.get(name, b"").startswith(_FOLDER)) for name in changed)
    if before.keys() == after.keys() and all(old == new for old, new in kinds):
        return after
    return dict(sorted(after.items(), key=_order))


def _holds_file(folder: Folder, name: bytes, where: str) -> bool:
    """Return whether a folder has a file of that name. Raises `ValueError` when it has a folder of that name."""
    raw = folder.get(name)
    if raw is not None and raw.startswith(_FOLDER):
        raise ValueError(f"{where}{decode_name(name)}: is a folder")
    return raw is not None


def _order(item: tuple[bytes, bytes]) -> bytes:
    name, raw = item
    return name + b"/" if raw.startswith(_FOLDER) else name


# --- entries ---


def _id_of(raw: bytes) -> str:
    return raw[-ID_BYTES:].hex()


def _entry_of(raw: bytes) -> Entry:
    return Entry(_mode_of(raw[: raw.index(b" ")]), _id_of(raw))


def _mode_of(text: bytes) -> int:
    """Return a mode as git reads it: trees of old programs hold others than the four, such as 100664."""
    mode = int(text, 8)
    if mode in FILE_MODES:
        return mode
    return _KINDS.get(mode >> 12, 0o100755 if mode & 0o100 else 0o100644)
