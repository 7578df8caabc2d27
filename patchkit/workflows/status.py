"""How a recipe's series, or a loose diff, stands against other commits; where it stops applying, and since when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchkit.errors import RequestError
from patchkit.pipeline import open_recipe, resolve_commit, source_of
from patchkit.recipe.model import ChangePatch, Upstream
from patchkit.search import Answer, Contradiction, build_graph, find_turn
from patchkit.search.state import Seen
from patchkit.source.commit import Commit
from patchkit.source.open import open_source
from patchkit.source.source import FactSettings, Preference, Source
from patchkit.stack.lineage.breaker import Touch
from patchkit.stack.lineage.lineage import Lineage
from patchkit.stack.series import StackPatch, freeze_pulls, load_series
from patchkit.stack.status.examine import commit_at, examine_series
from patchkit.stack.status.model import RefStatus
from patchkit.stack.status.window import DryRun, Window, find_window, with_required
from patchkit.tools.cache import digest_file
from patchkit.tools.toolkit import Toolkit


@dataclass(frozen=True)
class StatusRequest:
    """What to look at. `git`: `recipe` is a diff for this repository, whose names lose `strip` parts."""

    recipe: Path
    against: tuple[str, ...] = ()
    span: str | None = None  # A..B
    first_conflict: bool = False
    source: Preference = "auto"
    git: str | None = None
    strip: int = 1


@dataclass(frozen=True)
class FirstConflict:
    """The first commit at which a patch that stood does not: `by` is None where that cannot be told, see `detail`."""

    patch: str
    at: str
    by: Touch | None
    last_good: str
    detail: str
    probes: int


@dataclass(frozen=True)
class StatusReport:
    """The series against each commit asked for, the windows of `--range`, and the first conflicts."""

    refs: tuple[RefStatus, ...]
    windows: tuple[Window, ...]
    first_conflicts: tuple[FirstConflict, ...]

    @property
    def stands(self) -> bool:
        """Return whether every patch stands against every commit."""
        return all(ref.stands for ref in self.refs)


@dataclass(frozen=True)
class _Subject:
    """What is looked at: patches of one source, and the commit that they are made for (None: not known)."""

    source: Source
    series: tuple[StackPatch, ...]
    settings: FactSettings
    own: Commit | None


def tell_status(toolkit: Toolkit, request: StatusRequest) -> StatusReport:
    """Look at the series against every commit of the request; nothing is written but objects of the store.

    Raises `RequestError` for an unknown ref, and for a range where there is no history.
    """
    subject = _open_diff(toolkit, request) if request.git is not None else _open_recipe(toolkit, request)
    ends = _ends(subject, request.span)
    refs = [subject.source.resolve(ref) for ref in request.against] or [ends[1] if ends else _own(subject)]
    found = tuple(_examine(toolkit, subject, ref) for ref in refs)
    windows = _windows(toolkit, subject, ends) if ends else ()
    conflicts: list[FirstConflict] = []
    if request.first_conflict:
        good = ends[0] if ends else _own(subject)
        conflicts = [one for ref in found for one in _first_conflicts(toolkit, subject, good, ref)]
        conflicts = [_within(subject, one, ends[1], windows) if ends else one for one in conflicts]
    return StatusReport(found, windows, tuple(conflicts))


def _open_recipe(toolkit: Toolkit, request: StatusRequest) -> _Subject:
    opened = open_recipe(toolkit, request.recipe, request.source)
    upstream = opened.loaded.recipe.main_upstream
    others = [patch.name for name in opened.sources if name != upstream for patch in load_series(opened.loaded, name)]
    if others:
        toolkit.progress.warn(f"not looked at, since not for {upstream}: {', '.join(others)}")
    heads = {pull.pull: pull.commit for pull in (opened.lock.pulls if opened.lock else ()) if pull.upstream == upstream}
    series = freeze_pulls(load_series(opened.loaded, upstream), heads)
    return _Subject(source_of(opened, upstream), series, opened.settings, resolve_commit(opened))


def _open_diff(toolkit: Toolkit, request: StatusRequest) -> _Subject:
    path = request.recipe
    if not path.is_file():
        raise RequestError(f"{path}: there is no such file", "with --git, name a diff")
    source = open_source(toolkit, "upstream", Upstream(git=request.git, ref="HEAD"), "git")
    change = ChangePatch.model_validate({"patch": path.name, "strip": request.strip})
    patch = StackPatch(path.name, path.parent, (change,), digest_file(path))
    return _Subject(source, (patch,), FactSettings(), None)


def _own(subject: _Subject) -> Commit:
    if subject.own is None:
        raise RequestError("a diff alone says not which commit it is for", "--against REF, or --range A..B")
    return subject.own


def _ends(subject: _Subject, span: str | None) -> tuple[Commit, Commit] | None:
    if span is None:
        return None
    first, dots, last = span.partition("..")
    if not (first and dots and last) or last.startswith("."):
        raise RequestError(f"--range {span}: is no range", "two commits or releases with two dots between: A..B")
    return subject.source.resolve(first), subject.source.resolve(last)


def _examine(toolkit: Toolkit, subject: _Subject, commit: Commit) -> RefStatus:
    toolkit.progress.step(f"series against {commit.name}")
    source = subject.source
    return examine_series(source, source.tree(commit), subject.series, source.facts(commit, subject.settings))


def _dry_run(subject: _Subject, series: Sequence[StackPatch], newest: Commit) -> DryRun:
    repository = subject.source.repository
    lineage = Lineage(repository, newest.id, repository.find_commit("HEAD") or "")
    return DryRun(subject.source, tuple(series), subject.settings, lineage)


def _windows(toolkit: Toolkit, subject: _Subject, ends: tuple[Commit, Commit]) -> tuple[Window, ...]:
    history = subject.source.history(*ends)
    found = []
    for patch in subject.series:
        toolkit.progress.step(f"{patch.name} over {len(history)} commits")
        run = _dry_run(subject, with_required(subject.series, patch), ends[1])
        found.append(find_window(run, history, ends[0].id))
    return tuple(found)


def _first_conflicts(toolkit: Toolkit, subject: _Subject, good: Commit, ref: RefStatus) -> list[FirstConflict]:
    """Bisect for each patch that does not stand; dry runs are shared."""
    failing = [index for index, patch in enumerate(ref.patches) if not patch.outcome.stands]
    if not failing:
        return []
    run = _dry_run(subject, subject.series, ref.commit)
    history = subject.source.history(good, ref.commit)
    toolkit.progress.step(f"first conflict in {len(history)} commits")
    return [_bisect(run, index, history, (good.id, ref.commit)) for index in failing]


def _within(subject: _Subject, found: FirstConflict, end: Commit, windows: Sequence[Window]) -> FirstConflict:
    """Return the first conflict of a patch that the begin of the range is too old for: behind where it applied last."""
    window = next((window for window in windows if window.patch == found.patch), None)
    standing = [one for one in window.segments if one.outcome.stands] if window else []
    repository = subject.source.repository
    if found.by or found.at != end.name or not standing or not repository.is_ancestor(standing[-1].first, end.id):
        return found
    index = [patch.name for patch in subject.series].index(found.patch)
    good = commit_at(subject.source, standing[-1].first)
    history = subject.source.history(good, end)
    return _bisect(_dry_run(subject, subject.series, end), index, history, (good.id, end))


def _bisect(run: DryRun, index: int, history: Mapping[str, tuple[str, ...]], ends: tuple[str, Commit]) -> FirstConflict:
    good, bad = ends
    asked: list[str] = []

    def ask(node: str) -> Seen:
        asked.append(node)
        return "good" if run.outcomes(node)[index].stands else "bad"

    turn = find_turn(build_graph(history, good, bad.id), ask)
    name = run.series[index].name
    if isinstance(turn, Contradiction):
        return FirstConflict(name, bad.name, None, "", f"{turn.message}: {turn.hint}", len(asked))
    return _found(run, name, bad.name, turn, len(asked))


def _found(run: DryRun, name: str, at: str, turn: Answer, probes: int) -> FirstConflict:
    first = turn.candidates[0].node
    by = Touch(first, run.source.repository.read_commit(first).subject)
    return FirstConflict(name, at, by, turn.last_good, turn.detail, probes)
