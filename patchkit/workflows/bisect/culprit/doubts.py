"""What makes an answer doubtful: changes that came and went, a feature born broken, a series that changes with it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from patchkit.pipeline import patch_tree
from patchkit.search import CommitGraph
from patchkit.stack.outcome import Outcome, PatchRecord
from patchkit.tools.git.reverts import Topic, find_topics, read_titles
from patchkit.workflows.bisect.culprit.revert import can_revert
from patchkit.workflows.bisect.journal.events import Event
from patchkit.workflows.bisect.subject import CommitSubject, Subject

MOST_TOPICS = 5  # told one by one; of the others the number
IDLE = {Outcome.NOT_APPLICABLE, Outcome.ALREADY_UPSTREAM}  # the patch changes nothing
Warning_ = dict[str, Any]


def find_doubts(subject: Subject, events: Sequence[Event], culprit: str | None) -> list[Warning_]:
    """Return the warnings about an answer: `kind`, `message`, and the `commits` that it is about."""
    found = list(find_turns(subject.graph, events))
    if culprit is not None:
        found += find_birth(subject.graph, events, culprit)
    if can_revert(subject):
        titles = read_titles(subject.source.repository, subject.good.id, subject.bad.id)
        found += tell_topics(find_topics(titles), _relevant(events), culprit)
        if culprit is not None:
            found += find_series_changes(subject, culprit)
    return found


def find_turns(graph: CommitGraph, events: Iterable[Event]) -> Iterator[Warning_]:
    """Yield a warning when a commit was good above one that was bad: the fault came more than once."""
    answers = [(event["node"], event["answer"]) for event in events if event["event"] in ("probe", "told")]
    bad = dict.fromkeys(node for node, answer in answers if answer == "bad")
    good = dict.fromkeys(node for node, answer in answers if answer == "good")
    pairs = (
        (older, newer)
        for newer in good
        for older in bad
        if older in graph.index and newer != older and graph.ancestors_of(newer) >> graph.index[older] & 1
    )
    for older, newer in pairs:
        message = f"{older[:12]} is bad, but {newer[:12]}, which has it, is good: the fault came more than once"
        yield _warning("non-monotonic", message, (older, newer))
        return


def find_birth(graph: CommitGraph, events: Sequence[Event], culprit: str) -> Iterator[Warning_]:
    """Yield a warning when the feature is absent from all parents of the culprit: it never worked."""
    reasons: dict[str, set[str]] = {}
    for event in events:
        if event["event"] == "probe" and event["answer"] == "good":
            reasons.setdefault(event["node"], set()).add(event["reason"])
    parents = graph.parents.get(culprit, ())
    if parents and all(reasons.get(parent) == {"absent"} for parent in parents):
        message = (
            f"the feature is not there before {culprit[:12]}: it was born broken, no earlier commit has it working"
        )
        yield _warning("born-broken", message, (culprit,))


def tell_topics(topics: Sequence[Topic], relevant: Collection[str], culprit: str | None) -> Iterator[Warning_]:
    """Yield a warning for each change that came and went, as far as it touches what the repro opened (or all)."""
    near = [
        topic
        for topic in topics
        if not relevant or any(turn.commit in relevant or turn.commit == culprit for turn in topic.turns)
    ]
    near.sort(key=lambda topic: culprit not in {turn.commit for turn in topic.turns})
    for topic in near[:MOST_TOPICS]:
        turns = ", ".join(f"{turn.commit[:9]} {'on' if turn.on else 'off'}" for turn in topic.turns)
        message = f'"{topic.title}" came and went in the range ({turns}): there may be more turns than the one found'
        yield _warning("revert-reland", message, [turn.commit for turn in topic.turns])
    if len(near) > MOST_TOPICS:
        rest = near[MOST_TOPICS:]
        message = f"{len(rest)} more changes came and went in the range"
        yield _warning("revert-reland", message, [turn.commit for topic in rest for turn in topic.turns])


def find_series_changes(subject: CommitSubject, culprit: str) -> Iterator[Warning_]:
    """Yield a warning for each patch of the series that does something else at the culprit than at its parent."""
    parents = subject.graph.parents.get(culprit, ())
    if subject.series == "without" or not parents:
        return
    before, after = (
        {
            record.patch: record
            for record in patch_tree(
                subject.opened, subject.source.resolve(node), subject.series, subject.issue.slug
            ).records
        }
        for node in (parents[0], culprit)
    )
    for name, record in after.items():
        old = before.get(name)
        if old is not None and _effect(old) != _effect(record):
            why = f" ({record.detail})" if record.detail else ""
            message = f"the patch {name} changes with the culprit: {old.outcome} before, {record.outcome} there{why}"
            yield _warning("series-changes", message, (parents[0], culprit))


def _effect(record: PatchRecord) -> tuple[bool, str, tuple[str, ...]]:
    """Return what a patch does: whether it stands, by which method, and to which files; nothing where it is idle."""
    idle = record.outcome in IDLE
    return record.outcome.stands, "" if idle else record.method, () if idle else record.files


def _relevant(events: Iterable[Event]) -> frozenset[str]:
    """Return the commits that change a file which the repro opened at the bad end; none when it is not known."""
    return frozenset(node for event in events if event["event"] == "prior" for node in event["nodes"])


def _warning(kind: str, message: str, commits: Collection[str]) -> Warning_:
    return {"kind": kind, "message": message, "commits": list(commits)}
