"""The error tree, on one page.

One distinction carries everything: is it wrong at every commit (stop), or wrong at this commit only (skip it)?

    PatchkitError
    ├── RequestError               wrong whatever the commit: stops everything, exit 128
    │   ├── InvalidFile            a recipe, patch or issue file is wrong; carries all its problems
    │   ├── ToolMissing            git, docker … is not there
    │   ├── RemoteUnavailable      an upstream, index or registry does not answer, or answers with the wrong thing
    │   └── StoreFailure           the cache cannot be written (disk full, no permission)
    └── StageFailure               wrong at this commit only: a skip, exit 125 (1 where the verb asks for just that)
        ├── PatchConflict          a patch of the series does not apply
        ├── BuildFailed            the environment or image cannot be made from this tree
        └── InfrastructureFailure  the machine, not the commit: retried, never evidence
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong in a file. `line` and `column` count from 1; 0 means the whole file."""

    file: str
    line: int
    column: int
    where: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        where = f" {self.where}:" if self.where else ""
        return f"{place}:{where} {self.message}"


class PatchkitError(Exception):
    """Anything patchkit tells a person in one line, with a hint of what to do next."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class RequestError(PatchkitError):
    """Wrong whatever the commit: stop."""


class InvalidFile(RequestError):
    """A file that a user wrote is wrong; `problems` holds every complaint, in file order."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class ToolMissing(RequestError):
    """A program that is needed is not installed or does not answer."""


class RemoteUnavailable(RequestError):
    """An upstream, a package index or a registry cannot be reached, or sends something else than was asked for."""


class StoreFailure(RequestError):
    """The cache or an output file cannot be written: no space, no permission."""


class StageFailure(PatchkitError):
    """Wrong at this commit only: the commit is a skip."""


class PatchConflict(StageFailure):
    """A patch of the series does not apply at this commit."""


class BuildFailed(StageFailure):
    """No environment or image can be made from this tree."""


class InfrastructureFailure(StageFailure):
    """The machine failed, not the commit: worth a retry, never evidence."""
