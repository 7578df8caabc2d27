"""From where to where a patch applies: dry runs, which need nothing but the files that the patches name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from patchkit.recipe.condition import Facts
from patchkit.source.commit import Commit
from patchkit.source.source import FactSettings, Source
from patchkit.stack.apply import walk_series
from patchkit.stack.change import Ground
from patchkit.stack.lineage.lineage import Lineage
from patchkit.stack.lineage.upstreamed import find_upstreamed
from patchkit.stack.outcome import Outcome
from patchkit.stack.series import StackPatch
from patchkit.stack.status.examine import commit_at, diffs_of, paths_of
from patchkit.tools.git.objects import Repository

SAME = {Outcome.OFFSET: Outcome.CLEAN, Outcome.PARTLY_UPSTREAMED: Outcome.CLEAN}  # of no interest in a window


@dataclass(frozen=True)
class Segment:
    """Commits in a row at which a patch stands alike; `first` and `last` are ids, both are in it."""

    outcome: Outcome
    first: str
    last: str
    commits: int


@dataclass(frozen=True)
class Window:
    """A patch over a range of commits, oldest first."""

    patch: str
    segments: tuple[Segment, ...]


@dataclass
class DryRun:
    """A series tried at many commits of one history. `lineage` is that of the newest: it knows what patches were for.

    Trees that are alike in the files that the series names are tried once.
    """

    source: Source
    series: tuple[StackPatch, ...]
    settings: FactSettings
    lineage: Lineage
    known: dict[tuple[object, ...], tuple[Outcome, ...]] = field(default_factory=dict)

    def outcomes(self, commit: str) -> tuple[Outcome, ...]:
        """Return what would become of each patch at a commit, whoever may have taken it since."""
        at, facts = self._facts(commit)
        paths = sorted({path for patch in self.series for path in paths_of(patch, facts)})
        state = find_state(self.source.repository, at.tree, paths)
        key = (state, at.version) if self._asks else (state,)
        if key not in self.known or self._is_whole:
            ground = Ground(self.source, at, at.tree, self.lineage, dry=True)
            with self.source.repository.draft(rough=True):
                self.known[key] = tuple(step.record.outcome for step in walk_series(ground, self.series, facts))
        return self.known[key]

    @property
    def _asks(self) -> bool:
        """Return whether a condition has to be decided, so that the version counts."""
        return any(patch.when or any(change.when for change in patch.changes) for patch in self.series)

    @property
    def _is_whole(self) -> bool:
        """Return whether a change or condition looks at more of the tree than at the files that patches name."""
        kinds = {kind for patch in self.series for change in patch.changes for kind in change.model_fields_set}
        return bool(self._asks or kinds & {"revert", "cherry_pick", "pull", "file"})

    def _facts(self, commit: str) -> tuple[Commit, Facts]:
        at = self.source.resolve(commit) if self._asks else commit_at(self.source, commit)
        return at, self.source.facts(at, self.settings)


def find_state(repository: Repository, tree: str, paths: Sequence[str]) -> tuple[object, ...]:
    """Return what decides whether a diff of some files applies to a tree: what stands at each name, or above it."""
    return tuple(repository.locate(tree, path) or repository.find_folder(tree, path) for path in paths)


def find_window(run: DryRun, history: Mapping[str, Sequence[str]], start: str) -> Window:
    """Return how the last patch of a run stands from `start` over a history that begins behind it.

    Only commits that change its files are tried; what upstream took meanwhile is already upstream from there on.
    """
    patch = run.series[-1]
    _, facts = run._facts(run.lineage.commit)
    order = [start, *history]
    place = {commit: index for index, commit in enumerate(order)}
    turns = {place[commit] for path in paths_of(patch, facts) for commit in _changing(run, path, place)}
    steps = [(index, run.outcomes(order[index])[-1]) for index in sorted({0, *turns})]
    steps = _taken(run, steps, place, diffs_of(patch, facts) != ())
    segments: list[Segment] = []
    for number, (index, outcome) in enumerate(steps):
        end = steps[number + 1][0] if number + 1 < len(steps) else len(order)
        plain = SAME.get(outcome, outcome)
        if segments and segments[-1].outcome is plain:
            before = segments.pop()
            segments.append(Segment(plain, before.first, order[end - 1], before.commits + end - index))
        else:
            segments.append(Segment(plain, order[index], order[end - 1], end - index))
    return Window(patch.name, tuple(segments))


def with_required(series: Sequence[StackPatch], patch: StackPatch) -> tuple[StackPatch, ...]:
    """Return a patch behind those of the series that it requires, and that these require."""
    wanted = {patch.name}
    for one in reversed(series):
        if one.name in wanted:
            wanted |= set(one.requires)
    return (*(one for one in series if one.name in wanted and one is not patch), patch)


def _changing(run: DryRun, path: str, place: Mapping[str, int]) -> list[str]:
    return [change.commit for change in run.lineage.log(path) if change.commit in place]


def _taken(
    run: DryRun, steps: list[tuple[int, Outcome]], place: Mapping[str, int], is_diff: bool
) -> list[tuple[int, Outcome]]:
    """Return the steps with those that do not stand whole after upstream took the patch told as that."""
    open_ends = [index for index, outcome in steps if not outcome.stands or outcome is Outcome.PARTLY_UPSTREAMED]
    if not is_diff or not open_ends:
        return steps
    _, facts = run._facts(run.lineage.commit)
    taken = find_upstreamed(run.lineage, diffs_of(run.series[-1], facts))
    since = place.get(taken.commit, 0) if taken else len(place)
    return [
        (index, Outcome.ALREADY_UPSTREAM if index >= since and index in open_ends else outcome)
        for index, outcome in steps
    ]
