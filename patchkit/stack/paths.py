"""Paths in a series: globs that leave files out, and files that need a native build when they change."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
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
    return any(_compile_glob(glob).fullmatch(path) for glob in globs)


def is_native(path: str) -> bool:
    """Return whether a change of this file needs a native build to take effect."""
    parts = PurePosixPath(path).parts
    if parts[0] in NATIVE_FOLDERS or parts[-1] in NATIVE_FILES:
        return True
    return PurePosixPath(path).suffix in NATIVE_SUFFIXES or NATIVE_REQUIREMENTS.match(path) is not None


def native_files(paths: Sequence[str]) -> tuple[str, ...]:
    """Return those of the paths whose change needs a native build."""
    return tuple(path for path in paths if is_native(path))


@lru_cache(maxsize=256)
def _compile_glob(glob: str) -> re.Pattern[str]:
    anchored = glob.lstrip("/")
    if anchored.endswith("/"):
        anchored += "**"
    if "/" not in glob:
        anchored = f"**/{anchored}"
    tokens = re.findall(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\]|.", anchored, re.DOTALL)
    return re.compile("".join(map(_translate, tokens)), re.DOTALL)


def _translate(token: str) -> str:
    known = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    if token in known:
        return known[token]
    if len(token) > 1:
        inner = token[1:-1].replace("\\", "\\\\").replace("[", "\\[")
        return f"(?!/)[{'^' + inner[1:] if inner.startswith('!') else inner}]"
    return re.escape(token)
