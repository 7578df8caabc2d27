"""The history behind one commit, file by file; asked once, kept as long as the value lives."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from patchkit.tools.git.log import FileChange, file_log, recent_log
from patchkit.tools.git.objects import Repository

RECENT = 3000  # commits: three months of vLLM; reading all of its history takes four times as long


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
    newest: dict[str, tuple[FileChange, ...]] = field(default_factory=dict)  # among the `RECENT` newest commits
    reach: int | None = None  # the time of the oldest of these; None when they are all
    changes: dict[str, tuple[FileChange, ...]] = field(default_factory=dict)  # among all commits
    images: dict[tuple[object, ...], Images] = field(default_factory=dict)  # of patches; see `find_images`
    newer: Lineage | None = None

    def prepare(self, paths: Collection[str]) -> None:
        """Read the newest changes of several files at once."""
        missing = self._with_expected(paths, self.newest)
        if missing:
            log = recent_log(self.repository, self.commit, missing, RECENT)
            self.newest.update(_by_path(log.changes, missing))
            self.reach = log.reach
            if log.reach is None:
                self.changes.update({path: self.newest[path] for path in missing})

    def log(self, path: str) -> tuple[FileChange, ...]:
        """Return the changes of a file, newest first."""
        missing = self._with_expected([path], self.changes)
        if missing:
            self.changes.update(_by_path(file_log(self.repository, self.commit, missing), missing))
        return self.changes[path]

    def recent(self, path: str, since: int = 0) -> Iterator[FileChange]:
        """Yield the changes of a file, newest first; for those before the time `since` history is not read."""
        self.prepare([path])
        yield from self.newest[path]
        if self.reach is not None and self.reach >= since:
            seen = {change.commit for change in self.newest[path]}
            yield from (change for change in self.log(path) if change.commit not in seen)

    def _with_expected(self, paths: Collection[str], known: Collection[str]) -> list[str]:
        """Return the paths that are not known, with all others that will be asked for; none when all are."""
        missing = [path for path in dict.fromkeys(paths) if path not in known]
        return list(dict.fromkeys([*missing, *sorted(self.expected.difference(known))])) if missing else []

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
        for change in self.recent(path):
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


def _by_path(changes: Sequence[FileChange], paths: Sequence[str]) -> dict[str, tuple[FileChange, ...]]:
    found: dict[str, list[FileChange]] = {path: [] for path in paths}
    for change in changes:
        found[change.path].append(change)
    return {path: tuple(some) for path, some in found.items()}
