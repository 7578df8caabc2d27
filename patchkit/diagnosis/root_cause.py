"""All failures of a log → the one that the others follow from, with the ranks that share it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from patchkit.diagnosis.log.failure import Failure, Frame, Weight
from patchkit.diagnosis.log.kinds import find_kind

MOST_GROUPS = 500  # different failures that are kept; a log with more of them repeats itself in ways nobody reads
MOST_RANKS = 10_000
UNKNOWN = "no known kind of failure"
UNKNOWN_HINT = "the message and the frame are the cause as the log tells it"
GLOG = re.compile(r"^\[[EFW]\d{4} [^\]]{1,80}\] ")  # how torch's native code begins its lines
VALUE_ERROR = re.compile(r"^\s*(?:Value error|Assertion failed), (.*?)(?: \[type=\w+.*)?$", re.MULTILINE)


@dataclass
class FailureGroup:
    """The same failure on several ranks. `ranks` are in the order of the log; `more`: how many Ray left out."""

    first: Failure
    ranks: dict[str, None] = field(default_factory=dict)
    count: int = 0
    more: int = 0

    def add(self, failure: Failure) -> None:
        """Count a failure in; the earliest one, and the one that counts most, stands for all."""
        self.count += 1
        self.more = max(self.more, failure.repeats)
        if failure.rank and not failure.story.by_ray and len(self.ranks) < MOST_RANKS:
            self.ranks[_rank_name(failure)] = None
        if _order(failure) < _order(self.first):
            self.first = failure


@dataclass(frozen=True)
class RootCause:
    """What the log's failures come from. `kind` is '' for an unknown one; `rank` failed first; `ranks` all that did.

    `certain` is False when the log only has what other processes saw of it.
    """

    failure: Failure
    kind: str
    sentence: str
    hint: str
    message: str
    frame: Frame | None
    rank: str
    ranks: tuple[str, ...]
    ranks_failed: int
    certain: bool


@dataclass
class Failures:
    """The failures of one start of the server, grouped as they come in."""

    groups: dict[tuple[str, str, str], FailureGroup] = field(default_factory=dict)

    def add(self, failure: Failure) -> None:
        """Put a failure to its likes."""
        group = self.groups.get(failure.identity)
        if group is None:
            if len(self.groups) >= MOST_GROUPS:
                worst = max(self.groups.values(), key=lambda one: _order(one.first))
                if _order(worst.first) <= _order(failure):
                    return
                del self.groups[worst.first.identity]
            group = self.groups[failure.identity] = FailureGroup(failure)
        group.add(failure)

    @property
    def texts(self) -> tuple[str, ...]:
        """Return the text of each different failure, the cause's first."""
        groups = sorted(self.groups.values(), key=lambda one: _order(one.first))
        return tuple(group.first.story.text for group in groups)

    def root_cause(self) -> RootCause | None:
        """Return the failure that counts most and stands first, or None when there is none but warnings."""
        groups = [group for group in self.groups.values() if group.first.weight is not Weight.HANDLED]
        if not groups:
            return None
        group = min(groups, key=lambda one: _order(one.first))
        failure = group.first
        kind = find_kind(failure.story.kind)
        ranks = _sorted_ranks(group.ranks, failure)
        return RootCause(
            failure=failure,
            kind=failure.story.kind,
            sentence=kind.sentence if kind else UNKNOWN,
            hint=kind.hint if kind else UNKNOWN_HINT,
            message=tell_message(failure),
            frame=failure.story.frame,
            rank=_rank_name(failure) if failure.rank else failure.process,
            ranks=ranks,
            ranks_failed=len(ranks) + group.more,
            certain=failure.weight <= Weight.ERROR,
        )


def group_failures(failures: Iterable[Failure]) -> Failures:
    """Return failures, grouped."""
    grouped = Failures()
    for failure in failures:
        grouped.add(failure)
    return grouped


def tell_message(failure: Failure) -> str:
    """Return the line of the root's message that tells most; an assertion without words is told by its code."""
    message = failure.root.message
    value_error = VALUE_ERROR.search(message)
    if value_error:
        return value_error.group(1)
    first = next((GLOG.sub("", line.strip()) for line in message.splitlines() if line.strip()), "")
    if not first and failure.root.frames:
        return failure.root.frames[-1].code
    return first


def _order(failure: Failure) -> tuple[int, bool, str, int]:
    """Return what sorts failures: a death that left frames tells more than an exit code that another process saw."""
    speechless = failure.weight is Weight.DEATH and (bool(failure.root.type) or not failure.root.frames)
    return failure.weight, speechless, failure.stamp, failure.line


def _rank_name(failure: Failure) -> str:
    if failure.host and failure.rank and failure.host not in failure.rank:
        return f"{failure.rank} on {failure.host}"
    return failure.rank


def _sorted_ranks(ranks: Iterable[str], first: Failure) -> tuple[str, ...]:
    """Return ranks by number, the one that failed first at the front."""
    ahead = _rank_name(first)

    def by_number(rank: str) -> tuple[bool, list[tuple[int, int | str]]]:
        return rank != ahead, [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", rank)]

    return tuple(sorted(ranks, key=by_number))
