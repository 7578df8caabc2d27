"""Where a base image keeps the package, and what it has of it: read from layers, or asked inside a container."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import IO, Annotated, Any

from pydantic import BaseModel, Field

from patchkit.errors import RequestError
from patchkit.source.archive import BoundedMember

SITE_FOLDERS = ("site-packages", "dist-packages")
UNPACKED_LIMIT = 100 << 30  # bytes of one layer; ten times the largest of a real vLLM image. gzip grows a thousandfold
MEMBERS_LIMIT = 2_000_000  # of one layer; a whole vLLM image has some hundred thousand
MAX_SYMLINKS = 40  # as Linux: more is a loop

LayerOpener = Callable[[], AbstractContextManager[IO[bytes]]]


@dataclass(frozen=True)
class Folder:
    """The attributes of a folder, which a layer that names it must repeat."""

    mode: int
    uid: int
    gid: int


@dataclass(frozen=True)
class Listing:
    """What a base has of the package. `root` is the real folder above it; `files` (links too) is None when
    they are not known."""

    root: str
    versions: tuple[str, ...]
    folders: Mapping[str, Folder]
    files: frozenset[str] | None

    def may_have(self, path: str) -> bool:
        """Return whether the base has a file, True when that is not known."""
        return self.files is None or path in self.files

    def byte_code_of(self, sources: Iterable[str]) -> tuple[str, ...]:
        """Return the base's byte code (.pyc) of some modules: Python would believe it if size and mtime agreed."""
        wanted = set(sources)
        return tuple(sorted(path for path in self.files or () if _source_of(path) in wanted))

    def to_record(self) -> dict[str, Any]:
        """Return it as JSON."""
        folders = {path: list(asdict(folder).values()) for path, folder in self.folders.items()}
        files = None if self.files is None else sorted(self.files)
        return {"root": self.root, "versions": list(self.versions), "folders": folders, "files": files}


def from_record(record: Mapping[str, Any]) -> Listing:
    """Read what `to_record` wrote."""
    folders = {path: Folder(*values) for path, values in record["folders"].items()}
    files = None if record["files"] is None else frozenset(record["files"])
    return Listing(record["root"], tuple(record["versions"]), folders, files)


def _source_of(path: str) -> str:
    """Return the module that a .pyc was made from; empty for any other file."""
    place = PurePosixPath(path)
    if place.suffix != ".pyc":
        return ""
    folder = place.parent.parent if place.parent.name == "__pycache__" else place.parent
    return str(folder / (place.name.split(".", 1)[0] + ".py"))


# --- from layers ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Node:
    """A path of the base; `target` is where a symlink points."""

    kind: str  # folder, symlink, file
    attributes: Folder
    target: str


def scan_layers(layers: Iterable[LayerOpener], package: str, root: str | None) -> Listing:
    """Read the file lists of layers, lowest first; nothing is extracted.

    `root` names the folder above the package instead of a search. Raises `RequestError` when the package is not found,
    or found twice; `tarfile.TarError` and `OSError` for a layer that cannot be read.
    """
    nodes: dict[str, _Node] = {}
    for opener in layers:
        with opener() as stream:
            _stack_layer(nodes, stream, package, root)
    real_root = _resolve(nodes, root) if root else _only_root(nodes, package)
    inside = f"{real_root}/{package}/"
    files = frozenset(path for path, node in nodes.items() if node.kind != "folder" and path.startswith(inside))
    ancestors = {str(parent) for parent in PurePosixPath(inside + "x").parents}
    folders = {
        path: node.attributes
        for path, node in nodes.items()
        if node.kind == "folder" and (path in ancestors or path.startswith(inside))
    }
    return Listing(real_root, _versions(nodes, real_root, package), folders, files)


def _stack_layer(nodes: dict[str, _Node], stream: IO[bytes], package: str, root: str | None) -> None:
    added: dict[str, _Node] = {}
    hidden: set[str] = set()
    emptied: set[str] = set()
    with tarfile.open(fileobj=stream, mode="r|*", tarinfo=BoundedMember) as tar:
        for member in _read_members(tar):
            path = _absolute(member.name)
            if path is None:
                continue
            place = PurePosixPath(path)
            if place.name == ".wh..wh..opq":
                emptied.add(str(place.parent))
            elif place.name.startswith(".wh."):
                hidden.add(str(place.with_name(place.name[4:])))
            elif (kind := _kind(member)) != "file" or _matters(path, package, root):
                added[path] = _Node(kind, Folder(member.mode & 0o7777, member.uid, member.gid), member.linkname)
    hidden |= {path for path, node in added.items() if node.kind != "folder" and path in nodes}
    if hidden or emptied:
        for path in [path for path in nodes if _is_hidden(path, hidden, emptied)]:
            del nodes[path]
    nodes |= added


def _read_members(tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    for count, member in enumerate(tar):
        if count >= MEMBERS_LIMIT or member.offset_data + member.size > UNPACKED_LIMIT:
            raise ValueError(f"holds more than {MEMBERS_LIMIT} files or {UNPACKED_LIMIT >> 30} GiB")
        yield member


def _kind(member: tarfile.TarInfo) -> str:
    return "folder" if member.isdir() else "symlink" if member.issym() else "file"


def _absolute(name: str) -> str | None:
    """Return a member's path from the root, None for a name that would leave it or lies in what hides another."""
    parts = [part for part in name.split("/") if part not in {"", "."}]
    odd = ".." in parts or any(part.startswith(".wh.") for part in parts[:-1])
    return None if not parts or odd else "/" + "/".join(parts)


def _matters(path: str, package: str, root: str | None) -> bool:
    """Keep in memory the package's own files only: a base holds some hundred thousand others."""
    own = (f"/{package}/", f"/{package}-", f"/{package.replace('_', '-')}-")
    folders = [f"/{folder}" for folder in SITE_FOLDERS] + ([root.rstrip("/")] if root else [])
    return any(folder + name in path for folder in folders for name in own)


def _is_hidden(path: str, hidden: set[str], emptied: set[str]) -> bool:
    if path in hidden:
        return True
    while len(path) > 1:
        path = path[: path.rfind("/")] or "/"
        if path in hidden or path in emptied:
            return True
    return False


def _only_root(nodes: Mapping[str, _Node], package: str) -> str:
    endings = tuple(f"/{folder}/{package}/__init__.py" for folder in SITE_FOLDERS)
    roots = sorted(str(PurePosixPath(path).parent.parent) for path in nodes if path.endswith(endings))
    return choose_root(roots, package)


def choose_root(roots: list[str], package: str) -> str:
    """Return the one folder that holds the package. Raises `RequestError` when there is none, or more than one."""
    hint = "set image.root in the recipe to the folder that holds the package"
    if not roots:
        raise RequestError(f"the base image has no {package} in a site-packages folder", hint)
    if len(roots) > 1:
        raise RequestError(f"the base image has {package} more than once: {', '.join(roots)}", hint)
    return roots[0]


def _resolve(nodes: Mapping[str, _Node], path: str) -> str:
    """Follow the symlinks of the base: a layer that wrote a folder over one would replace it."""
    todo, done = [part for part in path.split("/") if part], PurePosixPath("/")
    for _ in range(MAX_SYMLINKS * 8):
        if not todo:
            return str(done)
        part = todo.pop(0)
        if part == "..":
            done = done.parent
            continue
        node = nodes.get(str(done / part))
        if node is None or node.kind != "symlink":
            done /= part
            continue
        if node.target.startswith("/"):
            done = PurePosixPath("/")
        todo = [piece for piece in node.target.split("/") if piece not in {"", "."}] + todo
    raise RequestError(f"{path}: the base's symlinks on this path never end", "set image.root to the real folder")


def _versions(nodes: Mapping[str, _Node], root: str, package: str) -> tuple[str, ...]:
    """Return the versions that the base's dist-info folders name."""
    found = set()
    for path in nodes:
        if not path.startswith(f"{root}/"):
            continue
        folder = path[len(root) + 1 :].split("/", 1)[0]
        name, _, version = folder.removesuffix(".dist-info").rpartition("-")
        if folder.endswith(".dist-info") and name.replace("-", "_") == package:
            found.add(version)
    return tuple(sorted(found))


# --- asked inside a container --------------------------------------------------------------------------------------

# Printed as one JSON line. find_spec finds editable installs too and imports nothing of the package itself.
CONTAINER_PROBE = """
import importlib.metadata, importlib.util, json, os, sys
package, root = sys.argv[1], sys.argv[2]
if not root:
    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or []) if spec else []
    root = os.path.dirname(places[0]) if places else ""
root = os.path.realpath(root) if root else ""
try:
    versions = [found for found in [importlib.metadata.version(package.replace("_", "-"))] if found]
except importlib.metadata.PackageNotFoundError:
    versions = []
folders, files = {}, []
def note(path):
    found = os.stat(path)
    folders[path] = [found.st_mode & 0o7777, found.st_uid, found.st_gid]
if root:
    inside = os.path.join(root, package)
    for here, names, leaves in os.walk(inside):
        note(here)
        linked = [name for name in names if os.path.islink(os.path.join(here, name))]
        files += [os.path.join(here, leaf) for leaf in leaves + linked]
    above = root
    while above != "/":
        if os.path.isdir(above):
            note(above)
        above = os.path.dirname(above)
print(json.dumps({"root": root, "versions": versions, "folders": folders, "files": files}))
"""


class _Told(BaseModel, strict=True):
    """What the probe prints, if it is not somebody else's Python."""

    root: str
    versions: list[str]
    folders: dict[str, Annotated[list[int], Field(min_length=3, max_length=3)]]
    files: list[str]


def read_probe(output: str, package: str) -> Listing:
    """Read what `CONTAINER_PROBE` printed. Raises `RequestError` when the package was not found."""
    try:
        told = _Told.model_validate_json(output.strip().splitlines()[-1])
        if told.root and _absolute(f"{told.root}/x") != f"{told.root}/x":
            raise ValueError(told.root)
    except (ValueError, IndexError) as error:
        hint = "python3 of the base prints something at its end: use --engine oci, which does not start it"
        raise RequestError(f"the base does not tell where {package} is: {output[-200:]!r}", hint) from error
    choose_root([told.root] if told.root else [], package)
    return from_record(told.model_dump())
