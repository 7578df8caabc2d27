"""What a bisect searches: a line or graph of nodes, and how one node is asked. One kind of subject for each axis."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from patchkit.environment.local import find_interpreter
from patchkit.environment.native import KIND, Native, build_key, read_inputs
from patchkit.environment.open import environment_id
from patchkit.errors import RequestError
from patchkit.pipeline import OpenedRecipe, environment_request
from patchkit.recipe.library import LoadedIssue, LoadedRecipe
from patchkit.recipe.lock import recipe_digest
from patchkit.recipe.model import Repro
from patchkit.search import Clues, CommitGraph, build_chain, build_graph
from patchkit.source.commit import Commit
from patchkit.source.source import Source
from patchkit.stack.paths import is_native
from patchkit.tools.cache import digest_of
from patchkit.tools.git.objects import CommitRecord
from patchkit.tools.git.reverts import find_taken_back, read_titles, take_turns
from patchkit.verdict.verdict import Series, Verdict
from patchkit.workflows.bisect.conflicts import find_conflicts
from patchkit.workflows.bisect.holes import FixUp, judge_mended, prepare_mended


class Subject(Protocol):
    """What a session needs to know of what it searches, whatever the axis."""

    @property
    def graph(self) -> CommitGraph:
        """Return the nodes between the ends."""

    @property
    def key(self) -> str:
        """Name the question by everything that the answers depend on: same key, same journal."""

    @property
    def flaky(self) -> bool:
        """Return whether runs may err."""

    @property
    def measures(self) -> bool:
        """Return whether the repro measures a value: the search goes by values then, not by answers."""

    def ask(self, node: str, fresh: bool) -> Verdict:
        """Return the verdict at a node."""

    def prepare(self, node: str) -> Native | None:
        """Make the compiled files that a node's probe will need, so that it need not wait for them.

        None where there are none. Raises `StageFailure`, `RequestError` kinds.
        """

    def about(self) -> dict[str, Any]:
        """Return what every document of this bisect says: issue, repro, fidelity, upstream, axis, series, ends."""

    def describe(self, commit: str) -> CommitRecord | None:
        """Return the record of a commit for people."""

    def clues(self, loaded: Collection[str], crashed: bool) -> Clues:
        """Return which nodes are suspect before a probe, by the files of the tree that a repro loaded at the bad end.

        `crashed`: it did not fail in Python there. What is not known is empty.
        """

    def conflicts(self) -> Mapping[str, str]:
        """Return the nodes at which the series does not apply, as far as that is known without a probe, and why."""

    def builds(self) -> tuple[Mapping[str, str], Collection[str]]:
        """Return the nodes with what their native build is made from, by name, and the names that are built already."""

    def advice(self, document: Mapping[str, Any]) -> str:
        """Say what to do with the answer, as a command where there is one."""

    def findings(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return what else the result's document says of the answer on this axis."""

    def inside(self, document: Mapping[str, Any]) -> Subject | str:
        """Return what lies inside the answer and is searched next; else why nothing is, '' when nothing lies there."""


@dataclass(frozen=True)
class CommitSubject:
    """Commits or releases of one upstream: the request with everything that it names at hand."""

    path: Path
    opened: OpenedRecipe
    issue: LoadedIssue
    repro: Repro
    source: Source
    axis: str
    series: Series
    good: Commit
    bad: Commit
    graph: CommitGraph
    flaky: bool
    fix_ups: tuple[FixUp, ...] = field(default=(), kw_only=True)
    holes: dict[str, Verdict] = field(default_factory=dict, kw_only=True, compare=False, repr=False)  # known by now

    @property
    def measures(self) -> bool:
        """Return whether the repro measures a value."""
        return self.repro.metric is not None

    def about(self) -> dict[str, Any]:
        """Return what every document of this bisect says of it."""
        return {
            "recipe": str(self.opened.loaded.path),
            "issue": self.issue.slug,
            "repro": self.repro.name,
            "fidelity": self.repro.fidelity,
            "upstream": self.source.upstream,
            "axis": self.axis,
            "series": self.series,
            "good": self.good.name,
            "bad": self.bad.name,
            **({"fix_ups": [list(one) for one in self.fix_ups]} if self.fix_ups else {}),
        }

    def describe(self, commit: str) -> CommitRecord | None:
        """Return the record of a commit for people."""
        return self.source.repository.read_commit(commit)

    def clues(self, loaded: Collection[str], crashed: bool) -> Clues:
        """Return which commits are suspect by what they change and what titles tell; of releases it is not known."""
        if self.axis not in ("commits", "pair"):
            return Clues()
        source, ends = self.source, (self.good, self.bad)
        titles = read_titles(source.repository, self.good.id, self.bad.id)
        head = source.repository.find_commit("HEAD")
        later = read_titles(source.repository, self.bad.id, head) if head else ()
        return Clues(
            opened=self.touching(loaded),
            native=source.touching(*ends, is_native) if crashed else (),
            turns=take_turns(titles),
            taken_back=find_taken_back(titles, later),
        )

    def touching(self, loaded: Collection[str]) -> Collection[str]:
        """Return the commits that change one of the files that a repro loaded."""
        return self.source.touching(self.good, self.bad, frozenset(loaded).__contains__)

    def conflicts(self) -> Mapping[str, str]:
        """Return the commits at which a patch does not apply, where the files that it names tell that."""
        return find_conflicts(self) if self.axis in ("commits", "pair") else {}

    def builds(self) -> tuple[Mapping[str, str], Collection[str]]:
        """Return the nodes by the native inputs of their commits; a patch that changes these makes it an estimate.

        Nothing where no build is asked for, or commits are not at hand before they are probed.
        """
        spec, repository = self.opened.loaded.recipe.environment.native, self.source.repository
        if spec is None or self.axis != "commits" or self.source.upstream != self.opened.loaded.recipe.main_upstream:
            return {}, ()
        if spec.build is None and spec.wheel is not None and "{commit}" in spec.wheel:
            return {}, ()  # a wheel that one commit lacks says nothing of the others
        inputs = {
            node: read_inputs(repository, repository.read_commit(node).tree, spec.inputs) for node in self.graph.nodes
        }
        names = {node: digest_of(found) for node, found in inputs.items()}
        request = environment_request(self.opened, self.repro)
        if request.requirements is not None:
            return names, ()  # its packages are part of the key, and it may have to be made first
        interpreter = find_interpreter(self.opened.toolkit, request.python)
        distinct = {names[node]: found for node, found in inputs.items()}
        cache, arch = self.opened.toolkit.cache, self.opened.settings.arch
        built = [
            n for n, one in distinct.items() if cache.folder(KIND, build_key(spec, arch, interpreter, one)).exists()
        ]
        return names, built

    def advice(self, document: Mapping[str, Any]) -> str:
        """Say what to do with the answer: a release narrows down to a commit, a commit is looked at, a hole mended."""
        if document["first_bad"] is None:
            return self._offer(document)
        if self.axis != "releases":
            return f"git show {document['first_bad']}"
        command = self._command(document["last_good"], document["first_bad"], "commits")
        return f"the commit inside the release, where git can be reached: {shlex.join(command)}"

    def _offer(self, document: Mapping[str, Any]) -> str:
        """Return how to carry what ended a hole back onto it; '' where no tested commit follows the skipped ones."""
        skipped = set(document["skipped"])
        known = not document["untested"]
        suspects = [one["node"] for one in document["candidates"] if one["commit"] or known]  # with an answer
        after = [node for node in suspects if node not in skipped and skipped & set(self.graph.parents[node])]
        if self.source.kind != "git" or self.axis not in ("commits", "pair") or not after:
            return ""
        if any(after[0] in fix_up for fix_up in self.fix_ups):
            return ""
        carried = [f"--fix-up={','.join(one)}" for one in (*self.fix_ups, (after[0],))]
        command = [*self._command(self.good.name, self.bad.name, self.axis), *carried]
        return f"if {after[0][:12]} is what made commits testable again, carry it back onto them: {shlex.join(command)}"

    def _command(self, good: str, bad: str, axis: str) -> list[str]:
        """Return the words of a bisect of the same issue in git."""
        words = ["patchkit", "bisect", str(self.path), "--issue", f"{self.issue.slug}/{self.repro.name}"]
        words += ["--good", good, "--bad", bad, "--axis", axis, "--source", "git"]
        words += ["--series", self.series] if self.series != "others" else []
        return words + (["--flaky"] if self.flaky and not self.repro.flaky else [])

    def findings(self, document: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002  # of a commit all is said
        """Return nothing more."""
        return {}

    def inside(self, document: Mapping[str, Any]) -> Subject | str:
        """Return the commits of the release that was found, where git has them."""
        if self.axis != "releases" or self.source.kind != "git" or document["first_bad"] is None:
            return ""
        good, bad = self.source.resolve(document["last_good"]), self.source.resolve(document["first_bad"])
        try:
            return replace(
                self, axis="commits", good=good, bad=bad, graph=make_graph(self.source, "commits", good, bad)
            )
        except RequestError as error:
            return f"the commits of {bad.name} cannot be searched: {error.message}"

    def ask(self, node: str, fresh: bool) -> Verdict:
        """Return the verdict at a node."""
        return judge_mended(self, self.source.resolve(node), fresh)

    def prepare(self, node: str) -> Native | None:
        """Make the compiled files that a node's probe will need."""
        return prepare_mended(self, self.source.resolve(node))

    @property
    def key(self) -> str:
        """Name the question by everything that the answers depend on."""
        opened = self.opened
        return digest_of(
            {
                "recipe": recipe_digest(opened.loaded),
                "environment": environment_id(opened.toolkit, environment_request(opened, self.repro)),
                "issue": [self.issue.slug, self.issue.sha256, self.repro.name],
                "ends": [self.good.id, self.bad.id],
                "axis": self.axis,
                "series": self.series,
                **({"flaky": True} if self.flaky else {}),
                **({"fix-ups": self.fix_ups} if self.fix_ups else {}),
            }
        )[:32]


def choose_issue(loaded: LoadedRecipe, name: str) -> tuple[LoadedIssue, Repro]:
    """Return the repro to search with: the first one meant, which is the cheapest; no name will do for one issue.

    Raises `RequestError` for a name that the recipe does not have, and when it is not clear which issue is meant.
    """
    slugs = list(loaded.issues)
    if not name and len(slugs) != 1:
        hint = f"--issue one of: {', '.join(slugs)}" if slugs else "add `issues: [NAME]` to it"
        what = "which issue?" if slugs else "the recipe names no issue"
        raise RequestError(f"{loaded.path}: {what}", hint)
    return loaded.repros_named(name or slugs[0])[0]


def make_graph(source: Source, axis: str, good: Commit, bad: Commit) -> CommitGraph:
    """Return the releases or commits between two ends. Raises `RequestError` when there are none."""
    try:
        if axis == "releases":
            return build_chain(source.releases(good, bad))
        return build_graph(source.history(good, bad), good.id, bad.id)
    except ValueError as error:
        hint = "the good end must be older than the bad one"
        raise RequestError(f"nothing to search between {good.name} and {bad.name}: {error}", hint) from error
