"""A log → its root cause, the known issues that it shows, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from patchkit.diagnosis.diagnose import Diagnosis, diagnose
from patchkit.diagnosis.matching import KnownIssue, Match, match_issues, propose_signature
from patchkit.diagnosis.progress import Change, compare
from patchkit.errors import PatchkitError, RequestError
from patchkit.recipe.library import Library, LoadedRecipe, open_library
from patchkit.recipe.load import load_issue, load_patch, load_recipe
from patchkit.tools.toolkit import Toolkit

BLOCK_BYTES = 1 << 17  # one telling word makes two blocks be read line by line
PACKED = {
    b"\x1f\x8b": "zcat",
    b"\xfd7zXZ": "xzcat",
    b"(\xb5/\xfd": "zstdcat",
    b"BZh": "bzcat",
    b"PK\x03\x04": "unzip -p",
}
WIDE = (b"\xff\xfe", b"\xfe\xff")  # what PowerShell's `>` writes


@dataclass(frozen=True)
class LogSource:
    """A log: its name, and an open stream where it is no file (`-`)."""

    name: str
    stream: BinaryIO | None = None


@dataclass(frozen=True)
class TriageReport:
    """What a log says, the issues it shows, how to go on; `change` and `before` only where there is an older log."""

    diagnosis: Diagnosis
    matches: tuple[Match, ...]
    next_steps: tuple[str, ...]
    before: Diagnosis | None = None
    change: Change | None = None


def triage_log(toolkit: Toolkit, log: LogSource, before: LogSource | None = None) -> TriageReport:
    """Read a log, and an older one to compare it with. Raises `RequestError` when one cannot be read."""
    old = None if before is None else diagnose(_read_blocks(toolkit, before))
    new = diagnose(_read_blocks(toolkit, log))
    issues = load_known_issues(toolkit, open_library(Path.cwd())) if new.root_cause else ()
    matches = match_issues(new.texts, issues)
    change = compare((old.progress, old.root_cause), (new.progress, new.root_cause)) if old else None
    return TriageReport(new, matches, _next_steps(new, matches), old, change)


def _read_blocks(toolkit: Toolkit, log: LogSource) -> Iterator[bytes]:
    """Yield a log's bytes. Raises `RequestError` for one that cannot be read, or is no text."""
    try:
        stream = log.stream or Path(log.name).open("rb")  # noqa: SIM115  (closed below, as stdin is)
    except (OSError, ValueError) as error:
        raise RequestError(
            f"{log.name}: {getattr(error, 'strerror', None) or error}", "name a log file, or - for stdin"
        ) from error
    done = 0
    with stream:
        try:
            while block := stream.read(BLOCK_BYTES):
                if not done:
                    _check_text(log.name, block)
                done += len(block)
                toolkit.progress.advance(f"reading {log.name}", done, None)
                yield block
        except OSError as error:
            raise RequestError(f"{log.name}: {error.strerror}") from error


def _check_text(name: str, block: bytes) -> None:
    packed = next((program for magic, program in PACKED.items() if block.startswith(magic)), None)
    if packed:
        raise RequestError(f"{name}: is compressed", f"{packed} {name} | patchkit triage -")
    if block.startswith(WIDE):
        raise RequestError(f"{name}: is UTF-16", f"iconv -f UTF-16 -t UTF-8 {name} | patchkit triage -")


def load_known_issues(toolkit: Toolkit, library: Library) -> tuple[KnownIssue, ...]:
    """Return the issues of a library with the patches and recipes that help; of what is broken it is warned."""
    patches: dict[str, list[str]] = {}
    for name in library.names("patches"):
        for slug in _issues_of_patch(toolkit, library, name):
            patches.setdefault(slug, []).append(name)
    recipes = [loaded for name in library.names("recipes") if (loaded := _load_recipe(toolkit, library, name))]
    known = []
    for slug in library.names("issues"):
        folder = library.find("issues", slug)
        try:
            issue = load_issue(folder or Path(slug)).issue
        except PatchkitError as error:
            toolkit.progress.warn(f"issue {slug} is left out: {error.message}", error.hint)
            continue
        names = tuple(one.path.parent.name for one in recipes if slug in one.issues)
        helping = tuple(patches.get(slug, ()))
        known.append(KnownIssue(slug, issue.title, issue.log_signatures, issue.links, helping, names, issue.upstream))
    return tuple(known)


def _issues_of_patch(toolkit: Toolkit, library: Library, name: str) -> tuple[str, ...]:
    try:
        return load_patch(library.find("patches", name) or Path(name)).patch.issue
    except PatchkitError as error:
        toolkit.progress.warn(f"patch {name} is left out: {error.message}", error.hint)
        return ()


def _load_recipe(toolkit: Toolkit, library: Library, name: str) -> LoadedRecipe | None:
    try:
        return load_recipe(library.find("recipes", name) or Path(name))
    except PatchkitError as error:
        toolkit.progress.warn(f"recipe {name} is left out: {error.message}", error.hint)
        return None


def _next_steps(diagnosis: Diagnosis, matches: tuple[Match, ...]) -> tuple[str, ...]:
    """Return commands, or words where there is none."""
    cause = diagnosis.root_cause
    if cause is None:
        return ()
    steps = [step for match in matches if match.is_cause for step in _steps_for(match)]
    if steps:
        return tuple(dict.fromkeys(steps))
    if cause.kind:
        return (cause.hint,)
    return (f"to know it next time, give an issue of yours the log signature: {propose_signature(cause)}",)


def _steps_for(match: Match) -> tuple[str, ...]:
    issue = match.issue
    if issue.recipes:
        recipe = issue.recipes[0]
        return (f"patchkit repro {recipe} --issue {issue.slug}", f"patchkit build {recipe}")
    if issue.patches:
        return (
            f"add `{issue.patches[0]}` to the series of your recipe, then: patchkit repro RECIPE --issue {issue.slug}",
        )
    return (f"no patch helps against {issue.slug} yet; see {', '.join(issue.links) or 'its README'}",)
