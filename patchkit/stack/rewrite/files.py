"""A whole rewrite: its steps in order, over the files of a tree.

Pure: reads through a function, returns the files that change. Never a guess: a step that finds another number of places
than it expects is an error, and so is a rewrite that would not find itself done when it is made again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from patchkit.recipe.model import (
    RewriteAppend,
    RewriteCreate,
    RewriteImport,
    RewriteInsert,
    RewriteReplace,
    RewriteStep,
)
from patchkit.stack.rewrite.steps import add_import, append, insert, replace
from patchkit.stack.rewrite.syntax import RewriteError, Syntax

Read = Callable[[str], bytes | None]
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class RewriteResult:
    """The files that change, by path; `done` when there are none, since everything was there already."""

    contents: Mapping[str, bytes]
    done: bool
    detail: str


def rewrite_files(read: Read, steps: Sequence[RewriteStep], folder: Path) -> RewriteResult:
    """Apply steps in order. `read` gives a file of the tree or None; `folder` holds the files of create steps.

    Raises `RewriteError` naming the step and the file.
    """
    contents, done = _run(read, steps, folder)
    for path, content in contents.items():
        _check_grammar(path, read(path), content)
    for number, again in enumerate(_repeat(read, contents, steps, folder), 1):
        if not again:
            raise RewriteError(f"{_title(number, steps[number - 1])}: would be made again on top of its own result")
    there = sum(done)
    if there == len(steps):
        return RewriteResult({}, done=True, detail=f"{_count(there)}, all there already")
    return RewriteResult(
        contents, done=False, detail=f"{there} of {len(steps)} steps were there" if there else _count(len(steps))
    )


def _count(steps: int) -> str:
    return "1 step" if steps == 1 else f"{steps} steps"


def _run(read: Read, steps: Sequence[RewriteStep], folder: Path) -> tuple[dict[str, bytes], list[bool]]:
    """Every step in turn, on what the ones before it wrote."""
    contents: dict[str, bytes] = {}
    done: list[bool] = []
    for number, step in enumerate(steps, 1):
        before = contents[step.file] if step.file in contents else read(step.file)
        try:
            after = _create(before, step, folder) if isinstance(step, RewriteCreate) else _change(before, step)
        except RewriteError as error:
            raise RewriteError(f"{_title(number, step)}: {error}") from error
        done.append(after == before)
        if after != before:
            contents[step.file] = after
    return contents, done


def _repeat(read: Read, contents: Mapping[str, bytes], steps: Sequence[RewriteStep], folder: Path) -> list[bool]:
    """Which steps are done on their own result: the second application must be a no-op."""
    try:
        return _run(lambda path: contents[path] if path in contents else read(path), steps, folder)[1]
    except RewriteError as error:
        raise RewriteError(f"the result is not recognised as done: {error}") from error


def _title(number: int, step: RewriteStep) -> str:
    inside = getattr(step, "inside", None)
    return f"step {number}, {step.file}" + (f", inside {inside}" if inside else "")


def _create(before: bytes | None, step: RewriteCreate, folder: Path) -> bytes:
    source = (folder / step.create).resolve()
    if not source.is_relative_to(folder.resolve()) or not source.is_file():
        raise RewriteError(f"there is no file {step.create} beside the rewrite")
    content = source.read_bytes()
    if before not in (None, content):
        raise RewriteError("is there already, with other content")
    return content


def _change(before: bytes | None, step: RewriteStep) -> bytes:
    """Apply a step to the bytes of a file; a byte order mark and the encoding stay."""
    if before is None:
        raise RewriteError("no such file in the tree")
    mark = _BOM if before.startswith(_BOM) else b""
    body = before.removeprefix(mark)
    try:
        text, encoding = body.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        text, encoding = body.decode("latin-1"), "latin-1"  # one character a byte: whatever it is, it comes back
    try:
        return mark + _apply(Syntax(step.file, text), step).encode(encoding)
    except UnicodeEncodeError as error:
        raise RewriteError("is not UTF-8, and the text of the step is not plain enough for it") from error


def _apply(syntax: Syntax, step: RewriteStep) -> str:
    match step:
        case RewriteReplace():
            return replace(syntax, step)
        case RewriteImport():
            return add_import(syntax, step)
        case RewriteInsert():
            return insert(syntax, step)
        case RewriteAppend():
            return append(syntax, step)
        case RewriteCreate():
            raise AssertionError("files are created by _create")


def _check_grammar(path: str, before: bytes | None, after: bytes) -> None:
    """The result is as good to the grammar as the file was; what only a compiler sees is for the gate of the stack."""
    new = Syntax(path, after.decode("utf-8", "replace"))
    if new.language:
        old = Syntax(path, (before or b"").decode("utf-8", "replace"))
        if new.error_count() > old.error_count():
            raise RewriteError(f"{path}: the result does not parse")
