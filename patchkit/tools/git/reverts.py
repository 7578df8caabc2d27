"""Which changes of a range were taken back in it, and which of them came again: told by titles and trailers."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable
from dataclasses import dataclass

from patchkit.tools.git.objects import Repository
from patchkit.tools.process import run_process

ID = r"\b([0-9a-f]{7,40})\b"
TITLE_CHARACTERS = 1000  # of a title are read: the patterns look for its end again and again
REVERTED = re.compile(r'^\s*(?:\[?revert\]?)\s*:?\s*"(.*)"\s*$', re.IGNORECASE)
UNQUOTED = re.compile(r"^\s*\[?revert\]?\s*:?\s+(?P<title>[^\"].*)$", re.IGNORECASE)
RELANDED = re.compile(r'^\s*\[?(?:re-?land|re-?apply)\]?\s*:?\s*"?(?P<title>.*?)"?\s*$', re.IGNORECASE)
PULL = re.compile(r"\s*\(#\d+\)\s*$")
TRAILER = re.compile(rf"This reverts commit {ID}", re.IGNORECASE)


@dataclass(frozen=True)
class Titled:
    """A commit with its title; `reverts` is what the message says it takes back, '' when it says nothing."""

    commit: str
    title: str
    reverts: str = ""


@dataclass(frozen=True)
class Turn:
    """One commit that brings a change (`on`) or takes it back."""

    commit: str
    on: bool


@dataclass(frozen=True)
class Topic:
    """A change that came and went in a range; its turns are in the order of history."""

    title: str
    turns: tuple[Turn, ...]


def read_titles(repository: Repository, good: str, bad: str) -> tuple[Titled, ...]:
    """Return the commits in `bad` and not in `good`, parents first; none when git cannot tell."""
    git = ["git", "--git-dir", str(repository.path), "log", "-z", "--topo-order", "--reverse"]
    result = run_process([*git, "--no-show-signature", "--format=%H%x00%s%x00%b", f"{good}..{bad}", "--"])
    words = result.stdout.decode("utf-8", "replace").split("\0") if result.exit_code == 0 else []
    found = []
    for commit, title, body in zip(words[::3], words[1::3], words[2::3], strict=False):  # the last is behind the end
        trailer = TRAILER.search(body)
        found.append(Titled(commit, title[:TITLE_CHARACTERS], trailer[1] if trailer else ""))
    return tuple(found)


def find_topics(titles: Iterable[Titled]) -> tuple[Topic, ...]:
    """Return the changes that were taken back after they had come in the range, or came again after that."""
    commits = tuple(titles)
    known = {one.commit: _bare(one.title) for one in commits}
    turns: dict[str, list[Turn]] = {}
    shown: dict[str, str] = {}
    for one in commits:
        title, on = _subject_of(one, known)
        turns.setdefault(title.casefold(), []).append(Turn(one.commit, on))
        shown.setdefault(title.casefold(), title)
    return tuple(
        Topic(shown[title], tuple(seen))
        for title, seen in turns.items()
        if len(seen) > 1 and any(not turn.on for turn in seen) and any(turn.on for turn in seen)
    )


def take_turns(titles: Iterable[Titled]) -> frozenset[str]:
    """Return the commits that take another one back, or bring again what had been taken back."""
    return frozenset(one.commit for one in titles if _takes_turn(one))


def find_taken_back(titles: Iterable[Titled], later: Iterable[Titled]) -> frozenset[str]:
    """Return the commits of a range that later commits take back, by the id that those name or by title."""
    named, ids, found = dict[str, str](), list[str](), set[str]()
    for one in titles:
        named[_bare(one.title).casefold()] = one.commit
        ids.append(one.commit)
    ids.sort()
    for one in later:
        title, on = _subject_of(one, {})
        if on:
            continue
        at = bisect.bisect_left(ids, one.reverts) if one.reverts else len(ids)
        found |= {commit for commit in ids[at : at + 1] if commit.startswith(one.reverts)}
        found |= {named[title.casefold()]} if title.casefold() in named else set()
    return frozenset(found)


def _takes_turn(one: Titled) -> bool:
    title, on = _bare(one.title), True
    while (inner := REVERTED.match(title)) is not None:
        title, on = _bare(inner[1]), not on
    return not on or title != _bare(one.title) or bool(one.reverts) or RELANDED.match(title) is not None


def _subject_of(one: Titled, known: dict[str, str]) -> tuple[str, bool]:
    """Return which change a commit is about, and whether it brings it."""
    title, on = _bare(one.title), True
    while (inner := REVERTED.match(title)) is not None:
        title, on = _bare(inner[1]), not on
    if on and (again := RELANDED.match(title)) is not None:
        return _bare(again["title"]), True
    if not on or not one.reverts:
        return title, on
    named = next((known[commit] for commit in known if commit.startswith(one.reverts)), "")
    unquoted = UNQUOTED.match(title)
    return named or (_bare(unquoted["title"]) if unquoted else title), False


def _bare(title: str) -> str:
    """Return a title without the numbers of pull requests behind it, and with single spaces."""
    while (shorter := PULL.sub("", title)) != title:
        title = shorter
    return " ".join(title.split())
