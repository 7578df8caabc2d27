"""Open an environment: interpreter or venv, the tree on disk, private caches."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from patchkit.environment.caches import PrivateRoots, build_variables, make_roots
from patchkit.environment.environment import Environment
from patchkit.environment.local import Interpreter, find_interpreter
from patchkit.environment.pool import MARK, Slot, hold_slot
from patchkit.environment.venv import make_venv, venv_id
from patchkit.errors import RequestError
from patchkit.tools.cache import digest_of
from patchkit.tools.git.objects import Repository
from patchkit.tools.isolation import check_isolation, without_network
from patchkit.tools.toolkit import Toolkit


@dataclass(frozen=True)
class EnvironmentRequest:
    """What a recipe asks for. Without `requirements` the interpreter is used as it is: `python`, or patchkit's own.

    With the network `none` a probe sees nothing but a loopback of its own.
    """

    requirements: Path | None = None
    python: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    model_caches: tuple[str, ...] = ()
    network: Literal["host", "none"] = "host"


def environment_id(toolkit: Toolkit, request: EnvironmentRequest) -> str:
    """Return a hash of what goes into an environment; nothing is built. Raises `RequestError`, `ToolMissing`."""
    return _id_of(find_interpreter(toolkit, request.python), request)


@contextlib.contextmanager
def open_environment(
    toolkit: Toolkit, request: EnvironmentRequest, patched_tree_id: str, repository: Repository
) -> Iterator[Environment]:
    """Hold an environment in which a tree can be run: the tree on disk, in a folder nobody else uses meanwhile.

    Raises `BuildFailed`, `InfrastructureFailure`, `RequestError`, `StoreFailure`; `ToolMissing` where the kernel gives
    no namespace to a probe that must not see the network.
    """
    if os.pathsep in str(toolkit.cache.root):
        hint = "PATCHKIT_CACHE names another place"
        raise RequestError(f"{toolkit.cache.root}: Python imports nothing from a path with {os.pathsep!r} in it", hint)
    base = find_interpreter(toolkit, request.python)
    if request.network == "none":
        check_isolation()
    interpreter = base
    if request.requirements is not None:
        interpreter = find_interpreter(toolkit, str(make_venv(toolkit, base, request.requirements)))
    identity = _id_of(base, request)
    with hold_slot(toolkit.cache, repository, patched_tree_id) as slot, make_roots(slot.path, toolkit.env) as roots:
        shared = toolkit.cache.scratch("bytecode") / identity[:20]
        renewal = _Renewal(slot, roots, interpreter, shared)
        renewal.share()
        variables = build_variables(toolkit.env, request.env, request.model_caches, roots)
        yield Environment(
            id=identity,
            python=interpreter.path,
            tree=slot.root,
            tree_id=patched_tree_id,
            variables={**variables, "PYTHONPATH": str(slot.root), MARK: str(slot.path)},
            versions=interpreter.versions,
            launcher=without_network if request.network == "none" else tuple,
            renew=renewal.renew,
        )


@dataclass(frozen=True)
class _Renewal:
    """Makes the next run of a probe as the first: the tree as it was, caches empty."""

    slot: Slot
    roots: PrivateRoots
    interpreter: Interpreter
    shared: Path

    def renew(self) -> None:
        """Undo what a run did. The tree's byte code stays only if no file of the tree was touched."""
        touched = self.slot.restore()
        self.roots.renew(keep_bytecode=not touched)
        if touched:
            self.share()

    def share(self) -> None:
        """Let the interpreter's own libraries keep their byte code."""
        libraries = [path for path in self.interpreter.libraries if path not in self.slot.root.parents]
        self.roots.share_bytecode(libraries, self.shared)


def _id_of(base: Interpreter, request: EnvironmentRequest) -> str:
    packages = base.id if request.requirements is None else venv_id(base, request.requirements)
    cut_off = ["network: none"] if request.network == "none" else []
    return digest_of([packages, dict(request.env), list(request.model_caches), *cut_off])
