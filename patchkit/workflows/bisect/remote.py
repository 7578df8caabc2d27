"""Probes on a Ray cluster: the question travels, the verdict and its evidence come back.

Every worker opens the recipe for itself and has a store of its own, so nothing but words crosses the wire. A worker
that is lost is the machine's failure, never evidence: the probe runs again elsewhere.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from patchkit import __version__
from patchkit.errors import PatchkitError, RequestError
from patchkit.pipeline import open_recipe
from patchkit.search import CommitGraph
from patchkit.tools.cache import Cache, digest_of
from patchkit.tools.cluster import Cluster, WorkerLost, open_cluster
from patchkit.tools.toolkit import Toolkit
from patchkit.verdict.evidence import KIND
from patchkit.verdict.verdict import Answer, Reason, Verdict
from patchkit.workflows.bisect.axes.open import open_subject
from patchkit.workflows.bisect.request import BisectRequest
from patchkit.workflows.bisect.subject import Subject

SHIPPED = ("recipes", "patches", "issues")  # what a library is made of


@dataclass(frozen=True)
class Site:
    """What a worker is told once: which search this is. `steps` are results whose inside is searched, as JSON.

    `recipe` is relative to the worker's folder when the library was shipped there. `ends` are the ids that the worker
    must find at the ends as well.
    """

    request: BisectRequest
    steps: tuple[str, ...]
    store: str
    is_local: bool  # on this machine: its store is the store
    version: str
    ends: str


@dataclass(frozen=True)
class Ask:
    """One question to a worker."""

    site: Site
    node: str
    fresh: bool


@dataclass(frozen=True)
class Told:
    """What a worker answers: a verdict with the files of its evidence, or what is wrong whatever the commit."""

    verdict: Verdict | None = None
    evidence: Mapping[str, bytes] = field(default_factory=dict)
    message: str = ""
    hint: str = ""


Worker = Callable[[Ask], Told]


def answer(ask: Ask, env: Mapping[str, str]) -> Told:
    """Answer a question; runs in a process of the cluster, whose environment is `env`."""
    try:
        if ask.site.version != __version__:
            message = f"a worker has patchkit {__version__}, here it is {ask.site.version}"
            raise RequestError(message, "install the same version on every node")
        verdict = _open_site(ask.site, tuple(sorted(env.items()))).ask(ask.node, ask.fresh)
    except PatchkitError as error:
        return Told(message=error.message, hint=error.hint)
    folder = Path(verdict.evidence) if verdict.evidence else None
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} if folder else {}
    return Told(verdict, files)


@functools.lru_cache(maxsize=4)
def _open_site(site: Site, variables: tuple[tuple[str, str], ...]) -> Subject:
    env = dict(variables)
    own = "" if site.is_local else env.get("PATCHKIT_CACHE", "")
    toolkit = Toolkit(Cache(Path(own or site.store)), env=env)
    subject: Subject | str = open_subject(open_recipe(toolkit, site.request.recipe, site.request.source), site.request)
    for step in site.steps:
        if not isinstance(subject, str):
            subject = subject.inside(json.loads(step))
    if isinstance(subject, str):
        raise RequestError(f"a worker finds nothing inside the answer: {subject}", "are its upstreams the same?")
    if ends_of(subject.graph) != site.ends:
        raise RequestError("a worker sees other commits than this machine does", "are its upstreams the same?")
    return subject


def ends_of(graph: CommitGraph) -> str:
    """Name a graph by its nodes: two machines must search the same one."""
    return digest_of(list(graph.nodes))


@dataclass(frozen=True)
class Remote:
    """How a search asks its nodes on a cluster."""

    cluster: Cluster
    toolkit: Toolkit
    request: BisectRequest
    resource: str
    worker: Worker
    steps: tuple[str, ...] = ()

    def inside(self, result: Mapping[str, Any]) -> Remote:
        """Return how to ask the nodes of what lies inside an answer."""
        return replace(self, steps=(*self.steps, json.dumps(result, sort_keys=True)))

    def ask(self, subject: Subject, node: str, fresh: bool) -> Verdict:
        """Return the verdict at a node. Raises `RequestError` with what is wrong on the worker."""
        store = str(self.toolkit.cache.root)
        site = Site(self.request, self.steps, store, self.cluster.is_local, __version__, ends_of(subject.graph))
        try:
            told = self.cluster.run(self.worker, Ask(site, node, fresh), self.resource)
        except WorkerLost as lost:
            return _spoiled(subject, node, str(lost))
        if told.verdict is None:
            raise RequestError(f"on a worker: {told.message}", told.hint)
        return _bring_home(self.toolkit.cache, told.verdict, told.evidence)


def _spoiled(subject: Subject, node: str, detail: str) -> Verdict:
    about = subject.about()
    return Verdict(
        issue=about["issue"],
        repro=about["repro"],
        at=node,
        commit=node,
        tree="",
        series=about["series"],
        answer=Answer.SKIP,
        reason=Reason.INFRASTRUCTURE,
        detail=f"the worker was lost: {detail}",
        fidelity=about["fidelity"],
        duration_seconds=0.0,
        evidence=None,
    )


def _bring_home(cache: Cache, verdict: Verdict, files: Mapping[str, bytes]) -> Verdict:
    """Keep a worker's evidence in this machine's store, unless it is the same store."""
    if not verdict.evidence or Path(verdict.evidence).is_relative_to(cache.root):
        return verdict

    def write(folder: Path) -> None:
        for name, content in files.items():
            (folder / Path(name).name).write_bytes(content)

    key = digest_of({name: digest_of(content.hex()) for name, content in sorted(files.items())})
    return replace(verdict, evidence=str(cache.make(KIND, key, write)))


@contextlib.contextmanager
def open_remote(toolkit: Toolkit, request: BisectRequest, subject: Subject, worker: Worker) -> Iterator[Remote]:
    """Connect to the cluster that a request names; `worker` is `answer` with the environment of where it runs.

    A repro that needs a GPU runs on the nodes that offer the target's architecture as a resource. Raises `RequestError`
    when none does, `ToolMissing`, `RemoteUnavailable`.
    """
    loaded = open_recipe(toolkit, request.recipe, request.source).loaded
    root, arch = loaded.root.resolve(), loaded.recipe.target.arch
    recipe = request.recipe.resolve()
    ships = [root / name for name in SHIPPED if (root / name).is_dir()]
    if not any(recipe.is_relative_to(folder) for folder in ships):
        ships.append(recipe.parent)
    with open_cluster(request.ray, request.jobs, ships, root) as cluster:
        resource = arch if arch and subject.about()["fidelity"] == "needs-gpu" else ""
        if resource and not cluster.offers(resource):
            hint = f"start a worker on such a machine with: ray start --address … --resources '{{\"{resource}\": 1}}'"
            raise RequestError(f"ray at {request.ray}: no node offers {resource}", hint)
        path = recipe if cluster.is_local else recipe.relative_to(root)
        ids = tuple(",".join(one) for one in subject.about().get("fix_ups", ()))  # a branch may have moved there
        yield Remote(cluster, toolkit, replace(request, recipe=path, fix_up=ids), resource, worker)
