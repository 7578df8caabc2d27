"""The history behind one commit, file by file; asked once, kept as long as the value lives."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from patchkit.tools.git.log import FileChange, file_log
from patchkit.tools.git.objects import Repository


@dataclass(frozen=True)
class Image:
    """A file before a patch and after it, where the patch was made; `named` by the patch itself, else found to fit."""

    before: bytes
    after: bytes
    named: bool = True


Images = Mapping[int, Image]  # by the line of the file patch in its patch file, which no two share


@dataclass
class Lineage:
    """Commits that changed a file, among `commit` and its ancestors; `tip` is a newer commit, for what came later."""

    repository: Repository
    commit: str
    tip: str = ""
    expected: frozenset[str] = frozenset()  # files that will be asked for: read together with the first one
    changes: dict[str, tuple[FileChange, ...]] = field(default_factory=dict)
    images: dict[tuple[object, ...], Images] = field(default_factory=dict)  # of patches; see `find_images`
    newer: Lineage | None = None

    def prepare(self, paths: Collection[str]) -> None:
        """Read the history of several files at once."""
        missing = [path for path in dict.fromkeys(paths) if path not in self.changes]
        if not missing:
            return
        missing += [path for path in sorted(self.expected) if path not in self.changes and path not in missing]
        found: dict[str, list[FileChange]] = {path: [] for path in missing}
        for change in file_log(self.repository, self.commit, missing):
            if change.path in found:
                found[change.path].append(change)
        self.changes.update({path: tuple(changes) for path, changes in found.items()})

    def log(self, path: str) -> tuple[FileChange, ...]:
        """Return the changes of a file, newest first."""
        self.prepare([path])
        return self.changes[path]

    def later(self) -> Lineage | None:
        """Return the lineage of the tip, where that is another commit."""
        if not self.tip or self.tip == self.commit:
            return None
        if self.newer is None:
            self.newer = Lineage(self.repository, self.tip, expected=self.expected)
        return self.newer

    def contents(self, path: str) -> Iterator[bytes]:
        """Yield the contents that a file ever had, newest first; those that the repository lacks are passed over."""
        seen: set[str] = set()
        for change in self.log(path):
            for blob in (change.new, change.old):
                if blob and blob not in seen:
                    seen.add(blob)
                    if (data := self.read(blob)) is not None:
                        yield data

    def read(self, blob: str) -> bytes | None:
        """Return the bytes of a blob, None when the repository lacks it (a partial clone)."""
        try:
            return self.repository.read_blob(blob)
        except KeyError:
            return None
