"""Make the compiled files of a key, once: from what is installed, from a wheel of the commit, or by a build."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from patchkit.environment.caches import SECRET
from patchkit.environment.folder import write_tree
from patchkit.environment.local import Interpreter
from patchkit.environment.native.key import NativeRequest, build_key
from patchkit.errors import BuildFailed, InfrastructureFailure, RemoteUnavailable
from patchkit.stack.paths import matches
from patchkit.tools.cache import remove_path, storage_errors
from patchkit.tools.git.paths import check_path
from patchkit.tools.process import Limits, run_logged
from patchkit.tools.toolkit import Toolkit

KIND = "builds"
CUDA_ARCH = re.compile(r"sm_(\d+)(\d[a-z]?)")
NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded")
SPOILED = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)  # what zipfile says of one
LOG_BYTES = 256_000_000


@dataclass(frozen=True)
class Native:
    """Compiled files, by path in the tree. `seconds` is what they cost when they were made; `made`: just now."""

    key: str
    files: Mapping[str, Path]
    seconds: float
    made: bool
    origin: str


def make_native(toolkit: Toolkit, request: NativeRequest, interpreter: Interpreter) -> Native:
    """Return the compiled files for a tree, made if the store has none of their key.

    Raises `BuildFailed` when no way fits or the build fails, `InfrastructureFailure` when a wheel's server does not
    answer, `StoreFailure`.
    """
    inputs = request.inputs(request.tree)
    key = build_key(request.spec, request.arch, interpreter, inputs)
    if request.built_from is not None and request.inputs(request.built_from) == inputs:
        files = _installed(request, interpreter)
        return Native(key, files, 0.0, made=False, origin="installed")
    make, made = _maker(toolkit, request, interpreter, inputs), list[Path]()

    def build(folder: Path) -> None:
        make(folder)
        made.append(folder)

    folder = toolkit.cache.make(KIND, key, build)  # who waited for another's build made none
    record = json.loads((folder / "build.json").read_bytes())
    os.utime(folder)  # used now: pruning goes by this
    files = {path: folder / "files" / path for path in record["files"]}
    gone = [path for path, size in record["files"].items() if _size(files[path]) != size]
    if gone:
        remove_path(folder)
        raise InfrastructureFailure(f"{folder}: {gone[0]} is not what was built", "it is built anew the next time")
    return Native(key, files, record["seconds"], bool(made), record["origin"])


def _maker(
    toolkit: Toolkit, request: NativeRequest, interpreter: Interpreter, inputs: Mapping[str, str]
) -> Callable[[Path], None]:
    """Return the way that fits. Raises `BuildFailed` where none does."""
    spec, changed = request.spec, _difference(request.inputs(request.base_tree), inputs)
    if spec.wheel is not None and not changed:
        return lambda folder: _from_wheel_or_build(toolkit, request, interpreter, folder)
    if spec.build is not None:
        return lambda folder: _by_build(toolkit, request, interpreter, folder)
    if spec.wheel is not None:
        what = f"the series changes native inputs ({changed[0]}): no wheel of the commit serves"
        raise BuildFailed(what, "give `environment.native.build`, or leave that patch out")
    other = _difference(request.inputs(request.built_from), inputs) if request.built_from else ["all of them"]
    what = f"native inputs differ from those of the installed build ({other[0]})"
    raise BuildFailed(what, "give `environment.native.wheel` or `build`")


def _difference(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    return sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))


def _installed(request: NativeRequest, interpreter: Interpreter) -> dict[str, Path]:
    """Return what lies beside the packages that the tree holds. Raises `BuildFailed` when nothing does."""
    found: dict[str, Path] = {}
    names = request.repository.list_folder(request.tree, "")
    for library in interpreter.libraries:
        for name in names:
            for path in sorted((library / name).rglob("*")) if (library / name / "__init__.py").is_file() else ():
                relative = path.relative_to(library).as_posix()
                if path.is_file() and matches(relative, request.spec.outputs):
                    found.setdefault(relative, path)
    if not found:
        what = f"{interpreter.path}: has no compiled files of these packages ({', '.join(request.spec.outputs)})"
        raise BuildFailed(what, "`environment.python` is the interpreter in which the build is installed")
    return found


class _NoWheel(BuildFailed):
    """There is no wheel of the commit, which is not the same as one that is spoiled."""


def _from_wheel_or_build(toolkit: Toolkit, request: NativeRequest, interpreter: Interpreter, folder: Path) -> None:
    """Take the wheel of the commit; where there is none, the build serves, if the recipe has one."""
    try:
        _from_wheel(toolkit, request, folder)
    except _NoWheel:
        if request.spec.build is None:
            raise
        _by_build(toolkit, request, interpreter, folder)


def _from_wheel(toolkit: Toolkit, request: NativeRequest, folder: Path) -> None:
    """Take the compiled files out of a wheel that was built from the very commit."""
    from patchkit.tools.web.download import NotFound, download_file  # a slow import that few need

    commit, spec = request.commit, request.spec
    values = {"commit": commit.id, "version": commit.version or "", "arch": request.arch or ""}
    place = re.sub(r"\{(commit|version|arch)\}", lambda found: values[found[1]], spec.wheel or "")
    started = time.monotonic()
    local = Path(place)
    if "://" in place:
        local = folder / "download.whl"
        try:
            download_file(toolkit, place, local)
        except NotFound as error:
            raise _NoWheel(error.message, "is there a wheel of every commit?") from error
        except RemoteUnavailable as error:
            raise InfrastructureFailure(error.message, error.hint) from error
    elif not local.is_file():
        raise _NoWheel(f"{place}: there is no such wheel", "`environment.native.wheel` names one for each commit")
    files = _unpack(local, spec.outputs, folder / "files")
    (folder / "download.whl").unlink(missing_ok=True)
    _note(folder, files, time.monotonic() - started, f"wheel of {commit.id}")


def _unpack(wheel: Path, globs: tuple[str, ...], target: Path) -> dict[str, int]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [one for one in archive.infolist() if not one.is_dir() and matches(one.filename, globs)]
            for member in members:
                check_path(member.filename)
                file = target / member.filename
                file.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as stream, file.open("xb") as copy:
                    shutil.copyfileobj(stream, copy)
    except (*SPOILED, ValueError, FileExistsError) as error:
        raise BuildFailed(f"{wheel.name}: is no wheel that can be unpacked: {error}", "is it whole?") from error
    if not members:
        raise BuildFailed(f"{wheel.name}: holds none of {', '.join(globs)}", "see `environment.native.outputs`")
    return {member.filename: member.file_size for member in members}


def _by_build(toolkit: Toolkit, request: NativeRequest, interpreter: Interpreter, folder: Path) -> None:
    """Run the build in a copy of the patched tree and keep what it made."""
    spec, tree = request.spec, folder / "tree"
    write_tree(request.repository, request.tree, tree)
    log = folder / "build.log"
    toolkit.progress.step(f"build the compiled files of {request.commit.name} (log: {log})")
    started = time.monotonic()
    limits = Limits(spec.timeout_seconds, LOG_BYTES)
    done = run_logged(
        list(spec.build or ()), log, cwd=tree, env=_variables(toolkit, request, interpreter), limits=limits
    )
    if done.exit_code or done.timed_out or done.overflowed:
        raise _failure(toolkit, request, log, "took too long" if done.timed_out else f"exit {done.exit_code}")
    before = {path for path, _ in request.repository.walk(request.tree)}
    made = [path.relative_to(tree).as_posix() for path in sorted(tree.rglob("*")) if path.is_file()]
    made = [path for path in made if path not in before and matches(path, spec.outputs)]
    if not made:
        raise _failure(toolkit, request, log, f"made none of {', '.join(spec.outputs)}")
    with storage_errors(folder):
        for path in made:
            (folder / "files" / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(tree / path, folder / "files" / path)
    remove_path(tree)
    files = {path: _size(folder / "files" / path) for path in made}
    _note(folder, files, time.monotonic() - started, "build")


def _variables(toolkit: Toolkit, request: NativeRequest, interpreter: Interpreter) -> dict[str, str]:
    """Return the build's environment: the user's without secrets, the environment's interpreter first on PATH."""
    env = {name: value for name, value in toolkit.env.items() if not SECRET.search(name)}
    env["PATH"] = os.pathsep.join([str(interpreter.path.parent), env.get("PATH", os.defpath)])
    if arch := CUDA_ARCH.fullmatch(request.arch or ""):
        env["TORCH_CUDA_ARCH_LIST"] = f"{arch[1]}.{arch[2]}"
    told = {"COMMIT": request.commit.id, "VERSION": request.commit.version, "ARCH": request.arch}
    env |= {f"PATCHKIT_{name}": value for name, value in told.items() if value}
    return env | dict(request.spec.env)


def _failure(toolkit: Toolkit, request: NativeRequest, log: Path, what: str) -> BuildFailed | InfrastructureFailure:
    """Keep the log where it outlives the failed build."""
    kept = toolkit.cache.scratch(KIND) / f"failed-{request.commit.id[:12]}-{request.tree[:12]}.log"
    with storage_errors(kept):
        shutil.copyfile(log, kept)
    output = kept.read_text("utf-8", "replace")
    last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "no output")
    message, hint = f"the native build failed ({what}): {last[:300]}", f"the log is {kept}"
    return InfrastructureFailure(message, hint) if NO_SPACE.search(output) else BuildFailed(message, hint)


def _note(folder: Path, files: Mapping[str, int], seconds: float, origin: str) -> None:
    record = {"files": dict(files), "seconds": max(round(seconds, 1), 0.1), "origin": origin}  # 0 means: not made
    with storage_errors(folder):
        (folder / "build.json").write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1
