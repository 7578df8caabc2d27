"""An interpreter that is there: which one, what it is, and what is installed for it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from patchkit.errors import RequestError, ToolMissing
from patchkit.tools.cache import digest_of
from patchkit.tools.process import find_program, run_process
from patchkit.tools.toolkit import Toolkit

QUESTION = """
import json, os, platform, site, sys, sysconfig
print(json.dumps({
    "version": platform.python_version(),
    "platform": sysconfig.get_platform(),
    "build": sys.implementation.cache_tag,
    "home": os.path.realpath(sys.executable),
    "stdlib": sysconfig.get_path("stdlib"),
    "packages": site.getsitepackages(),
}))
"""
Stamps = tuple[tuple[int, ...], ...]
ANSWER_SECONDS = 60  # on a machine that is busy or whose disk is far away


@dataclass(frozen=True)
class Interpreter:
    """A Python interpreter. `libraries` are the folders of its standard library and packages; `id` covers them all."""

    path: Path
    home: str  # the real file behind all links
    version: str
    build: str  # implementation, ABI and platform
    libraries: tuple[Path, ...]
    packages: Mapping[str, str]

    @property
    def id(self) -> str:
        """Return a hash of the interpreter and the versions of all packages."""
        return digest_of([str(self.path), self.home, self.version, self.build, dict(self.packages)])

    @property
    def versions(self) -> dict[str, str]:
        """Return the versions that evidence keeps."""
        return {"python": self.version, "platform": self.build, **self.packages}


def find_interpreter(toolkit: Toolkit, python: str | None) -> Interpreter:
    """Return an interpreter by path or name; None is the one that runs patchkit.

    Raises `ToolMissing` when it is not there, `RequestError` when it is no Python.
    """
    path = _locate(python)
    told = tuple((name, toolkit.env[name]) for name in ("PATH", "LD_LIBRARY_PATH") if name in toolkit.env)
    facts = _ask(path, _stamp(path), told)
    folders = [Path(folder) for folder in facts["packages"] if Path(folder).is_dir()]
    return Interpreter(
        path=path,
        home=facts["home"],
        version=facts["version"],
        build=f"{facts['build']} {facts['platform']}",
        libraries=_outermost([Path(facts["stdlib"]), *folders]),
        packages=_installed(folders),
    )


@lru_cache(maxsize=16)
def _ask(path: Path, stamp: Stamps, variables: tuple[tuple[str, str], ...]) -> Mapping[str, Any]:  # noqa: ARG001
    """Return what an interpreter says of itself; the stamp is what else it depends on. A probe would ask twice."""
    answer = run_process([str(path), "-I", "-c", QUESTION], env=dict(variables), timeout_seconds=ANSWER_SECONDS)
    try:
        facts: dict[str, Any] = json.loads(answer.text)
        return {name: facts[name] for name in ("version", "platform", "build", "home", "stdlib", "packages")}
    except (ValueError, KeyError, TypeError) as error:
        raise RequestError(f"{path}: does not answer as a Python interpreter: {answer.complaint}") from error


def _stamp(path: Path) -> Stamps:
    """Return what changes when an interpreter does: of its real file, and of the note that makes a folder a venv."""
    files = (path, path.parent / "pyvenv.cfg", path.parent.parent / "pyvenv.cfg")
    found = (file.stat() for file in files if file.exists())
    return tuple((info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns) for info in found)


def _locate(python: str | None) -> Path:
    named = python or sys.executable
    if "/" not in named:
        named = find_program(named) or ""
    path = Path(os.path.abspath(Path(named).expanduser()))  # noqa: PTH100 - a venv's python is a link: not followed
    if not named or not path.exists():
        raise ToolMissing(
            f"{python}: there is no such interpreter", "`environment.python` is a path, or a name on PATH"
        )
    return path


def _outermost(folders: list[Path]) -> tuple[Path, ...]:
    """Return the folders that lie in no other of them."""
    distinct = sorted(set(folders))
    return tuple(path for path in distinct if not any(parent in distinct for parent in path.parents))


def _installed(folders: list[Path]) -> dict[str, str]:
    """Return name and version of the installed packages, from the names of their folders."""
    found = {}
    for folder in folders:
        for entry in os.scandir(folder):
            if entry.name.endswith((".dist-info", ".egg-info")):
                name, _, version = entry.name.rpartition(".")[0].partition("-")
                found[name.lower()] = version
    return dict(sorted(found.items()))
