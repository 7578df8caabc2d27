"""Kept folders that are switched between trees: a probe costs the files that differ, not a checkout.

Each slot of the pool is a folder in the store with the tree, a note of what was written (`state`), and a lock. The note
is removed before anything changes and written when all is in place: a process killed in between leaves a slot whose
every file is compared before the next use. A power cut can leave right sizes over wrong bytes, so a note counts only
until the machine restarts.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from patchkit.environment.folder import (
    Plan,
    Stamp,
    check_links,
    check_names,
    scan_folder,
    settle,
    sync_tree,
)
from patchkit.tools.cache import Cache, ensure_folder, storage_errors, write_atomically
from patchkit.tools.git.objects import Entry, Repository
from patchkit.tools.process import end_marked

KIND = "worktrees"
MARK = "PATCHKIT_SLOT"  # the variable by which the processes of a slot are known
PAIR_MARK = "PATCHKIT_PAIR_SLOT"  # of a slot that holds the second of two trees
HELD = "held"  # there while somebody works in the slot
STATE_FORMAT = 1
FAR = 1 << 30  # how far a slot is whose tree nobody knows: taken when there is no better one
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class State:
    """What a slot holds: the tree's id and, for each file written, its stamp. `links` and `submodules` by path."""

    tree: str
    stamps: Mapping[str, Stamp]
    links: Mapping[str, str]
    submodules: Mapping[str, Entry]


@dataclass
class Slot:
    """One kept folder, held by this process. `path` is the slot's own folder, `root` the tree inside it."""

    repository: Repository
    path: Path
    state: State | None = field(default=None)

    @property
    def root(self) -> Path:
        """Return the folder that holds the tree."""
        return self.path / "tree"

    def switch(self, tree: str) -> bool:
        """Make the slot hold a tree and nothing else; return whether a file had to be written or removed.

        Files that are the same in both trees are not touched. Raises `BuildFailed`, `StoreFailure`.
        """
        state = self.state
        if state is None:
            self._sync(tree)
            return True
        with storage_errors(self.path):
            found = scan_folder(self.root)
        intact = {path: stamp for path, stamp in found.files.items() if state.stamps.get(path) == stamp}
        if tree == state.tree and len(intact) == len(found.files) == len(state.stamps):
            return False
        wanted = self._plan(state, tree, intact)
        if wanted is None:
            self._sync(tree)
            return True
        self._forget()
        with storage_errors(self.path):
            stamps = settle(self.repository, self.root, found, wanted.plan)
        self._note(State(tree, stamps, wanted.links, wanted.submodules))
        return True

    def restore(self) -> bool:
        """Undo whatever a probe did to the files of the tree; return whether it had done anything."""
        return self.state is not None and self.switch(self.state.tree)

    def load(self) -> None:
        """Read the slot's note, when there is one that counts."""
        self.state = _read_state(self.path / "state")

    def _plan(self, state: State, tree: str, intact: Mapping[str, Stamp]) -> _Switch | None:
        """Return what must be written for another tree; None when the earlier tree is not known any more."""
        try:
            deltas = self.repository.diff(state.tree, tree)
        except KeyError:
            return None
        changed = {delta.path: delta.new for delta in deltas}
        check_names(changed)
        links, submodules = dict(state.links), dict(state.submodules)
        for path, entry in changed.items():
            links.pop(path, None)
            submodules.pop(path, None)
            if entry is not None and stat.S_ISLNK(entry.mode):
                links[path] = self.repository.read_blob(entry.blob).decode("utf-8", "surrogateescape")
            if entry is not None and stat.S_IFMT(entry.mode) == 0o160000:
                submodules[path] = entry
        check_links(links)
        keep = {path: stamp for path, stamp in intact.items() if path not in changed}
        entries = {path: entry for path, entry in changed.items() if entry is not None}
        for path in state.stamps.keys() - keep.keys() - changed.keys():
            if (entry := self.repository.entry(tree, path)) is not None:
                entries[path] = entry
        return _Switch(Plan({**submodules, **entries}, keep), links, submodules)

    def _sync(self, tree: str) -> None:
        self._forget()
        stamps = sync_tree(self.repository, tree, self.root)
        special = {path: entry for path, entry in self.repository.walk(tree) if not stat.S_ISREG(entry.mode)}
        links = {
            path: str((self.root / path).readlink()) for path, entry in special.items() if stat.S_ISLNK(entry.mode)
        }
        submodules = {path: entry for path, entry in special.items() if path not in links}
        self._note(State(tree, stamps, links, submodules))

    def _forget(self) -> None:
        self.state = None
        with storage_errors(self.path):
            (self.path / "state").unlink(missing_ok=True)

    def _note(self, state: State) -> None:
        write_atomically(self.path / "state", _dump_state(state), durable=False)  # it counts until a restart only
        self.state = state


@dataclass(frozen=True)
class _Switch:
    plan: Plan
    links: Mapping[str, str]
    submodules: Mapping[str, Entry]


@contextlib.contextmanager
def hold_slot(cache: Cache, repository: Repository, tree: str) -> Iterator[Slot]:
    """Hold a slot of the pool that contains a tree: the one that has it, else the nearest free one, else a new one.

    Raises `BuildFailed` for a tree that cannot be written, `StoreFailure`.
    """
    with contextlib.ExitStack() as stack:
        slot = Slot(repository, _take(cache, repository, tree, stack))
        with storage_errors(slot.path):
            ensure_folder(slot.path)
        held = slot.path / HELD
        if held.exists():  # by a patchkit that was killed: its probes would go on in this tree
            end_marked(dict.fromkeys((MARK, PAIR_MARK), str(slot.path)))
        with storage_errors(slot.path):
            held.touch()
        slot.load()
        slot.switch(tree)
        yield slot
        held.unlink(missing_ok=True)  # not after an error: who knows what still runs


def _take(cache: Cache, repository: Repository, tree: str, stack: contextlib.ExitStack) -> Path:
    """Lock a slot, best first. Whoever is beaten to one takes the next, and beyond the last a new one."""
    pool = cache.scratch(KIND)
    digest = hashlib.sha256(str(repository.path).encode()).hexdigest()[:6]  # two upstreams may share a folder name
    prefix = f"{repository.path.name.removesuffix('.git')}-{digest}-"
    numbers = [int(text) for path in pool.glob(f"{prefix}*") if (text := path.name.removeprefix(prefix)).isdigit()]
    known = sorted(numbers, key=lambda number: (_distance(repository, pool / f"{prefix}{number}", tree), number))
    number = 0
    for candidate in known:
        if _try_lock(cache, f"{prefix}{candidate}", stack):
            return pool / f"{prefix}{candidate}"
    while number in numbers or not _try_lock(cache, f"{prefix}{number}", stack):
        number += 1
    return pool / f"{prefix}{number}"


def _try_lock(cache: Cache, name: str, stack: contextlib.ExitStack) -> bool:
    try:
        stack.enter_context(cache.lock(f"{KIND}-{name}", timeout_seconds=0))
    except TimeoutError:
        return False
    return True


def _distance(repository: Repository, slot: Path, tree: str) -> int:
    """Return how many files a slot is away from a tree."""
    try:
        with (slot / "state").open("rb") as stream:
            held = str(json.loads(stream.readline())["tree"])
        return len(repository.diff(held, tree))
    except (OSError, ValueError, KeyError):
        return FAR


def _boot_id() -> str:
    with contextlib.suppress(OSError):
        return BOOT_ID.read_text().strip()
    return ""


def _dump_state(state: State) -> bytes:
    """Write the tree's id on a line of its own, so that choosing a slot need not read the rest."""
    head = {"format": STATE_FORMAT, "tree": state.tree, "boot": _boot_id()}
    body = {
        "stamps": state.stamps,
        "links": state.links,
        "submodules": {path: entry.blob for path, entry in state.submodules.items()},
    }
    return f"{json.dumps(head)}\n{json.dumps(body)}\n".encode()


def _read_state(path: Path) -> State | None:
    try:
        first, _, rest = path.read_bytes().partition(b"\n")
        head, body = json.loads(first), json.loads(rest)
        if head["format"] != STATE_FORMAT or head["boot"] != _boot_id():
            return None
        stamps = {name: Stamp(*stamp) for name, stamp in body["stamps"].items()}
        submodules = {name: Entry(0o160000, blob) for name, blob in body["submodules"].items()}
        return State(head["tree"], stamps, body["links"], submodules)
    except (OSError, ValueError, KeyError, TypeError):
        return None
