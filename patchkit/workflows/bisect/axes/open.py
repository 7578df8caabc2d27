"""From a request to what is searched: the axis says which kind of subject that is."""

from __future__ import annotations

from patchkit.errors import RequestError
from patchkit.pipeline import OpenedRecipe, source_of
from patchkit.source.source import Source
from patchkit.workflows.bisect.axes.dependency import PREFIX, open_dependency
from patchkit.workflows.bisect.axes.pair import pair_with
from patchkit.workflows.bisect.axes.patches import AXIS as PATCHES
from patchkit.workflows.bisect.holes import FixUp, lacks, name_fix_up
from patchkit.workflows.bisect.request import BisectRequest
from patchkit.workflows.bisect.subject import CommitSubject, Subject, choose_issue, make_graph


def open_subject(opened: OpenedRecipe, request: BisectRequest) -> Subject:
    """Return what the request searches. Raises `RequestError` when it names something that is not there."""
    if request.axis == PATCHES:
        raise RequestError("--axis patches searches no line of commits", "run the bisect itself: it goes on, or tells")
    _refuse_strange(request)
    issue, repro = choose_issue(opened.loaded, request.issue)
    if request.axis and request.axis.startswith(PREFIX):
        return open_dependency(opened, request, issue, repro)
    source = source_of(opened, issue.issue.upstream)
    axis = request.axis or ("releases" if source.kind == "package" else "commits")
    good, bad = source.resolve(request.good), source.resolve(request.bad)
    if good.id == bad.id:
        raise RequestError(f"{request.good} and {request.bad} are the same commit", "the ends must differ")
    graph = make_graph(source, axis, good, bad)
    flaky = request.flaky or repro.flaky
    subject = CommitSubject(
        *(request.recipe, opened, issue, repro, source, axis, request.series, good, bad, graph, flaky),
        fix_ups=tuple(dict.fromkeys(_read_fix_up(source, text) for text in request.fix_up)),
    )
    for fix_up in subject.fix_ups:
        if not lacks(subject, good, fix_up):
            what = f"--fix-up {name_fix_up(fix_up)}: {good.name} has it already"
            opened.toolkit.progress.warn(what, "it is carried onto side branches that lack it, and nowhere else")
    return pair_with(subject, request.pin) if axis == "pair" else subject


def _read_fix_up(source: Source, text: str) -> FixUp:
    """Return the commits that are carried together. Raises `RequestError` for what is none, or cannot be carried."""
    if source.kind != "git":
        raise RequestError(f"--fix-up {text}: {source.without_history}", "add --source git, or leave it out")
    names = text.split(",")
    if not all(names):
        raise RequestError(f"--fix-up {text}: a name is missing", "a commit, or several with a comma between")
    commits = [source.resolve(name) for name in names]
    for commit in commits:
        if not source.repository.read_commit(commit.id).parents:
            raise RequestError(f"--fix-up {text}: {commit.name} begins the history: it changes nothing")
    return tuple(dict.fromkeys(commit.id for commit in commits))


def _refuse_strange(request: BisectRequest) -> None:
    """Raise `RequestError` for an option that would be passed over without a word."""
    if request.at and not (request.axis or "").startswith(PREFIX):
        raise RequestError("--at holds a commit still, and here commits are searched", "name it with --good or --bad")
    if request.fix_up and (request.axis or "").startswith(PREFIX):
        raise RequestError("--fix-up is carried onto commits, and here versions are searched", "leave it out")
    if request.pin != "newest" and request.axis != "pair":
        raise RequestError("--pin says what a commit is paired with", "add --axis pair, or leave it out")
