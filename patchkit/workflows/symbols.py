"""How the names of the product that a downstream package uses stand against other commits, and since when not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from patchkit.errors import RequestError
from patchkit.pipeline import OpenedRecipe, open_recipe, patch_tree, resolve_commit, source_of
from patchkit.report.status.symbols import RefSymbols, Since, SymbolsReport, ToldFinding
from patchkit.search import Answer as Turn
from patchkit.search import build_graph, find_turn
from patchkit.search.state import Seen
from patchkit.source.commit import Commit
from patchkit.source.source import Preference, Source
from patchkit.stack.symbols.baseline import Key, read_baseline, render_baseline
from patchkit.stack.symbols.downstream.package import Downstream, read_downstream
from patchkit.stack.symbols.downstream.use import Use
from patchkit.stack.symbols.examine import Finding, Judge, Judged, find_problems, judge_all, shows
from patchkit.stack.symbols.tree import Outlines, SymbolTree
from patchkit.tools.cache import write_atomically
from patchkit.tools.toolkit import Toolkit


@dataclass(frozen=True)
class SymbolsRequest:
    """What to look at: the folder of a package, against commits of the recipe's main upstream."""

    recipe: Path
    package: Path
    against: tuple[str, ...] = ()
    span: str | None = None  # A..B
    baseline: Path | None = None
    write_baseline: Path | None = None
    source: Preference = "auto"


@dataclass(frozen=True)
class _Desk:
    """What every look needs. `product` is the name that the upstream's package is imported by."""

    toolkit: Toolkit
    opened: OpenedRecipe
    source: Source
    outlines: Outlines
    product: str
    downstream: Downstream


def tell_symbols(toolkit: Toolkit, request: SymbolsRequest) -> SymbolsReport:
    """Look at every name that the package uses, against every commit of the request.

    The recipe's own commit is the one that the package is made for: what replaces or overrides a name of the product is
    a problem where it was right there and is not any more. Raises `RequestError` for unknown refs, a folder that uses
    nothing of the product, a baseline that is none.
    """
    known = read_baseline(request.baseline) if request.baseline else frozenset()
    opened = open_recipe(toolkit, request.recipe, request.source)
    desk = _open_desk(toolkit, opened, request.package)
    ends = _ends(desk.source, request.span)
    own = resolve_commit(opened)
    commits = [desk.source.resolve(ref) for ref in request.against] or [ends[1] if ends else own]
    looks = {commit.id: _judge(desk, commit) for commit in {one.id: one for one in (own, *commits)}.values()}
    before = {one.use: one for one in looks[own.id][1]}
    refs = tuple(_found(commit, *looks[commit.id], before, known) for commit in commits)
    if ends:
        refs = tuple(_dated(desk, ref, ends[0]) for ref in refs)
    if request.write_baseline:
        write_atomically(request.write_baseline, render_baseline(one.finding for ref in refs for one in ref.findings))
    found = {one.finding.key for ref in refs for one in ref.findings}
    folder = desk.downstream.folder.name
    return SymbolsReport(folder, desk.product, desk.downstream, refs, tuple(sorted(known - found)))


def _open_desk(toolkit: Toolkit, opened: OpenedRecipe, folder: Path) -> _Desk:
    upstream = opened.loaded.recipe.main_upstream
    product = upstream.replace("-", "_")
    toolkit.progress.step(f"read {folder}")
    downstream = read_downstream(folder, product)
    for complaint in downstream.unreadable:
        toolkit.progress.warn(f"not looked at: {complaint}")
    source = source_of(opened, upstream)
    return _Desk(toolkit, opened, source, Outlines(source.repository), product, downstream)


def _ends(source: Source, span: str | None) -> tuple[Commit, Commit] | None:
    if span is None:
        return None
    first, dots, last = span.partition("..")
    if not (first and dots and last) or last.startswith("."):
        raise RequestError(f"--range {span}: is no range", "two commits or releases with two dots between: A..B")
    return source.resolve(first), source.resolve(last)


def _judge(desk: _Desk, commit: Commit) -> tuple[SymbolTree, tuple[Judged, ...]]:
    """Judge all uses at a commit, with the recipe's series where that applies."""
    desk.toolkit.progress.step(f"names at {commit.name}")
    patched = patch_tree(desk.opened, commit).patched
    if patched is None:
        desk.toolkit.progress.warn(f"the series does not apply at {commit.name}: looked at without it")
    tree = SymbolTree(desk.outlines, patched.id if patched else commit.tree, desk.product)
    if not tree.files:
        message = f"{desk.source.upstream} {commit.name}: has no package {desk.product}"
        raise RequestError(message, "the recipe's main upstream must be the product that the package builds on")
    return tree, judge_all(Judge(tree, commit.version, desk.downstream.provided), desk.downstream.uses)


def _found(
    commit: Commit,
    tree: SymbolTree,
    judged: tuple[Judged, ...],
    before: Mapping[Use, Judged],
    known: frozenset[Key],
) -> RefSymbols:
    found = find_problems(tree, judged, before)
    return RefSymbols(commit, judged, tuple(ToldFinding(one, one.key in known) for one in found))


def _dated(desk: _Desk, ref: RefSymbols, good: Commit) -> RefSymbols:
    """Find for each problem the commit or release that made it, between a good one and the one looked at."""
    if not ref.findings:
        return ref
    if desk.source.kind == "package":
        names = desk.source.releases(good, ref.commit)
        history = {name: names[at : at + 1] for at, name in enumerate(names[1:])}
        ends = (names[0], names[-1])
    else:
        history, ends = dict(desk.source.history(good, ref.commit)), (good.id, ref.commit.id)
    desk.toolkit.progress.step(f"since when, in {len(history)} commits or releases")
    graph = build_graph(history, *ends)
    judge_at = _judges(desk, ref.commit)

    def since(told: ToldFinding) -> ToldFinding:
        turn = find_turn(graph, lambda node: _seen(judge_at(node), told.finding))
        return replace(told, since=_since(desk.source, turn) if isinstance(turn, Turn) else None)

    return replace(ref, findings=tuple(since(told) for told in ref.findings))


def _judges(desk: _Desk, at: Commit) -> Callable[[str], Judge]:
    """Return what judges at a commit or release; conditions on the version are answered as at the end of the range."""
    made: dict[str, Judge] = {}

    def judge_at(node: str) -> Judge:
        if node not in made:
            is_package = desk.source.kind == "package"
            tree = desk.source.resolve(node).tree if is_package else desk.source.repository.read_commit(node).tree
            made[node] = Judge(SymbolTree(desk.outlines, tree, desk.product), at.version, desk.downstream.provided)
        return made[node]

    return judge_at


def _seen(judge: Judge, finding: Finding) -> Seen:
    return "bad" if any(shows(judge.judge(use), finding) for use in finding.uses) else "good"


def _since(source: Source, turn: Turn) -> Since:
    first = turn.candidates[0].node
    if source.kind == "package":
        return Since(first, "")
    return Since(first, source.repository.read_commit(first).subject)
