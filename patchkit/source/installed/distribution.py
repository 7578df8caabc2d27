"""What a distribution says of itself in its dist-info: name, version, files. Nothing is imported or run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.parser import BytesHeaderParser

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from patchkit.errors import RequestError
from patchkit.source.installed.record import Row, agrees, parse_record
from patchkit.tools.git.paths import check_path

MACHINE = re.compile(r"\.(so(\.[\d.]+)?|a|o|dll|dylib|lib|pyd|pyc|pyo|cubin|fatbin|bin|exe)$", re.IGNORECASE)
LARGEST = 4 << 20  # bytes: what is larger is no text that a patch is about (programs without a suffix, tables)
SHOWN = 5  # files that a message names; more are counted
OWN = "patchkit"  # the folder, in the dist-info, with the journal and what was there before


@dataclass(frozen=True)
class Distribution:
    """An installed or packed distribution. `info` is the name of its dist-info folder, `rows` are those of RECORD."""

    name: str
    version: str
    info: str
    rows: tuple[Row, ...]
    record: bytes

    @property
    def label(self) -> str:
        """Return what people call it."""
        return f"{self.name} {self.version}"

    @property
    def files(self) -> Mapping[str, Row]:
        """Return the files that a patch can be about, by path: text, below the folder that packages lie in."""
        return {row.path: row for row in self.rows if _is_product(row, self.info)}

    @property
    def tops(self) -> frozenset[str]:
        """Return the names of its top-level packages."""
        return frozenset(path.partition("/")[0] for path in self.files if "/" in path)

    def carries(self, path: str) -> bool:
        """Return whether the distribution holds a path of the upstream, or would if it were a new file."""
        return path in self.files or path.partition("/")[0] in self.tops


def read_distribution(info: str, read: Callable[[str], bytes | None], where: str) -> Distribution:
    """Return the distribution of a dist-info folder; `read` gives a file of it by its name, None when it is not there.

    Raises `RequestError` for one without METADATA or RECORD (not installed by pip or uv), or an impossible version.
    """
    metadata, record = read("METADATA"), read("RECORD")
    if metadata is None or record is None:
        missing = "METADATA" if metadata is None else "RECORD"
        hint = "patch what pip or uv installed; a package of the system is rebuilt with the patch instead"
        raise RequestError(f"{where}/{info}: has no {missing}, so nobody knows which files are its own", hint)
    header = BytesHeaderParser().parsebytes(metadata)
    name, version = str(header.get("Name", "")).strip(), str(header.get("Version", "")).strip()
    try:
        Version(version)
    except InvalidVersion as error:
        raise RequestError(f"{where}/{info}/METADATA: {version!r} is not a version (PEP 440)") from error
    return Distribution(name, version, info, parse_record(record, f"{where}/{info}/RECORD"), record)


def editable_folder(direct_url: bytes | None) -> str | None:
    """Return the checkout that an editable install runs from, by its direct_url.json; None for any other install."""
    try:
        found = json.loads(direct_url or b"{}")
        if found.get("dir_info", {}).get("editable"):
            return str(found.get("url", "")).removeprefix("file://") or "a checkout"
    except (ValueError, AttributeError):
        return None
    return None


def is_named(info: str, name: str) -> bool:
    """Return whether a dist-info folder is that of a distribution, by its name as packaging tools compare names."""
    stem, dash, _ = info.removesuffix(".dist-info").rpartition("-")
    return bool(dash) and canonicalize_name(stem) == canonicalize_name(name)


def check_contents(distribution: Distribution, contents: Mapping[str, bytes | None], where: str) -> None:
    """Raise `RequestError` unless the files are those that RECORD lists: somebody else's changes are no base."""
    wrong = [
        path for path, row in distribution.files.items() if (data := contents[path]) is None or not agrees(row, data)
    ]
    if wrong:
        wanted = f"{distribution.name}=={distribution.version}"
        hint = f"install it again: pip install --force-reinstall --no-deps '{wanted}'"
        raise RequestError(f"{where}: not the files of {distribution.label}: {name_some(wrong)}", hint)


def name_some(paths: list[str]) -> str:
    """Return the first few paths, and how many more there are."""
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return ", ".join(paths[:SHOWN]) + more


def _is_product(row: Row, info: str) -> bool:
    """Return whether a file is of the product: not machine code, byte code, metadata or a script outside."""
    path = row.path
    try:
        check_path(path)
    except ValueError:
        return False
    top = path.partition("/")[0]
    if top == info or top.endswith(".data") or "\\" in path:
        return False
    return not MACHINE.search(path) and not (row.size.isdigit() and int(row.size) > LARGEST)
