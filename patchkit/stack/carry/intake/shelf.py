"""The patches of a library that were imported: where a new one goes, and whether it is one that is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from patchkit.errors import InvalidFile, RequestError
from patchkit.recipe.folder import is_slug
from patchkit.recipe.load import load_patch
from patchkit.recipe.model import ChangePatch, Imported, Patch
from patchkit.recipe.writing.folder import check_name
from patchkit.recipe.writing.patch_file import replace_imported
from patchkit.stack.carry.intake.arrival import Arrival, make_slug
from patchkit.tools.cache import remove_path, write_atomically


@dataclass(frozen=True)
class Place:
    """Where an arrival goes. `moved`: the folder holds an earlier state of the same thing."""

    slug: str
    folder: Path
    state: Literal["new", "unchanged", "moved"]
    arrival: Arrival


@dataclass(frozen=True)
class Shelf:
    """A library's patches; `update` lets what moved take the place of what it was."""

    root: Path
    update: bool = False

    def holds(self, imported: Imported, name: str | None) -> bool:
        """Return whether the very same thing was imported before, under a name where one is given."""
        slug = name or self._imported_as(imported)
        found = _read(self.root / "patches" / slug) if slug and is_slug(slug) else None
        return found is not None and found.imported is not None and _is_equal(found.imported, imported)

    def place(self, arrivals: Sequence[Arrival], name: str | None) -> tuple[Place, ...]:
        """Return a folder for each: that of an earlier import of the same thing, or one of its own.

        Raises `RequestError` for a name that is taken by something else, or by another state without `update`.
        """
        if name is not None:
            check_name(name)
        places: list[Place] = []
        for number, arrival in enumerate(arrivals, 1):
            slug = name and (f"{name}-{number}" if arrivals[1:] else name)
            slug = slug or self._imported_as(arrival.imported) or _free(arrival, [one.slug for one in places])
            places.append(self._place(slug, arrival))
        return tuple(places)

    def update_place(self, place: Place, arrival: Arrival) -> bool:
        """Put another state of a patch into its folder; return whether a byte changed. The record is written last.

        What a person wrote into patch.yaml stays. Raises `RequestError` when it does not use the patch any more.
        """
        name = f"{place.slug}.patch"
        patch = load_patch(place.folder).patch
        if not any(isinstance(change, ChangePatch) and change.patch == name for change in patch.change):
            raise RequestError(
                f"{place.folder}: patch.yaml does not use {name} any more", "import under another --name"
            )
        record = place.folder / "patch.yaml"
        text = record.read_bytes().decode("utf-8")
        moved = place.state == "moved"
        files = {name: arrival.text, f"{place.slug}.aside.patch": arrival.aside_text} if moved else {}
        if patch.imported != arrival.imported:
            files["patch.yaml"] = replace_imported(text, arrival.imported).encode()
        changed = [_write(place.folder / file, data) for file, data in files.items()]
        return any(changed)

    def _imported_as(self, imported: Imported) -> str | None:
        """Return the patch that an earlier import of the same thing made."""
        for file in sorted((self.root / "patches").glob("*/patch.yaml")):
            found = _read(file.parent)
            if found is not None and found.imported is not None and _is_same(found.imported, imported):
                return file.parent.name
        return None

    def _place(self, slug: str, arrival: Arrival) -> Place:
        folder = self.root / "patches" / slug
        if not folder.exists() and not folder.is_symlink():
            return Place(slug, folder, "new", arrival)
        there = load_patch(folder).patch.imported
        if there is None or not _is_same(there, arrival.imported):
            raise RequestError(
                f"{folder}: is there already, and is another patch", "--name gives this one another name"
            )
        if _is_equal(there, arrival.imported):
            return Place(slug, folder, "unchanged", arrival)
        if not self.update:
            states = [(one.commit or one.sha256 or "")[:12] for one in (there, arrival.imported)]
            message = f"{folder}: was imported from {there.from_} at {states[0]}, which is {states[1]} now"
            raise RequestError(message, "--update takes that, --name gives it a folder of its own")
        return Place(slug, folder, "moved", arrival)


def _is_same(one: Imported, other: Imported) -> bool:
    return (one.from_, one.part) == (other.from_, other.part)


def _is_equal(one: Imported, other: Imported) -> bool:
    return _is_same(one, other) and (one.commit, one.sha256) == (other.commit, other.sha256)


def _read(folder: Path) -> Patch | None:
    try:
        return load_patch(folder).patch
    except InvalidFile:
        return None  # somebody is at work on it; it is not ours to complain of


def _free(arrival: Arrival, taken: Sequence[str]) -> str:
    """Return a name from the title, with a number behind it where another one of the same import has it."""
    stem = Path(arrival.imported.from_).name.partition(".")[0]
    slug = make_slug(arrival.title if arrival.header.subject else stem)
    number = 2
    while f"{slug}-{number}" in taken:
        number += 1
    return slug if slug not in taken else f"{slug}-{number}"


def _write(path: Path, data: bytes) -> bool:
    """Make a file hold bytes, or be absent for none; return whether that changed something."""
    if (path.read_bytes() if path.is_file() else b"") == data:
        return False
    if data:
        write_atomically(path, data)
    else:
        remove_path(path)
    return True
