"""The axis `pair`: each commit is judged beside the commit of the other upstream that its own files name.

A culprit that moves its pin says little: hundreds of commits of the other upstream lie behind the move. So the range
between the two pins is searched next, at a fixed tree of this upstream: the culprit's, where the fault was seen; or, if
that is bad beside the old pin too, its parent's. When neither turns, the pin is innocent and the culprit's own changes
are guilty.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from patchkit.errors import RequestError
from patchkit.pipeline import patch_tree
from patchkit.source.commit import Commit
from patchkit.source.pins import Paired, Pairing, Prefer
from patchkit.tools.cache import digest_of
from patchkit.verdict.verdict import Verdict
from patchkit.workflows.bisect.holes import FixUp, carry_onto, judge_with
from patchkit.workflows.bisect.subject import CommitSubject, Subject, make_graph


@dataclass(frozen=True)
class PairSubject(CommitSubject):
    """Commits of one upstream, each beside its own commit of another: a repro with `pair` is judged so."""

    pairing: Pairing

    def touching(self, loaded: Collection[str]) -> Collection[str]:
        """Return the commits that change a file that the repro loaded; those that move the pin, if of either tree."""
        found = frozenset(super().touching(loaded))
        reads_pair = any(name.startswith(f"{self.pairing.name}:") for name in loaded)
        return found | self.pairing.movers(self.graph.parents) if reads_pair else found

    def findings(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the culprit and its parent are paired with, and which line says so."""
        if document["first_bad"] is None:
            return {}
        before, culprit = self._pairs(document)
        named = {"before": _describe(before), "culprit": _describe(culprit)}
        return {"pair": {"upstream": self.pairing.name, **named}}

    def inside(self, document: Mapping[str, Any]) -> Subject | str:
        """Return the range of the other upstream behind the culprit, when that moves its pin."""
        if document["first_bad"] is None:
            return ""
        old, new = self._pairs(document)
        if old is None or new is None or old.commit.id == new.commit.id:
            return ""
        culprit = self.source.resolve(document["first_bad"])
        return self._drill(culprit, (old, new), _carried(document))

    @property
    def key(self) -> str:
        """Name the question by what the answers depend on, which of the pins counts included."""
        return digest_of([super().key, self.pairing.prefer])[:32]

    def _parent(self, commit: str) -> Commit | None:
        """Return a commit's first parent, None where history begins."""
        parents = self.source.repository.read_commit(commit).parents
        return self.source.resolve(parents[0]) if parents else None

    def _pairs(self, document: Mapping[str, Any]) -> tuple[Paired | None, Paired | None]:
        """Return what the culprit's parent was judged beside, and what itself was."""
        carried, parent = _carried(document), self._parent(document["first_bad"])
        before = None if parent is None else self._pair_of(parent, carried)
        return before, self._pair_of(self.source.resolve(document["first_bad"]), carried)

    def _pair_of(self, commit: Commit, carried: Mapping[str, FixUp]) -> Paired | None:
        """Return what a commit is paired with, as its series and what is carried onto it leave the pin."""
        subject = carry_onto(self, commit, carried[commit.id]) if commit.id in carried else self
        patched = patch_tree(subject.opened, commit, subject.series, self.issue.slug).patched
        return self.pairing.find(commit, patched.id if patched else "")

    def _drill(self, culprit: Commit, pins: tuple[Paired, Paired], carried: Mapping[str, FixUp]) -> Subject | str:
        """Return the range between two pins beside the culprit; where that cannot be searched, why."""
        old, new = (paired.commit for paired in pins)
        source = self.opened.paired.holder(new)
        if source is not self.opened.paired.holder(old):
            return f"the pin moves from {old.name} to {new.name}, of which {source.upstream}'s git has only one"
        axis = "commits" if source.kind == "git" else "releases"
        try:
            graph = make_graph(source, axis, old, new)
        except RequestError as error:
            back = f"the pin moves from {old.name} to {new.name}, between which nothing is new: {error.message}"
            return f"{back}; what it loses lies in {new.name}..{old.name}"
        own = {field.name: getattr(self, field.name) for field in fields(CommitSubject)}
        return DrillSubject(
            **{**own, "source": source, "axis": axis, "good": old, "bad": new, "graph": graph, "fix_ups": ()},
            fixed=culprit,
            other=self._parent(culprit.id),
            carried=carried,
        )

    def _command(self, good: str, bad: str, axis: str) -> list[str]:
        """Return the words of a bisect of the same issue in git, which pin counts included."""
        pin = [] if self.pairing.prefer == "newest" else ["--pin", self.pairing.prefer]
        return [*super()._command(good, bad, axis), *pin]


@dataclass(frozen=True)
class DrillSubject(CommitSubject):
    """Commits of the other upstream, each beside one fixed commit; `other` is fixed next, should nothing turn.

    `carried` are the fix-ups that fixed commits cannot be told without.
    """

    fixed: Commit
    other: Commit | None
    carried: Mapping[str, FixUp] = field(default_factory=dict, kw_only=True)

    @property
    def fix_up(self) -> FixUp:
        """Return what is carried onto the fixed commit."""
        return self.carried.get(self.fixed.id, ())

    def about(self) -> dict[str, Any]:
        """Return what every document says of it, and what is fixed."""
        fixed = {"upstream": self.fixed.upstream, "commit": self.fixed.id}
        return {**super().about(), "fixed": {**fixed, **({"fix_up": list(self.fix_up)} if self.fix_up else {})}}

    def ask(self, node: str, fresh: bool) -> Verdict:
        """Return the verdict on the fixed commit beside one of the range, as that one's."""
        pair = self.source.resolve(node)
        verdict = judge_with(self, self.fixed, self.fix_up, fresh, pair)
        return replace(verdict, at=pair.name, commit=pair.id, pair=self.fixed.id)

    def touching(self, loaded: Collection[str]) -> Collection[str]:
        """Return the commits that change a file of theirs that the repro loaded."""
        mine = f"{self.source.upstream}:"
        return super().touching([name.removeprefix(mine) for name in loaded if name.startswith(mine)])

    def advice(self, document: Mapping[str, Any]) -> str:
        """Say where to look."""
        found = document["first_bad"]
        return "" if found is None or self.axis == "releases" else f"git show {found}, of {self.source.upstream}"

    def inside(self, document: Mapping[str, Any]) -> Subject | str:
        """Return the same range beside the other commit when the ends do not turn; else nothing is inside."""
        if document["candidates"]:
            return super().inside(document)
        if self.other is not None:
            return replace(self, fixed=self.other, other=None)
        if "cannot be told" in document["message"]:
            return f"{self.source.upstream} cannot be searched alone: {document['message']}"
        return (
            f"{self.source.upstream} alone brings no turn: the culprit's own changes do, beside the pin that it moves"
        )

    @property
    def key(self) -> str:
        """Name the question by what the answers depend on, the fixed commit included."""
        return digest_of([super().key, self.fixed.id, *self.fix_up])[:32]


def pair_with(subject: CommitSubject, prefer: Prefer) -> PairSubject:
    """Return the same commits, each beside what it names. Raises `RequestError` when the recipe pairs it with none."""
    opened = replace(subject.opened, prefer=prefer)
    own = {field.name: getattr(subject, field.name) for field in fields(CommitSubject)}
    own |= {"opened": opened, "repro": subject.repro.model_copy(update={"pair": True})}
    return PairSubject(**own, pairing=opened.paired.open(subject.source.upstream))


def _carried(document: Mapping[str, Any]) -> dict[str, FixUp]:
    """Return what the culprit and its parent were told with, where they cannot be told as they are."""
    told = (document["confirmation"] or {}).get("carried", ())
    return {node: tuple(fix_up) for node, fix_up in reversed(told)}


def _describe(paired: Paired | None) -> dict[str, Any] | None:
    if paired is None:
        return None
    commit, pin = paired.commit, paired.pin
    return {"commit": commit.id, "ref": commit.ref, "subject": commit.subject, "place": pin.place, "text": pin.text}
