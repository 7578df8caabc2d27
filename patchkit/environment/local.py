"""An interpreter that is there: which one, what it is, and what is installed for it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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
    "packages": [path for path in site.getsitepackages() if os.path.isdir(path)],
}))
"""
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
    environment = {name: value for name, value in toolkit.env.items() if name in {"PATH", "LD_LIBRARY_PATH"}}
    answer = run_process([str(path), "-I", "-c", QUESTION], env=environment, timeout_seconds=ANSWER_SECONDS)
    try:
        facts = json.loads(answer.text)
        folders = [Path(folder) for folder in facts["packages"]]
        return Interpreter(
            path=path,
            home=facts["home"],
            version=facts["version"],
            build=f"{facts['build']} {facts['platform']}",
            libraries=_outermost([Path(facts["stdlib"]), *folders]),
            packages=_installed(folders),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise RequestError(f"{path}: does not answer as a Python interpreter: {answer.complaint}") from error


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
