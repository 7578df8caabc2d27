"""From the pins of a tree to the commit of the other upstream that it is judged with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from patchkit.errors import RemoteUnavailable, RequestError
from patchkit.source.commit import Commit
from patchkit.source.pins.find import Pin, PinReader, Prefer
from patchkit.source.source import Source
from patchkit.tools.git.history import first_parents


@dataclass(frozen=True)
class Paired:
    """The commit of the other upstream, and the line that names it."""

    commit: Commit
    pin: Pin


@dataclass
class Pairing:
    """Which commit of one upstream (`sources`: its git first, then its releases) goes with each commit of another.

    A release that git has no tag for comes from the package index; a branch is taken as it was when the commit that
    names it was made. Answers are kept: most commits name what their parents name.
    """

    main: Source
    sources: Sequence[Source]
    prefer: Prefer = "newest"
    _known: dict[str, Commit | None] = field(default_factory=dict, repr=False)
    _line: list[tuple[str, int]] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        """Start with no file read."""
        self._reader = PinReader(self.main.repository, self.name, self.prefer)

    @property
    def name(self) -> str:
        """Return the recipe's name of the other upstream."""
        return self.sources[0].upstream

    def find(self, commit: Commit, tree: str = "") -> Paired | None:
        """Return what a commit, or a tree made from it, is paired with: the first pin that is there; None without.

        Raises `RemoteUnavailable` when only a remote that does not answer could tell.
        """
        for pin in self._reader.read(tree or commit.tree):
            if (found := self._resolve(pin, commit.time)) is not None:
                return Paired(found, pin)
        return None

    def movers(self, history: Mapping[str, Sequence[str]]) -> frozenset[str]:
        """Return the commits of a history whose preferred pin is not that of their first parent."""
        repository = self.main.repository
        refs: dict[str, str] = {}
        for commit in {*history, *(parents[0] for parents in history.values() if parents)}:
            pins = self._reader.read(repository.read_commit(commit).tree)
            refs[commit] = pins[0].ref if pins else ""
        return frozenset(commit for commit, parents in history.items() if parents and refs[commit] != refs[parents[0]])

    def _resolve(self, pin: Pin, time_seconds: int) -> Commit | None:
        if pin.kind == "branch":
            return self._at(pin.ref, time_seconds)
        if pin.ref not in self._known:
            sources = self.sources if pin.kind == "tag" else self.sources[:1]
            self._known[pin.ref] = next((found for source in sources if (found := _look_up(source, pin.ref))), None)
        return self._known[pin.ref]

    def _at(self, branch: str, time_seconds: int) -> Commit | None:
        """Return a branch as it was at a time: the newest of its first parents that was committed by then."""
        source = self.sources[0]
        if source.kind == "package" or branch:  # a release branch: its tag, which the same line names, is exact
            return None
        if not self._line:
            tip = source.repository.find_commit("HEAD")
            self._line = list(first_parents(source.repository, tip)) if tip else []
        found = next((commit for commit, made in self._line if made <= time_seconds), None)
        return None if found is None else source.resolve(found)


def _look_up(source: Source, ref: str) -> Commit | None:
    """Return the commit of a ref, None when the source has none of that name."""
    try:
        return source.resolve(ref)
    except RemoteUnavailable:
        raise
    except RequestError:
        return None
