"""A tree while a patch is being applied: what stands in the base, with what the patch has written so far on top."""

from __future__ import annotations

from dataclasses import dataclass, field

from patchkit.tools.git.objects import Entry, Repository

SYMLINK, SUBMODULE = 0o120000, 0o160000
REGULAR = frozenset({0o100644, 0o100755})


@dataclass
class View:
    """Files by path; nothing is stored before `store`.

    A rename takes its source from the base, whatever happened to that path since: the parts of a git diff do not depend
    on their order, so two files can change places.
    """

    repository: Repository
    tree: str
    leaving: frozenset[str] = frozenset()  # what the patch renames: another file may take its place
    written: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    located: dict[str, tuple[str, Entry] | None] = field(default_factory=dict)  # in the base

    def read(self, path: str) -> tuple[int, bytes] | None:
        """Return mode and bytes of the file at a path, None when there is none. Submodules read as empty."""
        if path in self.written:
            return self.written[path]
        return None if path in self.deleted else self.read_base(path)

    def read_base(self, path: str) -> tuple[int, bytes] | None:
        """Return mode and bytes of a file before the patch; of one that only the patch made, as it is now."""
        entry = self._entry(path)
        if entry is None:
            return self.written.get(path)
        return entry.mode, b"" if entry.mode == SUBMODULE else self.repository.read_blob(entry.blob)

    def occupied(self, path: str) -> bool:
        """Return whether a rename or copy would overwrite something at a path."""
        free = path in self.deleted or path in self.leaving
        return path in self.written or (not free and self._entry(path) is not None)

    def write(self, path: str, mode: int, data: bytes) -> None:
        """Set a file."""
        self.written[path] = (mode, data)

    def delete(self, path: str) -> None:
        """Delete a file, also one that the patch made itself."""
        self.written.pop(path, None)
        self.deleted.add(path)

    def move_away(self, path: str) -> None:
        """Delete the base's file at a path, unless the patch has put another one there."""
        self.deleted.add(path)

    def obstacle(self, path: str) -> str:
        """Return why nothing may be written at a path: it is, or lies below, a symlink or submodule; else ''."""
        found = self._locate(path)
        if found is None or found[0] in self.deleted or found[1].mode in REGULAR:
            return ""
        above, entry = found
        return f"{above} is a {'submodule' if entry.mode == SUBMODULE else 'symlink'}, which no patch may touch"

    def _entry(self, path: str) -> Entry | None:
        found = self._locate(path)
        return found[1] if found is not None and found[0] == path else None

    def _locate(self, path: str) -> tuple[str, Entry] | None:
        if path not in self.located:
            self.located[path] = self.repository.locate(self.tree, path)
        return self.located[path]

    def store(self) -> str:
        """Store the files and return the id of the new tree.

        Raises `ValueError` where files and folders are in each other's way.
        """
        changes: dict[str, Entry | None] = dict.fromkeys(self.deleted)
        for path, (mode, data) in self.written.items():
            changes[path] = Entry(mode, self.repository.write_blob(data))
        return self.repository.edit(self.tree, changes)
