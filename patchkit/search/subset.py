"""Which of many items, held together, bring the fault: the fewest that still show it.

The callers run; this decides, from what was seen so far, what to run next:

    observations: dict[frozenset[str], Seen] = {}
    while isinstance(decision := decide_subset(items, observations), Try):
        observations[decision.holds] = ask(decision.holds)  # good, bad or skip

The answer is `Culprits`, or a `Contradiction` where no set of items explains what was seen. A set is bad if and only if
it holds all culprits (one patch may need another to do harm); a skip is a set that cannot be tested, such as patches
that do not apply without the others. Members are found one after the other, from the back: the shortest beginning of
the items that is bad ends with a culprit; hold that one always, and ask the same about the rest before it. Each member
takes log2 of the items before it, and one run tells whether the members found are all. (The question is that of
QuickXplain: Junker, AAAI 2004; the way to it is that of "progression": Marques-Silva, Janota and Belov, CAV 2013.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from patchkit.search.decision import Contradiction, count_steps
from patchkit.search.state import Seen

Observations = Mapping[frozenset[str], Seen]


@dataclass(frozen=True)
class Try:
    """Run with exactly these items. `left`: items of which nobody knows yet whether they are needed."""

    holds: frozenset[str]
    reason: str
    left: int

    @property
    def steps(self) -> int:
        """Return about how many runs the next member takes."""
        return count_steps(self.left) + 1


@dataclass(frozen=True)
class Culprits:
    """Items that bring the fault together, in the order in which they were given.

    `minimal`: without any one of them the fault was seen to be gone. Otherwise `doubtful` are those of which no run
    could tell, and `detail` says why.
    """

    items: tuple[str, ...]
    minimal: bool
    doubtful: tuple[str, ...] = ()
    detail: str = ""


def decide_subset(items: Sequence[str], observations: Observations) -> Try | Culprits | Contradiction:
    """Return the next set of items to try, the culprits, or why there are none; the same for the same input.

    Give the items in the order in which they are applied: beginnings of that order apply, whatever lies between.
    Raises `ValueError` for an item that is given twice and for an observation of an item that is not there.
    """
    everything = frozenset(items)
    if len(everything) != len(items):
        raise ValueError("an item is given twice")
    strange = next((name for held in observations for name in held - everything), None)
    if strange is not None:
        raise ValueError(f"{strange} was observed but is no item")
    return _check(everything, observations) or _search(tuple(items), observations)


def _check(everything: frozenset[str], observations: Observations) -> Try | Contradiction | None:
    """Ask about all items and about none; tell what no set of culprits explains."""
    for held, wanted, reason, trouble, hint in (
        (everything, "bad", "with all items", "with all items there is no fault", "nothing to find among them"),
        (frozenset[str](), "good", "with no item", "the fault is there without any item", "look elsewhere"),
    ):
        seen = observations.get(held)
        if seen is None:
            return Try(held, f"{reason} the fault must be {'there' if wanted == 'bad' else 'gone'}", len(everything))
        if seen == "skip":
            return Contradiction(f"{reason} nothing can be told", "make that run first", tuple(sorted(held)))
        if seen != wanted:
            return Contradiction(trouble, hint, tuple(sorted(held)))
    for small, larger in _reversals(observations):
        message = f"bad with {_join(small)}, but good with {_join(larger - small)} on top"
        return Contradiction(message, "one item hides the fault of another: look at these", tuple(sorted(larger)))
    return None


def _reversals(observations: Observations) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
    """Yield bad sets with a good set that holds them."""
    for small, seen in observations.items():
        if seen == "bad":
            yield from ((small, larger) for larger, other in observations.items() if other == "good" and small < larger)


def _search(items: tuple[str, ...], observations: Observations) -> Try | Culprits:
    """Find the members from the back; items that skips do not let apart come as one block."""
    members: frozenset[str] = frozenset()
    blocks: frozenset[str] = frozenset()
    rest = items
    while rest:
        if members:
            seen = _infer(members, observations)
            if seen is None:
                return Try(members, "are the members found all that it takes?", len(rest))
            if seen == "bad":
                break
        good, bad = _narrow(members, rest, observations)
        untried = [count for count in range(good + 1, bad) if _infer(members | set(rest[:count]), observations) is None]
        if untried:
            count = min(untried, key=lambda one: abs(2 * one - good - bad))
            return Try(members | set(rest[:count]), "halves the items before the next member", bad - good)
        if bad - good > 1 or _infer(members | set(rest[:good]), observations) != "good":
            blocks |= set(rest[good:bad])
        members |= set(rest[good:bad])
        rest = rest[:good]
    return _shrink(items, members, blocks, observations)


def _narrow(members: frozenset[str], rest: tuple[str, ...], observations: Observations) -> tuple[int, int]:
    """Return the longest beginning of the rest that is good with the members, and the shortest that is bad."""
    good, bad = 0, len(rest)
    for count in range(len(rest)):
        seen = _infer(members | set(rest[:count]), observations)
        if seen == "good":
            good = count
        elif seen == "bad":
            return good, count
    return good, bad


def _shrink(
    items: tuple[str, ...], members: frozenset[str], blocks: frozenset[str], observations: Observations
) -> Try | Culprits:
    """Leave out one item of a block after the other: what stays bad did not need it."""
    doubtful, kept = set(), members
    for name in (name for name in items if name in blocks):
        without = kept - {name}
        seen = _infer(without, observations)
        if seen is None:
            return Try(without, f"does it take {name}?", len(blocks & kept))
        if seen == "bad":
            kept = without
        elif seen == "skip":
            doubtful.add(name)
    if doubtful and kept != members:  # with fewer items around it, an item may be told after all
        return _shrink(items, kept, frozenset(doubtful), observations)
    doubt = tuple(name for name in items if name in doubtful)
    detail = f"no run could tell whether it takes {_join(doubt)}" if doubt else ""
    return Culprits(tuple(name for name in items if name in kept), not doubt, doubt, detail)


def _infer(held: frozenset[str], observations: Observations) -> Seen | None:
    """Return what a set shows: as seen, or as a smaller bad set or a larger good one tells."""
    if held in observations and observations[held] != "skip":
        return observations[held]
    for other, seen in observations.items():
        if (seen == "bad" and other <= held) or (seen == "good" and held <= other):
            return seen
    return observations.get(held)


def _join(names: Sequence[str] | frozenset[str]) -> str:
    return ", ".join(sorted(names)) or "none"
