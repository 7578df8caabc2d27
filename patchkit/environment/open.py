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
from patchkit.environment.installed.overlay import Overlay, make_overlay
from patchkit.environment.local import Interpreter, find_interpreter
from patchkit.environment.native import Native, NativeRequest, Placed, make_native, placed
from patchkit.environment.pool import MARK, PAIR_MARK, Slot, hold_slot
from patchkit.environment.venv import make_venv, venv_id
from patchkit.errors import RequestError, StoreFailure
from patchkit.tools.cache import digest_of, remove_path
from patchkit.tools.git.objects import Repository
from patchkit.tools.isolation import check_isolation, without_network
from patchkit.tools.toolkit import Toolkit


@dataclass(frozen=True)
class EnvironmentRequest:
    """What a recipe asks for. Without `requirements` the interpreter is used as it is: `python`, or patchkit's own.

    With the network `none` a probe sees nothing but a loopback of its own. `overlays` are patched files of packages
    that are installed there, `native` says where compiled files come from.
    """

    requirements: Path | None = None
    python: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    model_caches: tuple[str, ...] = ()
    network: Literal["host", "none"] = "host"
    overlays: tuple[Overlay, ...] = ()
    native: NativeRequest | None = None


@dataclass(frozen=True)
class PairTree:
    """A second tree that runs beside the first: the upstream that it is paired with."""

    id: str
    repository: Repository


def environment_id(toolkit: Toolkit, request: EnvironmentRequest) -> str:
    """Return a hash of what goes into an environment; nothing is built. Raises `RequestError`, `ToolMissing`."""
    return _id_of(find_interpreter(toolkit, request.python), request)


@contextlib.contextmanager
def open_environment(
    toolkit: Toolkit,
    request: EnvironmentRequest,
    patched_tree_id: str,
    repository: Repository,
    pair: PairTree | None = None,
) -> Iterator[Environment]:
    """Hold an environment in which a tree can be run: the tree on disk, in a folder nobody else uses meanwhile.

    With a pair, both trees are on disk and on PYTHONPATH, this one first. Raises `StageFailure`, `RequestError` kinds.
    """
    base = interpreter = _check_place(toolkit, request)
    if request.requirements is not None:
        interpreter = find_interpreter(toolkit, str(make_venv(toolkit, base, request.requirements)))
    identity = _id_of(base, request)
    overlays = tuple(make_overlay(toolkit, overlay, interpreter.libraries) for overlay in request.overlays)
    with contextlib.ExitStack() as stack:
        trees = [(repository, patched_tree_id), *([(pair.repository, pair.id)] if pair else [])]
        slots = tuple(stack.enter_context(hold_slot(toolkit.cache, *tree)) for tree in trees)
        native = make_native(toolkit, request.native, interpreter) if request.native else None
        links = stack.enter_context(placed(slots[0].root, native.files if native else {}))
        roots = stack.enter_context(make_roots(slots[0].path, toolkit.env))
        places = (roots, (*interpreter.libraries, *overlays), toolkit.cache.scratch("bytecode") / identity[:20])
        renewal = stack.enter_context(_Renewal(slots, *places, links).watched())
        marks = {mark: str(slot.path) for mark, slot in zip((MARK, PAIR_MARK), slots, strict=False)}
        variables = {**build_variables(toolkit.env, request.env, request.model_caches, roots), **marks}
        variables["PYTHONPATH"] = os.pathsep.join(map(str, [*(slot.root for slot in slots), *overlays]))
        yield Environment(
            id=identity,
            python=interpreter.path,
            tree=slots[0].root,
            tree_id=patched_tree_id,
            variables=variables,
            versions=interpreter.versions,
            launcher=without_network if request.network == "none" else tuple,
            pair_tree=slots[1].root if pair else None,
            pair_tree_id=pair.id if pair else "",
            native=native,
            renew=renewal.renew,
        )


def prepare_native(toolkit: Toolkit, request: EnvironmentRequest) -> Native | None:
    """Make what an environment takes long to make, its venv and compiled files, before something runs there.

    Returns the compiled files, None where none are asked for. Raises `StageFailure`, `RequestError` kinds.
    """
    interpreter = _check_place(toolkit, request)
    if request.requirements is not None:
        interpreter = find_interpreter(toolkit, str(make_venv(toolkit, interpreter, request.requirements)))
    return make_native(toolkit, request.native, interpreter) if request.native else None


def _check_place(toolkit: Toolkit, request: EnvironmentRequest) -> Interpreter:
    """Return the interpreter asked for. Raises `RequestError` where nothing can run, or not without the network."""
    if os.pathsep in str(toolkit.cache.root):
        hint = "PATCHKIT_CACHE names another place"
        raise RequestError(f"{toolkit.cache.root}: Python imports nothing from a path with {os.pathsep!r} in it", hint)
    if request.network == "none":
        check_isolation()
    return find_interpreter(toolkit, request.python)


@dataclass
class _Renewal:
    """Makes the next run of a probe as the first: the tree as it was, caches empty."""

    slots: tuple[Slot, ...]
    roots: PrivateRoots
    libraries: tuple[Path, ...]
    shared: Path
    links: Placed
    is_new: bool = True  # nothing ran since the trees were made and looked through, and the caches were made

    def __post_init__(self) -> None:
        self.share()

    def renew(self, torn: bool = False) -> None:
        """Undo what a run did. The trees' byte code stays only if no file of theirs was touched, and none is `torn`."""
        if torn:
            self.forget()
        if self.is_new and not self.links.files:  # a build for links may have taken an hour: look again
            self.is_new = False
            return
        self.links.take()  # a tree as it was has no compiled files of ours
        touched = sum(slot.restore() for slot in self.slots) > 0  # all of them, whatever the first one says
        touched |= torn
        self.roots.renew(keep_bytecode=not touched)
        if touched:
            self.share()
        self.links.put()
        self.links.check()

    def forget(self) -> None:
        """Drop the byte code that was kept: Python believes a file that a full disk cut short, here and for ever."""
        remove_path(self.shared)

    @contextlib.contextmanager
    def watched(self) -> Iterator[_Renewal]:
        """Forget the byte code where the store fails: what was written last may be short."""
        try:
            yield self
        except StoreFailure:
            self.forget()
            raise

    def share(self) -> None:
        """Let what is installed keep its byte code."""
        above = {parent for slot in self.slots for parent in slot.root.parents}
        libraries = [path for path in self.libraries if path not in above]
        self.roots.share_bytecode(libraries, self.shared)


def _id_of(base: Interpreter, request: EnvironmentRequest) -> str:
    packages = base.id if request.requirements is None else venv_id(base, request.requirements)
    more = ["network: none"] if request.network == "none" else []
    more += [f"overlay: {overlay.id}" for overlay in request.overlays]
    more += [f"native: {digest_of(request.native.spec.model_dump(mode='json'))}"] if request.native else []
    return digest_of([packages, dict(request.env), list(request.model_caches), *more])
