"""Run a recipe's repros on what is new upstream, and find where things turned by bisection.

Both ends are judged without and with the series; only where they differ are commits between them run. What was judged
is kept, so that the next look starts at the commit where this one ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchkit.errors import RequestError
from patchkit.pipeline import OpenedRecipe, Question, judge, open_recipe, patch_tree, source_of
from patchkit.recipe.library import LoadedIssue
from patchkit.recipe.lock import recipe_digest
from patchkit.recipe.model import Repro
from patchkit.report.json import pair_document, read_pair, transition_document, verdict_document
from patchkit.report.watch import SeriesConflict, Subject, WatchReport, conflict_document, summary_document
from patchkit.search import Answer, CommitGraph, build_chain, build_graph, find_turn
from patchkit.search.state import Seen
from patchkit.source.commit import Commit
from patchkit.source.source import Axis, Preference, Source
from patchkit.stack.outcome import SeriesResult
from patchkit.tools.cache import digest_of
from patchkit.tools.toolkit import Toolkit
from patchkit.verdict.transition import Finding, Transition, VerdictPair, judge_transition, turned
from patchkit.verdict.verdict import Verdict

Tell = Callable[[Mapping[str, Any]], None]
Pairs = dict[str, dict[str, VerdictPair]]  # subject → node → verdicts


@dataclass(frozen=True)
class WatchRequest:
    """What to watch. `axis` None: releases for a package, commits for git; `restart` forgets the earlier looks."""

    recipe: Path
    source: Preference
    since: str
    axis: Axis | None = None
    restart: bool = False


@dataclass(frozen=True)
class Line:
    """The upstream line from `since` to the newest commit. `nodes` are oldest first, both ends included."""

    source: Source
    axis: Axis
    nodes: tuple[str, ...]

    def resolve(self, node: str) -> Commit:
        """Return the commit of a node."""
        return self.source.resolve(node)

    def between(self, older: str, newer: str) -> CommitGraph:
        """Return the graph from one node to another."""
        if self.axis == "releases":
            return build_chain(self.nodes[self.nodes.index(older) : self.nodes.index(newer) + 1])
        return build_graph(self.source.history(self.resolve(older), self.resolve(newer)), older, newer)


@dataclass(frozen=True)
class Memory:
    """What earlier looks left: the newest node then, what was judged, what had changed."""

    newest: str = ""
    pairs: Pairs = field(default_factory=dict)
    changes: tuple[tuple[str, str, str], ...] = ()  # subject, node before, node after


def watch(toolkit: Toolkit, request: WatchRequest, tell: Tell) -> WatchReport:
    """Judge what is new, tell each transition as it is found, and return the whole picture.

    Raises `RequestError` for a recipe or ref that is wrong and an upstream that does not answer.
    """
    opened = open_recipe(toolkit, request.recipe, request.source)
    if not opened.loaded.selected:
        raise RequestError(f"{opened.loaded.path}: the recipe names no issue", "add `issues: [NAME]` to it")
    source = source_of(opened, opened.loaded.recipe.main_upstream)
    axis: Axis = request.axis or ("releases" if source.kind == "package" else "commits")
    line = _find_line(source, axis, request.since)
    key = _key(opened, line)
    memory = Memory() if request.restart else _recall(toolkit.cache.read_record("watch", key))
    watcher = Watcher(opened, line, tell, memory.pairs, list(memory.changes))
    report = watcher.look(memory.newest if memory.newest in line.nodes else line.nodes[0], bool(memory.newest))
    toolkit.cache.write_record("watch", key, _remember(watcher))
    tell(summary_document(report))
    return report


def _find_line(source: Source, axis: Axis, since: str) -> Line:
    start = source.resolve(since)
    newer = source.since(since, axis)
    newest = source.resolve(newer[0]) if newer else start
    if axis == "releases":
        return Line(source, axis, source.releases(start, newest))
    nodes = build_graph(source.history(start, newest), start.id, newest.id).nodes if newer else ()
    return Line(source, axis, (start.id, *nodes))


@dataclass
class Watcher:
    """One look at a line. `pairs` grows with every commit judged, `changes` with every turn found."""

    opened: OpenedRecipe
    line: Line
    tell: Tell
    pairs: Pairs
    changes: list[tuple[str, str, str]]

    def look(self, base: str, been_here: bool) -> WatchReport:
        """Compare the newest commit with the base, and find the turns between them."""
        newest, new = self.line.nodes[-1], len(self.line.nodes) - 1 - self.line.nodes.index(base)
        self.tell(
            {
                "event": "start",
                "upstream": self.line.source.upstream,
                **self._span(base),
                "new": new,
                "resumed": been_here,
            }
        )
        conflict = self._find_conflict(base, newest)
        subjects = {_subject(issue, repro).name: (issue, repro) for issue, repro in self._selected()}
        for name, (issue, repro) in subjects.items():
            if new or not been_here or Finding.UNKNOWN in self._pair(issue, repro, newest).findings:
                for before, after in self._turns(issue, repro, (base, newest)):
                    self.changes.append((name, before, after))
                    self.tell(transition_document(self._transition(*self.changes[-1])))
        judged = {node for name in subjects for node in self.pairs.get(name, {})}
        return WatchReport(
            recipe=self.opened.loaded.recipe.name,
            upstream=self.line.source.upstream,
            axis=self.line.axis,
            **self._span(base),
            new=new,
            nodes=tuple(node for node in reversed(self.line.nodes) if node in judged),
            subjects=tuple(_subject(issue, repro) for issue, repro in subjects.values()),
            pairs=self.pairs,
            transitions=tuple(self._transition(*change) for change in self.changes if change[0] in subjects),
            conflict=conflict,
            removable={one.patch: one.removable for one in self._apply(newest).records if one.removable},
        )

    def _span(self, base: str) -> dict[str, str]:
        return {"since": base, "newest": self.line.nodes[-1]}

    def _selected(self) -> Iterator[tuple[LoadedIssue, Repro]]:
        for issue, repro in self.opened.loaded.selected:
            if issue.issue.upstream == self.line.source.upstream:
                yield issue, repro
            else:
                message = (
                    f"{issue.slug} is an issue of {issue.issue.upstream}: not watched on {self.line.source.upstream}"
                )
                self.opened.toolkit.progress.warn(message)

    def _turns(self, issue: LoadedIssue, repro: Repro, ends: tuple[str, str]) -> Iterator[tuple[str, str]]:
        """Yield (node before, node after) for every turn, oldest first, and last how it stands at the newest node."""
        base, newest = ends
        before, after = self._pair(issue, repro, base), self._pair(issue, repro, newest)
        while turned(before, after):
            found = find_turn(self.line.between(base, newest), self._ask(issue, repro, base))
            if not isinstance(found, Answer):
                break  # a flaky repro: the state at the newest node is told as it is
            yield found.last_good, found.known_bad
            base, before = found.known_bad, self._pair(issue, repro, found.known_bad)
        if base != newest or base == ends[0]:
            yield base, newest

    def _ask(self, issue: LoadedIssue, repro: Repro, base: str) -> Callable[[str], Seen]:
        """Return the question "does this commit differ from the base?"; unknown where the base is known is a skip."""
        old = self._pair(issue, repro, base)

        def ask(node: str) -> Seen:
            new = self._pair(issue, repro, node)
            if turned(old, new):
                return "bad"
            blind = any(now is Finding.UNKNOWN is not was for was, now in zip(old.findings, new.findings, strict=True))
            return "skip" if blind else "good"

        return ask

    def _pair(self, issue: LoadedIssue, repro: Repro, node: str) -> VerdictPair:
        """Return the verdicts at a node; what could not be told earlier is tried once more in each look."""
        name = _subject(issue, repro).name
        known = self.pairs.setdefault(name, {})
        if node not in known:
            commit = self.line.resolve(node)
            without = self._judge(Question(commit, issue, repro, "without"))
            known[node] = VerdictPair(without, self._judge(Question(commit, issue, repro, "with")))
        return known[node]

    def _judge(self, question: Question) -> Verdict:
        verdict = judge(self.opened, question)
        self.tell({"event": "probe", **verdict_document(verdict)})
        return verdict

    def _transition(self, name: str, before: str, after: str) -> Transition:
        return judge_transition(self.pairs[name][before], self.pairs[name][after])

    def _find_conflict(self, base: str, newest: str) -> SeriesConflict | None:
        """Return where the series stops applying, None when it applies to the newest commit."""
        if self._apply(newest).patched is not None:
            return None
        at = base
        if self._apply(base).patched is not None:
            turn = find_turn(
                self.line.between(base, newest), lambda node: "bad" if self._apply(node).patched is None else "good"
            )
            at = turn.known_bad if isinstance(turn, Answer) else newest
        failed = [record for record in self._apply(at).records if not record.outcome.stands]
        detail = "; ".join(f"{record.patch}: {record.outcome.value}: {record.detail}" for record in failed)
        conflict = SeriesConflict(self.line.resolve(at).name, detail)
        self.tell(conflict_document(conflict))
        return conflict

    def _apply(self, node: str) -> SeriesResult:
        return patch_tree(self.opened, self.line.resolve(node))


def _subject(issue: LoadedIssue, repro: Repro) -> Subject:
    return Subject(issue.slug, repro.name, issue.issue.title, repro.fidelity)


def _key(opened: OpenedRecipe, line: Line) -> str:
    """Name the watch by what its verdicts depend on; a changed patch or repro begins anew."""
    parts = {
        "recipe": recipe_digest(opened.loaded),
        "line": [line.source.upstream, line.source.kind, line.axis, line.nodes[0]],
    }
    return digest_of(parts)[:32]


def _recall(record: Mapping[str, Any] | None) -> Memory:
    """Read what `_remember` wrote; what could not be told then is forgotten, and a record of another shape is none."""
    try:
        stored = {} if record is None else record["pairs"]
        pairs = {
            name: {
                node: pair
                for node, value in nodes.items()
                if Finding.UNKNOWN not in (pair := read_pair(value)).findings
            }
            for name, nodes in stored.items()
        }
        changes = [] if record is None else [tuple(change) for change in record["changes"]]
        kept = tuple(
            (name, before, after)
            for name, before, after in changes
            if before in pairs.get(name, {}) and after in pairs.get(name, {})
        )
        return Memory("" if record is None else record["newest"], pairs, kept)
    except (AttributeError, KeyError, TypeError, ValueError):
        return Memory()


def _remember(watcher: Watcher) -> dict[str, Any]:
    pairs = {name: {node: pair_document(pair) for node, pair in nodes.items()} for name, nodes in watcher.pairs.items()}
    return {"newest": watcher.line.nodes[-1], "pairs": pairs, "changes": watcher.changes}
