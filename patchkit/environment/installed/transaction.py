"""Carries out a plan in a site-packages folder: all of it or nothing, whenever the process is killed.

First everything is laid beside its place (`.<name>.patchkit`), then one rename of `intent.json` to `pending.json`
decides: before it the next run takes all away, after it the next run finishes. What is put in place is renamed there,
never written into: installers link files from their caches, and what other environments share must not change.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from patchkit.environment.installed.change import Plan, Step, journal_text
from patchkit.errors import RequestError
from patchkit.source.installed.folder import read_file
from patchkit.source.installed.journal import (
    BLOBS,
    JOURNAL,
    PENDING,
    State,
    dump_journal,
    load_journal,
    own_folder,
    read_journal,
)
from patchkit.tools.cache import remove_path, storage_errors

INTENT = "intent.json"
BESIDE = ".{}.patchkit"  # where the new content of a file waits, on the same file system
MISPLACED = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT)


@contextlib.contextmanager
def hold(info: Path) -> Iterator[None]:
    """Hold a distribution against other patchkits; waits. The lock goes with the process, and leaves no file."""
    with storage_errors(info):
        descriptor = os.open(info, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def recover(info: Path) -> str:
    """Finish, or take back, a change that was begun and not finished; return what was done in a word, '' for nothing.

    The caller holds the distribution. Raises `RequestError` when somebody changed the files in between.
    """
    own = own_folder(info.parent, info.name)
    if not own.exists():
        return ""
    with storage_errors(info):
        if (own / PENDING).exists():
            _finish(info, _read_plan(own / PENDING))
            return "finished"
        if (own / INTENT).exists():
            _take_back(info, _read_plan(own / INTENT))
            return "taken back"
        _tidy(info)
    return ""


def prepare(info: Path, plan: Plan) -> None:
    """Lay all that a plan needs beside its place; nothing that is in use changes. Raises `StoreFailure`.

    Follow with `commit`, or with `recover` to take it away.
    """
    own = own_folder(info.parent, info.name)
    with storage_errors(info):
        (own / BLOBS).mkdir(parents=True, exist_ok=True)
        _write(_beside(own / INTENT), json.dumps(_document(plan)).encode())
        _beside(own / INTENT).replace(own / INTENT)
        try:
            _lay_out(info, own, plan)
        except BaseException:
            _take_back(info, plan)
            raise


def commit(info: Path) -> None:
    """Carry out what was prepared. Raises `StoreFailure`; the next `recover` goes on from there."""
    own = own_folder(info.parent, info.name)
    with storage_errors(info):
        (own / INTENT).rename(own / PENDING)
        _sync_folder(own)
        _finish(info, _read_plan(own / PENDING))


def _lay_out(info: Path, own: Path, plan: Plan) -> None:
    root = info.parent
    for sha256 in plan.journal.blobs if plan.journal else ():
        if not (own / BLOBS / sha256).exists():
            _write(own / BLOBS / sha256, plan.contents[sha256])
    for folder in plan.make:
        (root / folder).mkdir(exist_ok=True)
    for step in plan.steps:
        if step.after is not None:
            _write_beside(root / step.path, plan.contents[step.after.sha256], step.after)
    if plan.journal is not None:
        _write(_beside(own / JOURNAL), journal_text(plan.journal))


def _write_beside(target: Path, data: bytes, state: State) -> None:
    """Lay a file beside its place, with mode and time, and with the owner of the one that it will replace."""
    waiting = _beside(target)
    waiting.parent.mkdir(exist_ok=True)  # of byte code: an installer's __pycache__ may have been cleaned away
    _write(waiting, data)
    with contextlib.suppress(FileNotFoundError, PermissionError):
        owner = target.stat()
        os.chown(waiting, owner.st_uid, owner.st_gid)
    waiting.chmod(state.mode)
    os.utime(waiting, ns=(state.mtime_ns, state.mtime_ns))


def _finish(info: Path, plan: Plan) -> None:
    """Put everything in its place; whatever is there already is left."""
    root, own = info.parent, own_folder(info.parent, info.name)
    for step in plan.steps:
        _settle(root, step)
    for folder in plan.remove:
        remove_path(root / folder / "__pycache__")
        _remove_empty(root / folder)
    if plan.journal is None:
        (own / JOURNAL).unlink(missing_ok=True)
    elif _beside(own / JOURNAL).exists():
        _beside(own / JOURNAL).replace(own / JOURNAL)
    _sync_folder(own)
    (own / PENDING).unlink()
    _tidy(info)


def _settle(root: Path, step: Step) -> None:
    """Give one file its new state. Raises `RequestError` when it has neither the old nor the new content."""
    target = root / step.path
    now = read_file(root, step.path)
    found = None if now is None else hashlib.sha256(now).hexdigest()
    waiting = _beside(target)
    wanted = None if step.after is None else step.after.sha256
    laid = waiting.exists()
    if not step.cache and (found not in {step.before, wanted} or (wanted and not laid and found != wanted)):
        hint = "install the package again with --force-reinstall"
        raise RequestError(f"{target}: was changed while a patch was half applied", hint)
    if wanted is None:
        target.unlink(missing_ok=True)
    elif laid:
        waiting.replace(target)


def _take_back(info: Path, plan: Plan) -> None:
    """Take away what was prepared; only a run that was killed, or failed, before it was decided comes here."""
    root, own = info.parent, own_folder(info.parent, info.name)
    for step in plan.steps:
        with contextlib.suppress(IsADirectoryError):  # not ours, and what prepare stumbled over
            _beside(root / step.path).unlink(missing_ok=True)
    _beside(own / JOURNAL).unlink(missing_ok=True)
    known = read_journal(root, info.name)
    for folder in sorted(set(plan.make) - set(known.folders if known else ()), reverse=True):
        _remove_empty(root / folder)
    (own / INTENT).unlink(missing_ok=True)
    _tidy(info)


def _tidy(info: Path) -> None:
    """Remove what no journal needs; the whole folder when there is no journal."""
    own = own_folder(info.parent, info.name)
    journal = read_journal(info.parent, info.name)
    if journal is None:
        remove_path(own)
        return
    for path in [*own.iterdir(), *(own / BLOBS).iterdir()]:
        if path.name not in {JOURNAL, BLOBS, *journal.blobs}:
            remove_path(path)


def _document(plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON-like values, without the contents: those lie beside their places."""
    journal = None if plan.journal is None else dump_journal(plan.journal)
    steps = [asdict(step) for step in plan.steps]
    return {"steps": steps, "journal": journal, "make": plan.make, "remove": plan.remove}


def _read_plan(path: Path) -> Plan:
    try:
        found: Mapping[str, Any] = json.loads(path.read_bytes())
        steps = tuple(_read_step(step) for step in found["steps"])
        journal = None if found["journal"] is None else load_journal(found["journal"], path)
        return Plan(steps, journal, tuple(found["make"]), tuple(found["remove"]))
    except (ValueError, KeyError, TypeError) as error:
        hint = "install the package again with --force-reinstall"
        raise RequestError(f"{path}: is no plan of this patchkit: {error}", hint) from error


def _read_step(step: Mapping[str, Any]) -> Step:
    return Step(step["path"], step["before"], State(**step["after"]) if step["after"] else None, step["cache"])


def _beside(path: Path) -> Path:
    return path.with_name(BESIDE.format(path.name))


def _write(path: Path, data: bytes) -> None:
    """Write a file to the disk; a link in its place is not followed."""
    path.unlink(missing_ok=True)
    with path.open("xb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_empty(folder: Path) -> None:
    """Remove a folder unless something is in it."""
    try:
        folder.rmdir()
    except OSError as error:
        if error.errno not in MISPLACED:
            raise
