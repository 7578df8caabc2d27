"""The one entry for developers: plain `nox` before a commit, `nox -s bench` and `nox -s real` when they matter."""

from __future__ import annotations

import os
import re
from pathlib import Path

import nox

CALLS_GIT = (  # tests in which git is called, or reads what patchkit wrote
    "tests/stack",
    "tests/tools/git",
    "tests/source",
    "tests/recipe/test_lock.py",
    *(f"tests/workflows/test_{name}.py" for name in ("apply", "export", "import_patch", "lock", "refresh", "status")),
    *(f"tests/workflows/test_{name}.py" for name in ("bisect_log", "git_bisect_run")),
    *(f"tests/cli/test_{name}.py" for name in ("apply", "export", "import_patch", "lock", "refresh", "status")),
)

nox.options.default_venv_backend = "venv"
nox.options.sessions = ["lint", "types", "layers", "tests", "docs"]
nox.options.reuse_existing_virtualenvs = True


def _install(session: nox.Session) -> None:
    session.install("-q", "-e", ".[dev,github]")


@nox.session
def lint(session: nox.Session) -> None:
    """Check format and style with ruff."""
    _install(session)
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Check types with mypy --strict."""
    _install(session)
    session.run("mypy")


@nox.session
def layers(session: nox.Session) -> None:
    """Check that imports go one way between the rooms."""
    _install(session)
    session.run("lint-imports", "--no-logo")


@nox.session
def tests(session: nox.Session) -> None:
    """Run every test but those on real vLLM with torch; contract tests run where their tool is there."""
    _install(session)
    session.run("pytest", "-m", "not real", *session.posargs)


@nox.session
def newer_git(session: nox.Session) -> None:
    """Run the tests that call git with a git of 2.40 or later: Debian 13's, beside Debian 12's 2.39."""
    _install(session)
    folder = Path(session.virtualenv.location, "newer-git").resolve()
    session.run("bash", ".ci/newer-git.sh", str(folder), external=True)
    path = {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    version = str(session.run("sh", "-c", "git version", env=path, external=True, silent=True)).strip()
    found = re.fullmatch(r"git version (\d+)\.(\d+).*", version)
    if found is None or (int(found[1]), int(found[2])) < (2, 40):
        session.error(f"{version!r}: 2.40 or later is wanted")
    session.run("pytest", "-m", "not real", *(session.posargs or CALLS_GIT), env=path)


@nox.session
def references(session: nox.Session) -> None:
    """Check that the references that are generated from the code are current."""
    _install(session)
    session.run("python", "-m", "patchkit.recipe.schema", "--check", "docs")
    session.run("python", "-m", "patchkit.cli.reference", "--check", "docs/reference/cli.md")


@nox.session
def docs(session: nox.Session) -> None:
    """Check the generated references, and run what README and docs say."""
    references(session)
    session.run("pytest", "tests/docs", *session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Measure patchkit beside what a user would otherwise run, as ratios in one run."""
    session.install("-q", "-e", ".[dev,github,bench,ray]")
    session.run("python", "-m", "benchmarks.spine")
    session.run("python", "-m", "benchmarks.bisect", *session.posargs)


@nox.session
def real(session: nox.Session) -> None:
    """Run the repros on real vLLM with torch on the CPU, and bisects on Ray (half an hour, 2.5 GB the first time)."""
    session.install("-q", "-e", ".[dev,github,ray]")
    session.run("pytest", "-m", "real", *session.posargs)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Try 10,000 spoiled diffs, mailboxes, rewrites and recipes: no traceback, and no half-applied tree (minutes)."""
    _install(session)
    session.run("pytest", "tests/fuzz", "--hypothesis-profile=fuzz", *session.posargs)
