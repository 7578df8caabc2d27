"""Virtual environments made from a requirements file, once for each content of it.

A venv cannot be moved, so it is built where it stays, under a lock, and counts only when its marker is there: the
marker is written last, and a folder without one is rubbish of a killed build.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from pathlib import Path

from patchkit.environment.caches import SECRET
from patchkit.environment.local import Interpreter
from patchkit.errors import BuildFailed, InfrastructureFailure, RequestError, StoreFailure
from patchkit.tools.cache import digest_of, remove_path, storage_errors, write_atomically
from patchkit.tools.git.client import redact
from patchkit.tools.process import end_marked, run_logged
from patchkit.tools.toolkit import Toolkit

KIND = "environments"
VENV_FORMAT = 1
MARK = "PATCHKIT_VENV"  # the variable by which the processes of a build are known
INCLUDE = re.compile(r"^\s*(?:-r|--requirement|-c|--constraint)[\s=]+(\S+)", re.MULTILINE)
# Variables that would send pip elsewhere than into the new venv. All else of the caller's pip configuration counts.
ELSEWHERE = (
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_USER",
    "PIP_PYTHON",
    "PYTHONPATH",
    "PYTHONHOME",
    "VIRTUAL_ENV",
)
NETWORK = re.compile(
    r"Retrying \(Retry|Connection(?:Error|Reset| refused| aborted| broken)|name resolution|timed out|ReadTimeout"
    r"|ProxyError|SSLError|IncompleteRead|HTTP error 5\d\d|5\d\d (?:Server|Client) Error"
)
NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded")


def venv_id(base: Interpreter, requirements: Path) -> str:
    """Return the hash of what a venv is made from: interpreter, requirements and every file they include.

    Raises `RequestError` when a file is not there.
    """
    return digest_of([VENV_FORMAT, base.home, base.version, base.build, _read_requirements(requirements)])


def make_venv(toolkit: Toolkit, base: Interpreter, requirements: Path) -> Path:
    """Return the interpreter of the venv for a requirements file, built when it is not there.

    A second process waits for the first. Raises `BuildFailed` when pip refuses, `InfrastructureFailure` when the
    network fails, `StoreFailure` when the disk is full, `RequestError` when a requirements file is missing.
    """
    name = f"venv-{venv_id(base, requirements)[:20]}"
    folder = toolkit.cache.folder(KIND, name)
    if not _is_complete(folder):
        with toolkit.cache.lock(f"{KIND}-{name}"):
            if not _is_complete(folder):
                _build(toolkit, base, requirements, folder)
    os.utime(folder)  # used now: pruning goes by this
    return _python_of(folder)


def _is_complete(folder: Path) -> bool:
    return (folder / "complete.json").exists() and _python_of(folder).exists()


def _python_of(folder: Path) -> Path:
    return folder / "venv" / "bin" / "python"


def _build(toolkit: Toolkit, base: Interpreter, requirements: Path, folder: Path) -> None:
    started = time.monotonic()
    end_marked({MARK: str(folder)})  # the pip of a patchkit that was killed: it would go on writing here
    with storage_errors(folder):
        remove_path(folder)
        folder.mkdir(parents=True)
    log = folder / "pip.log"
    toolkit.progress.step(f"make environment {requirements.name} with Python {base.version} (log: {log})")
    try:
        _run(toolkit, [str(base.path), "-m", "venv", str(folder / "venv")], requirements, log)
        _copy_configuration(folder / "venv")
        install = [str(_python_of(folder)), "-m", "pip", "install", "--no-compile", "-r", str(requirements.resolve())]
        _run(toolkit, install, requirements, log)
    except BaseException:
        remove_path(folder / "venv")
        raise
    record = {
        "requirements": requirements.name,
        "python": base.version,
        "seconds": round(time.monotonic() - started, 1),
    }
    write_atomically(folder / "complete.json", json.dumps(record).encode())


def _run(toolkit: Toolkit, command: list[str], requirements: Path, log: Path) -> None:
    """Run one step of the build in the folder of the requirements, whose relative paths pip reads from there."""
    env = {name: value for name, value in toolkit.env.items() if name not in ELSEWHERE and not _is_secret(name)}
    env |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", MARK: str(log.parent)}
    if toolkit.offline:
        env["PIP_NO_INDEX"] = "1"
    done = run_logged(command, log, cwd=requirements.resolve().parent, env=env)
    if done.exit_code:
        raise _failure(log.read_text("utf-8", "replace"), requirements, log)


def _is_secret(name: str) -> bool:
    """Return whether a variable holds what a package's build script must not see; pip's and uv's own are for pip."""
    return SECRET.search(name) is not None and not name.startswith(("PIP_", "UV_"))


def _failure(output: str, requirements: Path, log: Path) -> Exception:
    """Tell what went wrong: the disk, the network, or the requirements themselves."""
    lines = [line for line in output.strip().splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    message = f"{requirements}: no environment can be made from it: " + redact("\n".join((errors or lines)[-3:]))
    if NO_SPACE.search(output):
        return StoreFailure(message, f"free space on the disk of {log.parent}; the log is {log}")
    if NETWORK.search(output):
        return InfrastructureFailure(message, f"the package index did not answer; the log is {log}")
    return BuildFailed(message, f"the log is {log}")


def _copy_configuration(venv: Path) -> None:
    """Hand on the pip configuration that lies in the environment which runs patchkit; pip looks only in its own."""
    own = Path(sys.prefix) / "pip.conf"
    if own.exists():
        with storage_errors(venv):
            shutil.copyfile(own, venv / "pip.conf")


def _read_requirements(path: Path) -> dict[str, str]:
    """Return the text of a requirements file and of all that it includes, by path from the first one's folder."""
    texts: dict[str, str] = {}
    waiting = [path]
    while waiting:
        file = waiting.pop()
        name = os.path.relpath(file, path.parent)
        if name in texts:
            continue
        try:
            texts[name] = file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise RequestError(f"{file}: this requirements file cannot be read: {error}") from error
        waiting.extend(file.parent / found for found in INCLUDE.findall(texts[name]) if "://" not in found)
    return texts
