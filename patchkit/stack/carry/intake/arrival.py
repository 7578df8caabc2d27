"""What comes from outside, as it will be kept: one patch of one author, frozen, its tests and docs set beside."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from patchkit.errors import RequestError
from patchkit.recipe.model import Imported
from patchkit.source.source import Source
from patchkit.stack.carry.export import read_header, read_pull_header
from patchkit.stack.carry.mail import read_sheets, write_preamble
from patchkit.stack.carry.text import join_parts, render_file, render_trees
from patchkit.stack.history import find_pull_fork
from patchkit.stack.patch import Header, MalformedPatch, parse_patches
from patchkit.stack.paths import matches, native_files

# What no image needs, and what drifts most: kept beside the patch, not applied.
ASIDE = ("**/tests/**", "**/test/**", "test_*.py", "docs/**", "*.md", "*.rst", ".github/**", ".buildkite/**")
_INSTALLED = re.compile(r"(?:^|/)(?:site|dist)-packages/")
_NUMBER = re.compile(r"\s*\(#\d+\)\s*$")
_TAGS = re.compile(r"^(\s*\[[^\]]*\])+\s*")
SLUG_LETTERS = 50


@dataclass(frozen=True)
class Arrival:
    """One patch from outside. `parts` are its diffs by path; `preamble` is what stands before them in the file."""

    header: Header
    imported: Imported
    preamble: bytes
    parts: Mapping[str, bytes]
    aside: frozenset[str] = field(default=frozenset())
    crlf: bool = False
    title_given: str = ""  # by the server, where it knows better than the commits

    def set_aside(self, exclude: Sequence[str]) -> Arrival:
        """Return the arrival with tests, docs and what globs name set beside; all of it stays where nothing else is."""
        found = frozenset(path for path in self.parts if matches(path, (*ASIDE, *exclude)))
        if found != self.parts.keys():
            return replace(self, aside=found)
        return replace(self, aside=frozenset(path for path in self.parts if matches(path, exclude)))

    @property
    def text(self) -> bytes:
        """Return the patch file."""
        return self._join(self.preamble, {path: part for path, part in self.parts.items() if path not in self.aside})

    @property
    def aside_text(self) -> bytes:
        """Return the file with what is set beside, empty when nothing is."""
        parts = {path: part for path, part in self.parts.items() if path in self.aside}
        return self._join(self.preamble, parts) if parts else b""

    @property
    def native(self) -> tuple[str, ...]:
        """Return the files of the patch whose change needs a native build."""
        return native_files([path for path in self.parts if path not in self.aside])

    @property
    def title(self) -> str:
        """Return the title, or what stands in for one."""
        if self.title_given or self.header.subject:
            return self.title_given or self.header.subject
        paths = [path for path in self.parts if path not in self.aside]
        return f"Change {paths[0]}" + (f" and {len(paths) - 1} more" if paths[1:] else "")

    def _join(self, preamble: bytes, parts: Mapping[str, bytes]) -> bytes:
        text = preamble + join_parts(parts)
        return text.replace(b"\n", b"\r\n") if self.crlf else text


def take_pull(source: Source, number: int, head: str) -> Arrival:
    """Return a pull request as one patch: all that it changes since it left upstream's branches.

    Raises `RequestError` when it changes nothing, or when that cannot be told.
    """
    fork = find_pull_fork(source.repository, head)
    if fork is None:
        hint = "import its commits one by one"
        raise RequestError(f"pull/{number}: {head[:12]} is a commit of {source.upstream} itself", hint)
    imported = Imported.model_validate({"from": f"pull/{number}", "commit": head, "base": fork})
    return _take_trees(source, (fork, head), read_pull_header(source, number, head), imported)


def take_commit(source: Source, ref: str, commit: str) -> Arrival:
    """Return a commit as a patch: its change from its first parent. Raises `RequestError` for a root commit."""
    parents = source.repository.read_commit(commit).parents
    if not parents:
        raise RequestError(f"{ref}: is a root commit: it changes nothing, it begins everything", "name another one")
    imported = Imported.model_validate({"from": ref, "commit": commit, "base": parents[0]})
    return _take_trees(source, (parents[0], commit), read_header(source, commit), imported)


def take_text(name: str, data: bytes, strip: int | None = None) -> tuple[Arrival, ...]:
    """Return the patches of a diff or mailbox; names below site-packages become paths of the tree.

    Raises `RequestError` when it cannot be read.
    """
    digest = hashlib.sha256(data).hexdigest()
    try:
        level = strip if strip is not None else guess_strip(data)
        sheets = read_sheets(data, level)
    except MalformedPatch as error:
        raise RequestError(
            f"{name}: {error}", "a diff, a patch file, or a mailbox; --strip N removes leading parts"
        ) from error
    found = []
    for number, sheet in enumerate(sheets, 1):
        about: dict[str, object] = {"from": name, "sha256": digest, **({"part": number} if len(sheets) > 1 else {})}
        parts: dict[str, bytes] = {}
        for file in sheet.patch.files:
            parts[file.path] = parts.get(file.path, b"") + render_file(file, mode=sheet.modes.get(file.line))
        crlf = any(file.crlf for file in sheet.patch.files)
        imported = Imported.model_validate(about)
        found.append(Arrival(sheet.patch.header, imported, sheet.preamble, parts, crlf=crlf))
    return tuple(found)


def guess_strip(data: bytes) -> int:
    """Return how many leading parts of the names are to be removed, by what they look like. Raises `MalformedPatch`.

    All up to `site-packages/`; none where a name stands alike on both sides without git's a/ and b/; else one.
    """
    for level in range(11):
        try:
            paths = [file.path for patch in parse_patches(data, level) for file in patch.files]
        except MalformedPatch:
            continue
        if any(_INSTALLED.search(path) for path in paths):
            inside = _INSTALLED.split(paths[0], maxsplit=1)
            return level + paths[0].count("/") - inside[-1].count("/")
        if level == 0 and not all(path.startswith(("a/", "b/")) for path in paths):
            return 0 if _same_sides(data) else 1
    return 1


def make_slug(title: str, fallback: str = "patch") -> str:
    """Return the name of a folder for a title: `[Bugfix] Fix the MoE (#12)` → `fix-the-moe`."""
    plain = _NUMBER.sub("", _TAGS.sub("", title) or title)
    slug = re.sub(r"[^a-z0-9._]+", "-", plain.lower()).strip("-._")
    return slug[:SLUG_LETTERS].rstrip("-._") or fallback


def _same_sides(data: bytes) -> bool:
    """Return whether a diff has one name on both sides of each file: git's --no-prefix, or a traditional diff."""
    names = re.findall(rb"^--- ([^\t\r\n]+)[^\n]*\n\+\+\+ ([^\t\r\n]+)", data, re.MULTILINE)
    plain = [[name.removesuffix(b".orig") for name in pair] for pair in names]  # x.py.orig beside x.py
    return bool(plain) and all(old == new or b"/dev/null" in (old, new) for old, new in plain)


def _take_trees(source: Source, commits: tuple[str, str], header: Header, imported: Imported) -> Arrival:
    before, after = (source.repository.read_commit(commit).tree for commit in commits)
    try:
        parts = render_trees(source.repository, (before, after))
    except KeyError as error:
        hint = "a partial clone lacks contents: use a whole one"
        raise RequestError(f"{imported.from_}: the repository lacks {error.args[0]}", hint) from error
    if not parts:
        raise RequestError(f"{imported.from_}: changes nothing", "there is nothing to carry")
    return Arrival(header, imported, write_preamble(header), parts)
