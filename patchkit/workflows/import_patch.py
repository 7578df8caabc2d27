"""Take a patch from outside into a library: a pull request, a commit, a diff from a file or URL, a mailbox.

What is taken is frozen by a commit or a sha256, which patch.yaml records: the same thing is never taken twice, and
another thing under the same name not without being asked for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from patchkit.errors import InvalidFile, RequestError
from patchkit.recipe.library import LoadedRecipe, shipped_library
from patchkit.recipe.load import check_files, load_recipe
from patchkit.recipe.model import SeriesPull
from patchkit.recipe.writing.folder import check_valid, write_folder
from patchkit.recipe.writing.patch_file import write_patch_file
from patchkit.recipe.writing.series import add_to_series
from patchkit.source.open import open_source
from patchkit.source.source import Preference, Source
from patchkit.stack.carry.intake.arrival import Arrival, take_commit, take_pull, take_text
from patchkit.stack.carry.intake.facts import Known, describe, enrich, pull_number
from patchkit.stack.carry.intake.shelf import Place, Shelf
from patchkit.tools.cache import remove_path, write_atomically
from patchkit.tools.git.client import redact
from patchkit.tools.toolkit import Toolkit
from patchkit.tools.web.download import fetch_document
from patchkit.tools.web.github import split_url

PULL = re.compile(r"(?:#|(?:refs/)?pull/)([1-9][0-9]{0,8})(?:/head)?")
PAGE = re.compile(r"(https?://.*)/pull/([1-9][0-9]{0,8})/?")
URL = re.compile(r"https?://", re.IGNORECASE)


@dataclass(frozen=True)
class ImportRequest:
    """What to take (`what`: pull/N, a URL, a file, a commit or ref) and where to: a recipe, or a library's folder.

    `update` takes what moved since; `add` puts the patch into the recipe's series; `exclude` sets files beside.
    """

    what: str
    target: Path
    name: str | None = None
    add: bool = False
    update: bool = False
    exclude: tuple[str, ...] = ()
    strip: int | None = None
    upstream: str | None = None
    dry_run: bool = False
    source: Preference = "auto"


@dataclass(frozen=True)
class Taken:
    """One patch: its folder, what became of it (`new`, `unchanged`, `updated`), and what it is."""

    slug: str
    folder: Path
    state: str
    arrival: Arrival


@dataclass(frozen=True)
class ImportReport:
    """All patches of an import, and the recipe to whose series they were added (None: to none, or they were there)."""

    patches: tuple[Taken, ...]
    added_to: Path | None = None


@dataclass(frozen=True)
class _Desk:
    """Where an import works: the library, and the recipe where there is one, whose upstream is opened when asked."""

    toolkit: Toolkit
    request: ImportRequest
    shelf: Shelf
    upstream: str
    loaded: LoadedRecipe | None

    @property
    def git(self) -> str:
        """Return the URL of the upstream's repository, '' where none is known."""
        return (self.loaded.recipe.upstream[self.upstream].git or "") if self.loaded else ""

    @cached_property
    def source(self) -> Source:
        """Return the upstream. Raises `RequestError` where there is none, or one without history."""
        what = self.request.what
        if self.loaded is None:
            raise RequestError(f"{what}: there is no such file", "for a pull request or a commit, name a recipe")
        upstream = self.loaded.recipe.upstream[self.upstream]
        source = open_source(self.toolkit, self.upstream, upstream, self.request.source)
        if source.kind != "git":
            raise RequestError(f"{what}: {self.upstream} has no history here", "--source git, or a .diff URL")
        return source


def import_patch(toolkit: Toolkit, request: ImportRequest) -> ImportReport:
    """Take what is asked for into the library, and into the recipe's series where that is asked for; all or nothing.

    Raises `RequestError` for what cannot be had, holds no patch, or is not what was taken under that name before.
    """
    desk = _open(toolkit, request)
    known, arrivals = [], []
    for one in _take(desk):
        known.append(_know(desk, one))
        arrivals.append(enrich(one.set_aside(request.exclude), known[-1]))
    places = desk.shelf.place(arrivals, request.name)
    if request.dry_run:
        return ImportReport(tuple(Taken(one.slug, one.folder, one.state, one.arrival) for one in places))
    made: list[Path] = []
    try:
        taken = tuple(_store(desk, places[: at + 1], known[at], made) for at in range(len(places)))
        return ImportReport(taken, _add(desk, taken) if request.add else None)
    except BaseException:
        for folder in made:
            remove_path(folder)
        raise


def _open(toolkit: Toolkit, request: ImportRequest) -> _Desk:
    target = request.target
    if target.is_dir() and not (target / "recipe.yaml").is_file():
        if request.add:
            raise RequestError(f"{target}: is a library, --add needs a recipe", "name the recipe")
        return _Desk(toolkit, request, Shelf(target.absolute(), request.update), request.upstream or "vllm", None)
    loaded = load_recipe(target)
    root, names = loaded.root, loaded.recipe.upstream
    if root == shipped_library() and root.name == "library":
        raise RequestError(f"{target}: is a recipe that patchkit ships", "copy it into a folder of your own")
    upstream = request.upstream or loaded.recipe.main_upstream
    if upstream not in names:
        raise RequestError(f"{target}: no upstream named {upstream}", f"the recipe has: {', '.join(names)}")
    return _Desk(toolkit, request, Shelf(root, request.update), upstream, loaded)


def _take(desk: _Desk) -> tuple[Arrival, ...]:
    what = desk.request.what
    pull = PULL.fullmatch(what) or _own_page(desk, what)
    if pull is not None:
        number = int(pull[pull.lastindex or 1])
        return (take_pull(desk.source, number, desk.source.resolve(f"pull/{number}").id),)
    if URL.match(what):
        return take_text(redact(what), fetch_document(desk.toolkit, what), desk.request.strip)
    if Path(what).is_file():
        return take_text(Path(what).name, Path(what).read_bytes(), desk.request.strip)
    return (take_commit(desk.source, what, desk.source.resolve(what).id),)


def _own_page(desk: _Desk, what: str) -> re.Match[str] | None:
    """Return the match of a pull request's page where it is one of the recipe's upstream: git has more than that."""
    page = PAGE.fullmatch(what)
    own = split_url(desk.git) if desk.git else None
    return page if page is not None and own is not None and page[1] == "/".join(own) else None


def _know(desk: _Desk, arrival: Arrival) -> Known:
    """Ask what is known beside the text; not of what is here already, unless it is to be brought up to date."""
    if arrival.imported.commit is None:
        return Known()
    if desk.shelf.holds(arrival.imported, desk.request.name) and not desk.request.update:
        return Known()
    return Known.ask(desk.toolkit, desk.source, desk.git, arrival)


def _store(desk: _Desk, places: Sequence[Place], known: Known, made: list[Path]) -> Taken:
    """Write the last of some patches, and remember its folder where it is a new one."""
    *before, place = places
    arrival = place.arrival
    if place.state != "new":
        changed = desk.request.update and desk.shelf.update_place(place, arrival)
        return Taken(place.slug, place.folder, "updated" if changed else "unchanged", arrival)
    text = describe(arrival, known, desk.upstream, place.slug)
    if before:
        text = replace(text, requires=(before[-1].slug,))
    files = {"patch.yaml": write_patch_file(text, arrival.imported), f"{place.slug}.patch": arrival.text}
    if arrival.aside_text:
        files[f"{place.slug}.aside.patch"] = arrival.aside_text
    write_folder(place.folder, files, check_valid)
    made.append(place.folder)
    return Taken(place.slug, place.folder, place.state, arrival)


def _add(desk: _Desk, taken: Sequence[Taken]) -> Path | None:
    """Add patches to the recipe's series; return the recipe where it changed. Raises `InvalidFile`, `RequestError`."""
    if desk.loaded is None:
        return None
    path = desk.loaded.path
    text = path.read_bytes().decode("utf-8")
    added = text
    for one in taken:
        added = add_to_series(added, one.slug)
        _tell_double(desk, desk.loaded, one)
    if added == text:
        return None
    trial = path.with_name(f".{path.name}.trial.yaml")
    try:
        write_atomically(trial, added.encode())
        if problems := check_files((trial,)):
            raise InvalidFile(problems)
    finally:
        remove_path(trial)
    write_atomically(path, added.encode())
    return path


def _tell_double(desk: _Desk, loaded: LoadedRecipe, taken: Taken) -> None:
    """Warn where the series has the pull request itself, besides the patch that was made of it."""
    number = pull_number(taken.arrival.imported)
    if any(isinstance(entry, SeriesPull) and entry.pull == number for entry in loaded.recipe.series):
        hint = f"take it out: {taken.slug} is the same change"
        desk.toolkit.progress.warn(f"{loaded.path}: the series also has pull: {number}", hint)
