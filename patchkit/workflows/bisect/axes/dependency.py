"""The axis `dependency:NAME`: versions of one package at a fixed commit.

The environment is that of the repro with one requirement replaced, a venv for each version that is probed. A version
that cannot be installed beside the others is a skip.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from patchkit.environment.local import find_interpreter
from patchkit.errors import RequestError
from patchkit.pipeline import OpenedRecipe, Question, environment_request, judge, resolve_commit, source_of
from patchkit.recipe.library import LoadedIssue
from patchkit.recipe.model import Repro
from patchkit.search import Clues, build_chain
from patchkit.source.source import near_names
from patchkit.tools.cache import digest_of, write_atomically
from patchkit.tools.git.objects import CommitRecord
from patchkit.tools.index import PackageIndex
from patchkit.tools.web.versions import list_versions
from patchkit.verdict.verdict import Verdict
from patchkit.workflows.bisect.request import BisectRequest
from patchkit.workflows.bisect.subject import CommitSubject, Subject

PREFIX = "dependency:"
INCLUDE = re.compile(r"\s*(-r|--requirement|-c|--constraint)[\s=]+(\S+)")
NAMED = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(\[[^]]*\])?\s*(?:[<>=!~@;#(].*)?")
HOLE = "\N{WHITE SQUARE}"  # stands for the version: no requirement holds this letter


@dataclass(frozen=True)
class DependencySubject(CommitSubject):
    """Versions of a package; `good` and `bad` are both the fixed commit, the nodes are versions."""

    package: str
    ends: tuple[str, str]
    template: str  # the requirements, with a hole for the version

    def about(self) -> dict[str, Any]:
        """Return what every document of this bisect says of it, and at which commit."""
        fixed = {"upstream": self.bad.upstream, "commit": self.bad.id}
        return {**super().about(), "good": self.ends[0], "bad": self.ends[1], "fixed": fixed}

    def describe(self, commit: str) -> CommitRecord | None:  # noqa: ARG002  # the fixed commit is no culprit
        """Return that a version has no commit."""
        return None

    def clues(self, loaded: Collection[str], crashed: bool) -> Clues:  # noqa: ARG002
        """Return that nobody knows what a version changes."""
        return Clues()

    def advice(self, document: Mapping[str, Any]) -> str:
        """Say which version to stay at."""
        if document["first_bad"] is None:
            return ""
        return f"stay at {self.package}=={document['last_good']}, or see what {document['first_bad']} changed"

    def inside(self, document: Mapping[str, Any]) -> Subject | str:  # noqa: ARG002
        """Return that nothing lies inside a version."""
        return ""

    def ask(self, node: str, fresh: bool) -> Verdict:
        """Return the verdict at the fixed commit with one version of the package."""
        file = self._write(node)
        question = Question(self.bad, self.issue, self.repro, self.series, fresh, requirements=file)
        return judge(self.opened, question)

    @property
    def key(self) -> str:
        """Name the question by what the answers depend on: the other requirements and all versions too."""
        return digest_of([super().key, self.template, list(self.graph.nodes), self.graph.good])[:32]

    def _write(self, version: str) -> Path:
        """Write the requirements with one version to the store; the same ones always to the same file."""
        text = self.template.replace(HOLE, version)
        file = (
            self.opened.toolkit.cache.scratch("requirements") / digest_of(text)[:16] / f"{self.package}-{version}.txt"
        )
        write_atomically(file, text.encode())
        return file


def open_dependency(
    opened: OpenedRecipe, request: BisectRequest, issue: LoadedIssue, repro: Repro
) -> DependencySubject:
    """Return the versions between the ends of a request. Raises `RequestError` for versions that the index lacks."""
    package, wanted = str(request.axis).removeprefix(PREFIX), environment_request(opened, repro)
    if opened.loaded.recipe.environment.python is not None:
        hint = "take `environment.python` out of the recipe: each version needs a venv of its own"
        raise RequestError(f"{opened.loaded.path}: names an interpreter to be used as it is", hint)
    template = f"{package}=={HOLE}\n" if wanted.requirements is None else template_of(wanted.requirements, package)
    python = find_interpreter(opened.toolkit, None).version
    good, bad = parse_version(request.good), parse_version(request.bad)
    chain = versions_between(list_versions(PackageIndex(opened.toolkit), package, python), package, good, bad)
    commit = resolve_commit(opened, request.at or None, issue.issue.upstream)
    return DependencySubject(
        *(request.recipe, opened, issue, repro, source_of(opened, commit.upstream), str(request.axis), request.series),
        *(commit, commit, build_chain(chain), request.flaky or repro.flaky),
        package=package,
        ends=(chain[0], chain[-1]),
        template=template,
    )


def parse_version(text: str) -> Version:
    """Return the version that an end names. Raises `RequestError`."""
    try:
        return Version(text)
    except InvalidVersion:
        raise RequestError(f"{text}: is no version", "--good and --bad are versions of the package here") from None


def versions_between(known: Collection[Version], package: str, good: Version, bad: Version) -> list[str]:
    """Return the versions from good to bad, pre-releases only as ends. Raises `RequestError`."""
    for end in (good, bad):
        if end not in known:
            near = near_names(str(end), [str(version) for version in known])
            there = f"it has {min(known)} to {max(known)}" if known else "is that its name on the index?"
            raise RequestError(f"{package} {end}: the index has no such version for this Python", near or there)
    if good >= bad:
        raise RequestError(f"{package} {good} is not older than {bad}", "name the older version as good")
    inner = [version for version in known if good < version < bad and not version.is_prerelease]
    return [str(version) for version in (good, *sorted(inner), bad)]


def template_of(requirements: Path, package: str) -> str:
    """Return requirements as one text, included files put in, with `HOLE` where the package's version stands.

    Raises `RequestError` for what would contradict every other version: a constraint on the package, or hashes.
    """
    lines = list(_lines_of(requirements, canonicalize_name(package)))
    holes = [line for line in lines if HOLE in line] or [f"{package}=={HOLE}"]
    return "\n".join([*(line for line in lines if HOLE not in line), holes[0], ""])


def _lines_of(file: Path, package: str) -> Iterator[str]:
    for line in _read(file).splitlines():
        include, named = INCLUDE.match(line), NAMED.fullmatch(line)
        if include and "://" not in include[2]:
            inner = file.parent / include[2]
            if include[1] in {"-r", "--requirement"}:
                yield from _lines_of(inner, package)
                continue
            if any(HOLE in held for held in _lines_of(inner, package)):
                raise RequestError(f"{inner}: a constraint holds {package} at one version", "take it out")
            yield f"-c {inner.resolve()}"
        elif named and canonicalize_name(named[1]) == package:
            yield f"{named[1]}{named[2] or ''}=={HOLE}"
        else:
            yield line


def _read(file: Path) -> str:
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{file}: this requirements file cannot be read: {error}") from error
    if "--hash=" in text:
        raise RequestError(f"{file}: holds hashes, and another version has another", "use requirements without")
    return text
