"""How the names that a downstream package uses stand in one tree of the product."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from patchkit.stack.symbols.downstream.guards import holds
from patchkit.stack.symbols.downstream.use import Kind, Need, Use
from patchkit.stack.symbols.outline import Definition
from patchkit.stack.symbols.signature import JOINT, misfit
from patchkit.stack.symbols.tree import Resolution, State, SymbolTree

MOST_PLACES = 3  # more candidates for where a name went are no help


class Answer(StrEnum):
    """How one use stands. `OPEN`: nobody can read it off; `NOT_RUN`: the package asks first and does not get there."""

    THERE = "there"
    OPEN = "open"
    NOT_RUN = "not-run"
    CAUGHT = "caught"  # missing, and the package has another way
    TYPING = "typing"  # missing, and only type checkers look
    GONE = "gone"
    HIDDEN = "hidden"  # imported there under TYPE_CHECKING only
    NOTHING = "nothing"  # it is set or overridden, and nothing of the product has that name
    DIFFERS = "differs"  # what replaces it takes other arguments


BROKEN = frozenset({Answer.GONE, Answer.HIDDEN})
DRIFTED = frozenset({Answer.NOTHING, Answer.DIFFERS})  # a fault only where it was otherwise before


@dataclass(frozen=True)
class Judged:
    """One use in one tree. `missing` is the shortest part of the name that is not there."""

    use: Use
    answer: Answer
    missing: str = ""
    detail: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what a baseline knows it by: the name, the problem, and what exactly; no file and no line."""
        reading = self.use.kind in {Kind.ATTRIBUTE, Kind.REPLACES, Kind.PATCHES} and self.answer in BROKEN
        return (self.missing if reading else self.use.symbol, self.answer.value, self.detail)


class Judge:
    """Judges uses in one tree. `version` is the product's there, `provided` what the package itself puts in."""

    def __init__(self, tree: SymbolTree, version: str | None, provided: frozenset[str]) -> None:
        """Take a tree."""
        self._tree, self._version, self._provided = tree, version, provided

    def judge(self, use: Use) -> Judged:
        """Return how a use stands."""
        if any(holds(guard, self._version, self._exists) is False for guard in use.guards):
            return Judged(use, Answer.NOT_RUN)
        if use.kind is Kind.PLUGIN:
            return Judged(use, Answer.THERE if self._tree.mentions(use.symbol) else Answer.GONE, use.symbol)
        found = self._resolve(use)
        if found.state is State.FOUND:
            return self._fit(use, found)
        if found.state is State.OPEN or self._is_provided(use, found.missing):
            return Judged(use, Answer.OPEN if found.state is State.OPEN else Answer.THERE)
        return Judged(use, self._missing(use, found), found.missing)

    def _resolve(self, use: Use) -> Resolution:
        """Return the best of what the expression may mean."""
        found = [self._tree.resolve(name, use.need is Need.TYPING) for name in (use.symbol, *use.alternatives)]
        return min(found, key=lambda one: list(State).index(one.state))

    def _exists(self, symbol: str) -> bool | None:
        state = self._tree.resolve(symbol).state
        return None if state is State.OPEN else state is State.FOUND

    def _is_provided(self, use: Use, missing: str) -> bool:
        return use.kind is not Kind.REPLACES and any(
            missing == name or missing.startswith(f"{name}.") for name in self._provided
        )

    def _fit(self, use: Use, found: Resolution) -> Judged:
        theirs = found.what.signature if isinstance(found.what, Definition) else None
        detail = misfit(theirs, use.signature) if theirs and use.signature else ""
        return Judged(use, Answer.DIFFERS if detail else Answer.THERE, detail=detail)

    def _missing(self, use: Use, found: Resolution) -> Answer:
        if use.need is Need.TYPING:
            return Answer.TYPING
        if use.root and f"{use.root}.".startswith(f"{found.missing}."):
            return Answer.OPEN  # told where it is imported
        if use.kind in {Kind.REPLACES, Kind.OVERRIDES} and found.missing == use.symbol:
            return Answer.NOTHING
        if use.need is Need.OPTIONAL:
            return Answer.CAUGHT
        return Answer.HIDDEN if found.state is State.TYPING else Answer.GONE


@dataclass(frozen=True)
class Finding:
    """Something that does not stand: all uses of one name with one problem. `moved_to` is where the name is now."""

    symbol: str
    answer: Answer
    detail: str
    uses: tuple[Use, ...]
    missing: str
    moved_to: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str, str]:
        """Return what a baseline knows it by."""
        return (self.symbol, self.answer.value, self.detail)


def judge_all(judge: Judge, uses: Iterable[Use]) -> tuple[Judged, ...]:
    """Judge every use."""
    return tuple(judge.judge(use) for use in uses)


def find_problems(tree: SymbolTree, judged: Sequence[Judged], before: Mapping[Use, Judged]) -> tuple[Finding, ...]:
    """Return what does not stand, by name.

    What replaces or overrides nothing, or takes other arguments, counts only where it did not do so `before`: in the
    tree that the package is made for.
    """
    groups: dict[tuple[str, str, str], list[Judged]] = {}
    for one in judged:
        drifted = _drift(one, before[one.use]) if one.answer in DRIFTED else None
        if one.answer in BROKEN or drifted:
            groups.setdefault((drifted or one).key, []).append(drifted or one)
    places = tree.defining({_leaf(symbol) for symbol, answer, _ in groups if _may_have_moved(tree, symbol, answer)})
    return tuple(
        Finding(
            symbol=symbol,
            answer=Answer(answer),
            detail=detail,
            uses=tuple(one.use for one in group),
            missing=group[0].missing,
            moved_to=_nearest(symbol, places.get(_leaf(symbol), ())),
        )
        for (symbol, answer, detail), group in sorted(groups.items())
    )


def shows(judged: Judged, finding: Finding) -> bool:
    """Return whether a use has a finding's problem, in some tree."""
    if finding.answer in BROKEN:
        return judged.answer in BROKEN
    parts = set(judged.detail.split(JOINT))
    return judged.answer is finding.answer and bool(parts & set(finding.detail.split(JOINT)))


def _may_have_moved(tree: SymbolTree, symbol: str, answer: str) -> bool:
    """Return whether to look for a name elsewhere: a method of that name in another class is another method."""
    return answer != Answer.DIFFERS and not tree.is_class(symbol.rpartition(".")[0])


def _drift(now: Judged, before: Judged) -> Judged | None:
    """Return what a use that replaces or overrides does wrong now and did not before, None when that is nothing."""
    if before.answer not in {Answer.THERE, Answer.DIFFERS}:
        return None
    new = [part for part in now.detail.split(JOINT) if part not in before.detail.split(JOINT)]
    return replace(now, detail=JOINT.join(new)) if new or now.answer is Answer.NOTHING else None


def _leaf(symbol: str) -> str:
    return symbol.rpartition(".")[2]


def _nearest(symbol: str, places: Sequence[str]) -> tuple[str, ...]:
    """Return where else a name is defined, the likeliest first; nothing where it could be anywhere."""
    others = [place for place in places if place != symbol]
    if len(others) > MOST_PLACES:
        return ()
    parts = set(symbol.split("."))
    return tuple(sorted(others, key=lambda place: (-len(parts & set(place.split("."))), place)))
