"""The files of a distribution as a git commit: equal files give an equal commit, wherever they were found.

A wheel and the folder that it was installed to have the same commit, on every machine. There is no history behind it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from packaging.utils import canonicalize_name

from patchkit.errors import StoreFailure
from patchkit.source.archive import Member
from patchkit.source.commit import Commit
from patchkit.source.installed.distribution import Distribution
from patchkit.source.releases import import_stream
from patchkit.tools.cache import digest_of
from patchkit.tools.git.client import fast_import, sweep
from patchkit.tools.git.objects import Repository, create_repository
from patchkit.tools.toolkit import Toolkit

KIND = "installed"
MODE = 0o100644  # of every file: installers do not agree on the bit of scripts, and a patch keeps the one that is there
BEGIN_OF_ZIP = 315_532_800  # 1980-01-01, seconds since 1970: the files do not say when, and git wants a time


def repository_of(toolkit: Toolkit, package: str) -> Repository:
    """Return the store's repository of a distribution, by its name on the index."""
    return Repository(toolkit.cache.folder(KIND, f"{canonicalize_name(package)}.git"))


def store_commit(
    toolkit: Toolkit, upstream: str, distribution: Distribution, contents: Mapping[str, bytes]
) -> tuple[Commit, Repository]:
    """Return the commit of a distribution's files, put into the store unless it is there, and where it lies.

    Raises `StoreFailure`.
    """
    repository = repository_of(toolkit, distribution.name)
    name = repository.path.name
    digests = {path: hashlib.sha256(data).hexdigest() for path, data in sorted(contents.items())}
    ref = f"refs/installed/{digest_of([distribution.version, digests])}"
    if repository.path.exists() and (found := repository.find_ref(ref)):
        return read_commit(repository, upstream, found, distribution.version), repository
    toolkit.cache.make(KIND, name, _create)
    toolkit.progress.step(f"read {distribution.label}: {len(contents)} files")
    members = (Member(path, MODE, contents[path], BEGIN_OF_ZIP) for path in sorted(contents))
    stream = import_stream(members, ref, f"{distribution.label} as installed\n")
    with toolkit.cache.lock(f"{KIND}-{name}"):
        try:
            fast_import(toolkit, repository.path, stream)
        finally:
            sweep(repository.path)
    commit = Repository(repository.path).find_ref(ref)
    if commit is None:
        raise StoreFailure(f"{repository.path}: {ref} is not there after the import", "run again")
    return read_commit(repository, upstream, commit, distribution.version), repository


def _create(folder: Path) -> None:
    create_repository(folder)


def read_commit(repository: Repository, upstream: str, commit: str, version: str) -> Commit:
    """Return a commit of the store as the pipeline's type. Raises `KeyError` when it is not there."""
    record = repository.read_commit(commit)
    return Commit(upstream, record.id, record.tree, f"v{version}", record.subject, record.commit_time, version)
