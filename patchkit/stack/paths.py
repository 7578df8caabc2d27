"""Paths in a series: globs that leave files out, and files that need a native build when they change."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

NATIVE_FOLDERS = frozenset({"csrc", "cmake", "rust"})
NATIVE_FILES = frozenset({"CMakeLists.txt", "setup.py", "pyproject.toml", "Cargo.toml", "Cargo.lock", "build.rs"})
NATIVE_SUFFIXES = frozenset({".c", ".cc", ".cpp", ".cu", ".cuh", ".cxx", ".h", ".hip", ".hpp", ".inl", ".rs", ".asm"})
NATIVE_REQUIREMENTS = re.compile(r"requirements(/|-)build")  # what the build itself installs


def matches(path: str, globs: Iterable[str]) -> bool:
    """Return whether a path matches one of the globs.

    `*` and `?` stay within one part, `**` is any number of parts; a glob without a slash matches the name in any
    folder, one that ends in a slash everything below.
    """
    parts = path.split("/")
    return any(_fits(parts, _split_glob(glob)) for glob in globs)


def is_native(path: str) -> bool:
    """Return whether a change of this file needs a native build to take effect."""
    parts = PurePosixPath(path).parts
    if parts[0] in NATIVE_FOLDERS or parts[-1] in NATIVE_FILES:
        return True
    return PurePosixPath(path).suffix in NATIVE_SUFFIXES or NATIVE_REQUIREMENTS.match(path) is not None


def native_files(paths: Sequence[str]) -> tuple[str, ...]:
    """Return those of the paths whose change needs a native build."""
    return tuple(path for path in paths if is_native(path))


def _split_glob(glob: str) -> list[str]:
    anchored = glob.lstrip("/")
    if anchored.endswith("/"):
        anchored += "**"
    return ([] if "/" in glob else ["**"]) + anchored.split("/")


def _fits(parts: Sequence[str], globs: Sequence[str]) -> bool:
    """Walk over the globs with the set of all places where they may stand: no order of stars makes it slow."""
    reached = {0}
    for number, glob in enumerate(globs, 1):
        if glob == "**":
            least = min(reached, default=len(parts)) + (number == len(globs))  # at the end it is what lies below
            reached = set(range(least, len(parts) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(parts) and fnmatchcase(parts[at], glob)}
    return len(parts) in reached
