"""Globs and native files."""

from __future__ import annotations

import time

import pytest

from patchkit.stack.paths import is_native, matches


@pytest.mark.parametrize(
    ("glob", "path", "holds"),
    [
        ("tests/**", "tests/a.py", True),
        ("tests/**", "tests/v1/deep/a.py", True),
        ("tests/**", "vllm/tests/a.py", False),
        ("tests/", "tests/v1/a.py", True),
        ("**/tests/**", "vllm/tests/a.py", True),
        ("**/tests/**", "tests/a.py", True),
        ("docs/*", "docs/a.md", True),
        ("docs/*", "docs/deep/a.md", False),
        ("*.md", "docs/deep/a.md", True),
        ("*.md", "a.mdx", False),
        ("/README.md", "README.md", True),
        ("/README.md", "docs/README.md", False),
        ("vllm/**/x.py", "vllm/x.py", True),
        ("vllm/**/x.py", "vllm/a/b/x.py", True),
        ("v?lm/x.py", "vllm/x.py", True),
        ("v?x.py", "v/x.py", False),
        ("file[0-9].py", "v/file7.py", True),
        ("file[!0-9].py", "v/file7.py", False),
        ("file[.py", "v/file[.py", True),
        ("a+b(c).py", "a+b(c).py", True),
        ("x.py", "x_py", False),
    ],
)
def test_globs_match_as_documented(glob: str, path: str, holds: bool) -> None:
    assert matches(path, [glob]) is holds


def test_no_glob_matches_nothing() -> None:
    assert not matches("x", [])


@pytest.mark.parametrize(
    "path",
    [
        "csrc/attention/x.py",
        "cmake/utils.cmake",
        "CMakeLists.txt",
        "setup.py",
        "pyproject.toml",
        "requirements/build.txt",
        "requirements/build/cuda.txt",
        "requirements-build.txt",
        "rust/src/lib.rs",
        "vllm/kernels/x.cu",
        "vllm/kernels/x.cpp",
        "vllm/kernels/x.cuh",
    ],
)
def test_a_native_input_needs_a_build(path: str) -> None:
    assert is_native(path)


@pytest.mark.parametrize(
    "path", ["vllm/x.py", "requirements/cuda.txt", "docs/csrc/x.md", "vllm/csrc.py", "tests/rust/x.py"]
)
def test_other_files_need_none(path: str) -> None:
    assert not is_native(path)


@pytest.mark.parametrize(("path", "glob"), [("a/" * 30 + "b", "**/" * 30 + "x"), ("a" * 250, "*a" * 30 + "b")])
def test_no_glob_takes_long(path: str, glob: str) -> None:
    started = time.monotonic()
    assert not matches(path, [glob])
    assert time.monotonic() - started < 2
