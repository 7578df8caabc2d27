"""recipe.lock: everything that moves, held still. Sorted and stable text, no times: equal inputs give equal bytes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, TypeAdapter, model_validator

from patchkit.errors import RequestError
from patchkit.recipe.folder import read_tree
from patchkit.recipe.library import LoadedRecipe
from patchkit.recipe.model import SeriesFile, Slug, Strict
from patchkit.recipe.model.fields import ObjectId, Sha256
from patchkit.recipe.validate import Complaints, validate
from patchkit.tools.cache import digest_file, digest_of
from patchkit.tools.toolkit import Toolkit


class LockedUpstream(Strict):
    """The commit of one upstream, and where it was had from."""

    kind: Literal["git", "package"] = Field(description="Where it came from")
    ref: str = Field(description="The ref that the recipe asked for")
    commit: ObjectId = Field(description="The commit that the ref meant")
    tree: ObjectId = Field(description="Tree of the commit, before the series")
    version: str | None = Field(None, description="Version of the commit")
    git: str | None = Field(None, description="The repository")
    package: str | None = Field(None, description="The name on the package index")
    archive_sha256: Sha256 | None = Field(None, description="Digest of the sdist or wheel")

    @model_validator(mode="before")
    @classmethod
    def _take_old_name(cls, value: Any) -> Any:
        """Read locks that call the digest of any archive `sdist-sha256`."""
        if isinstance(value, dict) and "sdist-sha256" in value:
            return {"archive-sha256" if key == "sdist-sha256" else key: one for key, one in value.items()}
        return value


class LockedPatch(Strict):
    """One entry of the series, in order: what it was, and how it applied."""

    patch: str = Field(description="Its name in the series")
    sha256: str = Field(description="Digest of its files; empty for what the upstream's own history holds")
    outcome: str = Field(description="What became of it")
    method: str = Field(description="How it was applied")
    files: tuple[str, ...] = Field((), description="The files that it changed")


class LockedPull(Strict):
    """The head of a pull request, frozen."""

    upstream: Slug = Field(description="The upstream that it is a request of")
    pull: int = Field(gt=0, description="Its number")
    commit: ObjectId = Field(description="Its head")


class LockedImage(Strict):
    """The base image, by digest."""

    base: str = Field(description="The base that the recipe asked for")
    digest: str | None = Field(None, description="The digest that it had, with its algorithm in front")


class Lock(Strict):
    """recipe.lock: what `patchkit lock` writes. Commit it; do not edit it."""

    format: Literal[1] = Field(1, description="Version of this file format")
    patchkit: str = Field(description="The version that wrote the lock")
    recipe: Sha256 = Field(description="Digest of the resolved recipe and of everything that it names")
    upstream: dict[str, LockedUpstream] = Field(description="The upstreams, by name")
    series: tuple[LockedPatch, ...] = Field((), description="The series, in order")
    pulls: tuple[LockedPull, ...] = Field((), description="The pull requests of the series")
    patches: dict[str, Sha256] = Field(default_factory=dict, description="Digest of each patch folder")
    issues: dict[str, Sha256] = Field(default_factory=dict, description="Digest of each issue folder")
    image: LockedImage | None = Field(None, description="The base image")
    tree: ObjectId = Field(description="Tree of the main upstream after the series")
    tools: dict[str, str] = Field(default_factory=dict, description="Versions of the tools that had a part in it")


LOCK: TypeAdapter[Lock] = TypeAdapter(Lock)


def lock_path(recipe: Path) -> Path:
    """Return where a recipe's lock lies: recipe.lock beside recipe.yaml, name.lock beside name.yaml."""
    return recipe.with_suffix(".lock")


def read_lock(path: Path) -> Lock | None:
    """Return the lock in a file, or None when there is no such file. Raises `InvalidFile` for a corrupt one."""
    if not path.exists():
        return None
    complaints = Complaints()
    lock = check_lock(path, complaints)
    complaints.raise_any()
    return lock


def check_lock(path: Path, complaints: Complaints) -> Lock | None:
    """Return the lock in a file, or None after adding what is wrong with it."""
    root = read_tree(path, complaints)
    return None if root is None else validate(LOCK, root, complaints)


def dump_lock(lock: Lock) -> bytes:
    """Return the lock as YAML: sorted keys, ids and versions in quotes, what is empty left out."""
    value = lock.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    head = "# Written by `patchkit lock`. Commit it beside the recipe; do not edit.\n"
    return (head + yaml.dump({"format": lock.format, **value}, Dumper=_LockDumper, width=10_000)).encode()


class _LockDumper(yaml.SafeDumper):
    """Quotes every text with a digit, so that no YAML reader of any version takes a commit id for a number."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if re.search(r"\d", text) else None)


_LockDumper.add_representer(str, _represent_text)


def recipe_digest(loaded: LoadedRecipe) -> Sha256:
    """Return the digest over the resolved recipe and the contents of all patches, issues and files that it names."""
    entries = [entry for entry in loaded.recipe.series if isinstance(entry, SeriesFile)]
    requirements = [] if loaded.own_requirements is None else [loaded.own_requirements]
    requirements += [path for issue in loaded.issues.values() for path in issue.environments.values()]
    return digest_of(
        {
            "recipe": _without_prose(loaded),
            "patches": _digests(loaded.patches),
            "issues": _digests(loaded.issues),
            "files": {entry.file: digest_file(loaded.folder / entry.file) for entry in entries},
            "requirements": {path.name: digest_file(path) for path in requirements},
        }
    )


def lock_digests(loaded: LoadedRecipe) -> dict[str, Any]:
    """Return the fields of a lock that say what it was made from: recipe, patches, issues."""
    return {
        "recipe": recipe_digest(loaded),
        "patches": _digests(loaded.patches),
        "issues": _digests(loaded.issues),
    }


def is_stale(lock: Lock, loaded: LoadedRecipe) -> str:
    """Return why a lock does not belong to a recipe any more, or "" when it does."""
    refs = {name: upstream.ref for name, upstream in loaded.recipe.upstream.items()}
    return (
        _difference("patch", lock.patches, _digests(loaded.patches))
        or _difference("issue", lock.issues, _digests(loaded.issues))
        or _difference("ref of", {name: upstream.ref for name, upstream in lock.upstream.items()}, refs)
        or ("" if lock.recipe == recipe_digest(loaded) else "the recipe has changed")
    )


def _difference(noun: str, locked: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Return the first name that stands on one side only or has another value, in words."""
    for name in sorted({*locked, *now}):
        if name not in locked:
            return f"{noun} {name} is new"
        if name not in now:
            return f"{noun} {name} is gone"
        if locked[name] != now[name]:
            return f"{noun} {name} has changed"
    return ""


def _digests(loaded: Any) -> dict[str, Sha256]:
    return {slug: one.sha256 for slug, one in sorted(loaded.items())}


def _without_prose(loaded: LoadedRecipe) -> dict[str, Any]:
    """Return the resolved recipe without what changes nothing: its description and where it was included from."""
    return loaded.recipe.model_dump(mode="json", by_alias=True, exclude={"description", "include"})


def matching_lock(toolkit: Toolkit, loaded: LoadedRecipe, locked: bool) -> Lock | None:
    """Return the lock of a recipe; one that is stale is told and not used.

    With `locked` raises `RequestError` when none matches.
    """
    path = lock_path(loaded.path)
    hint = f"run: patchkit lock {loaded.path}"
    lock = read_lock(path)
    if lock is None:
        if locked:
            raise RequestError(f"{path}: there is no lock", hint)
        return None
    if not (reason := is_stale(lock, loaded)):
        return lock
    if locked:
        raise RequestError(f"{path}: stale: {reason}", hint)
    toolkit.progress.warn(f"{path}: stale and not used: {reason}", hint)
    return None
