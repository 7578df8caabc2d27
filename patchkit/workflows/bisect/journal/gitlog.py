"""A journal as what `git bisect log` prints, which `git bisect replay` takes; and such a log read in."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from patchkit.errors import RequestError
from patchkit.search import CommitGraph
from patchkit.workflows.bisect.journal.events import Event

HINT = "give the output of `git bisect log`"
OLD, NEW = ("good", "old"), ("bad", "new")
TERMS = {"--term-old": "good", "--term-good": "good", "--term-new": "bad", "--term-bad": "bad"}


@dataclass(frozen=True)
class Mark:
    """One line of a git log: a revision that was called good, bad or skip."""

    line: int
    answer: str
    revision: str


@dataclass(frozen=True)
class GitLog:
    """What a git log says; the first good and the first bad mark are the ends of that search."""

    marks: tuple[Mark, ...]

    def end(self, answer: str) -> str:
        """Return the revision of an end, '' when the log has none."""
        return next((mark.revision for mark in self.marks if mark.answer == answer), "")


def git_log(graph: CommitGraph, events: Sequence[Event], subject: Callable[[str], str]) -> str:
    """Return the log; `subject` gives a commit's title. What git cannot take becomes a comment.

    git keeps one bad commit, the last: one that is no ancestor of those before it would widen the range again. And it
    refuses a good commit above a bad one: runs that err, or a history that turns twice, have these.
    """
    lines = [f"# bad: [{graph.bad}] {subject(graph.bad)}", f"# good: [{graph.good}] {subject(graph.good)}"]
    lines.append(f"git bisect start '{graph.bad}' '{graph.good}'")
    range_ = graph.ancestors_of(graph.bad)
    first_bad = _confirmed(events)
    answers = _agreed(events)
    for node, seen in answers.items():
        if node in (graph.bad, graph.good):
            continue
        lines.append(f"# {seen}: [{node}] {subject(node)}")
        answer = _for_git(graph, node, answers, first_bad)
        narrows = answer != "bad" or (node in graph.index and range_ >> graph.index[node] & 1)
        if answer and narrows:
            lines.append(f"git bisect {answer} {node}")
        if answer == "bad" and narrows:
            range_ = graph.ancestors_of(node)
    if first_bad:
        lines.append(f"# first bad commit: [{first_bad}] {subject(first_bad)}")
    return "\n".join(lines) + "\n"


def _confirmed(events: Sequence[Event]) -> str:
    """Return the first bad commit that the search ended with, '' where it has none."""
    found = next((event for event in reversed(events) if event["event"] == "result"), {})
    return found["candidates"][0][0] if found.get("confirmed") else ""


def _for_git(graph: CommitGraph, node: str, answers: Mapping[str, str], first_bad: str) -> str:
    """Return what git is told of a node, '' for nothing. Where runs disagree the answer of the search decides."""
    seen, ancestors = answers[node], graph.ancestors_of(node)
    if seen == "skip":
        return seen
    if first_bad:
        told = "bad" if ancestors >> graph.index[first_bad] & 1 else "good"
        return told if seen in (told, "mixed") else ""
    below = any(ancestors >> graph.index[one] & 1 for one in answers if answers[one] == "bad" and one in graph.index)
    return "" if seen == "mixed" or (seen == "good" and below) else seen


def _agreed(events: Sequence[Event]) -> dict[str, str]:
    """Return the answer of each node, in the order of asking: `mixed` where some runs were good and others bad."""
    answers: dict[str, set[str]] = {}
    for event in events:
        if event["event"] in ("probe", "told"):
            answers.setdefault(event["node"], set()).add(event["answer"])
    told = {node: seen - {"skip"} or seen for node, seen in answers.items()}
    return {node: next(iter(seen)) if len(seen) == 1 else "mixed" for node, seen in told.items()}


def read_git_log(text: str, name: str) -> GitLog:
    """Return what a git log says. Raises `RequestError` with file and line for what is none."""
    words = {**dict.fromkeys(OLD, "good"), **dict.fromkeys(NEW, "bad"), "skip": "skip"}
    marks: list[Mark] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        verb, arguments = _read_line(line, f"{name}:{number}")
        if verb == "start":
            words |= _terms(arguments)
            ends = _revisions(arguments)
            marks += [Mark(number, "bad" if place == 0 else "good", one) for place, one in enumerate(ends)]
        elif verb in words:
            marks += [Mark(number, words[verb], one) for one in arguments]
        else:
            raise RequestError(f"{name}:{number}: git bisect {verb} is not known", "start, good, bad and skip are")
    if not marks:
        raise RequestError(f"{name}: holds no good, bad or skip", HINT)
    return GitLog(tuple(marks))


def _read_line(line: str, place: str) -> tuple[str, list[str]]:
    """Return what follows `git bisect`: a word and its arguments."""
    try:
        command = shlex.split(line)
    except ValueError as error:
        raise RequestError(f"{place}: {error}", HINT) from error
    if command[:2] != ["git", "bisect"] or len(command) < 3:
        raise RequestError(f"{place}: no line of a git bisect log", HINT)
    return command[2], command[3:]


def _terms(arguments: Sequence[str]) -> dict[str, str]:
    """Return the words of `git bisect start --term-old=… --term-new=…`."""
    found, waiting = {}, ""
    for argument in arguments:
        option, separator, value = argument.partition("=")
        if waiting:
            found[argument], waiting = TERMS[waiting], ""
        elif option in TERMS and separator:
            found[value] = TERMS[option]
        elif option in TERMS:
            waiting = option
    return found


def _revisions(arguments: Sequence[str]) -> list[str]:
    """Return the revisions of `git bisect start`: bad, then good ones; options and paths left out."""
    found, skip = [], False
    for argument in arguments:
        if argument == "--":
            break
        if skip or argument.startswith("-"):
            skip = argument in TERMS
            continue
        found.append(argument)
    return found
