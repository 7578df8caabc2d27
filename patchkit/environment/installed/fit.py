"""A series on the files of one distribution: its own version decides the conditions, its own files are the base."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from patchkit.environment.installed.carried import LeftOut, carry_series, tell_left_out
from patchkit.environment.installed.change import Standing
from patchkit.source.commit import Tree
from patchkit.source.installed.distribution import Distribution
from patchkit.source.installed.installed_source import InstalledSource, TakenShelf
from patchkit.source.installed.trees import store_commit
from patchkit.source.source import FactSettings
from patchkit.stack.apply import apply_series
from patchkit.stack.outcome import SeriesResult
from patchkit.stack.series import StackPatch
from patchkit.tools.toolkit import Toolkit


@dataclass(frozen=True)
class Subject:
    """A distribution as an upstream of a recipe, with its files as upstream made them."""

    upstream: str
    distribution: Distribution
    contents: Mapping[str, bytes]


@dataclass(frozen=True)
class Fitted:
    """What became of a series on a distribution; `contents` are the files that differ from the base (None: gone)."""

    upstream: str
    label: str
    base: Tree
    result: SeriesResult
    left_out: tuple[LeftOut, ...]
    contents: Mapping[str, bytes | None]

    def standing(self, recipe: str) -> Standing | None:
        """Return it as what is to stand, None when a patch of it does not."""
        if (patched := self.result.patched) is None:
            return None
        series = tuple(
            {"patch": one.patch, "sha256": one.sha256, "outcome": one.outcome.value} for one in self.result.records
        )
        return Standing(recipe, self.base.commit.id, patched.id, series, self.contents)


def fit_series(toolkit: Toolkit, subject: Subject, series: Sequence[StackPatch], settings: FactSettings) -> Fitted:
    """Apply a series to a distribution; nothing but objects is written to the store."""
    distribution = subject.distribution
    commit, repository = store_commit(toolkit, subject.upstream, distribution, subject.contents)
    source = InstalledSource(subject.upstream, repository, TakenShelf(distribution.name, commit))
    base, facts = source.tree(commit), source.facts(commit, settings)
    carried = carry_series(series, facts, distribution.carries)
    result = tell_left_out(apply_series(source, base, carried.series, facts), carried.left_out)
    after = base.id if result.patched is None else result.patched.id
    changed: dict[str, bytes | None] = {
        delta.path: None if delta.new is None else repository.read_blob(delta.new.blob)
        for delta in repository.diff(base.id, after)
    }
    return Fitted(subject.upstream, distribution.label, base, result, carried.left_out, changed)
