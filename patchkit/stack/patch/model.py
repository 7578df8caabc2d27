"""What a patch file says, as values. All text is bytes: vLLM's tree has files that are no UTF-8."""

from __future__ import annotations

from dataclasses import dataclass, replace

from patchkit.stack.patch.binary import Binary

CONTEXT, REMOVED, ADDED = 0x20, 0x2D, 0x2B  # ' ', '-', '+': the first byte of a line of a hunk


class MalformedPatch(ValueError):
    """A patch file cannot be read. `line` counts from 1 in the file."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


@dataclass(frozen=True)
class Header:
    """What a mail or a preamble says of its patch; empty where it says nothing."""

    author: str = ""
    subject: str = ""
    date: str = ""
    body: str = ""


@dataclass(frozen=True, slots=True)
class Hunk:
    """One hunk. `body` are its lines with their tag byte and line end; `line` is where it stands in the patch file.

    `old_start` and `new_start` count from 1; they are 0 for a side that is empty. `heading` is what git writes behind
    the numbers: the line that begins the enclosing function or class, as far as git can tell.
    """

    line: int
    old_start: int
    new_start: int
    body: tuple[bytes, ...]
    heading: bytes = b""

    @property
    def old(self) -> list[bytes]:
        """Return the lines before: context and removed ones."""
        return [line[1:] for line in self.body if line[0] != ADDED]

    @property
    def new(self) -> list[bytes]:
        """Return the lines after: context and added ones."""
        return [line[1:] for line in self.body if line[0] != REMOVED]

    @property
    def leading(self) -> int:
        """Return how many lines of context come before the first change."""
        return next((index for index, line in enumerate(self.body) if line[0] != CONTEXT), len(self.body))

    @property
    def trailing(self) -> int:
        """Return how many lines of context come after the last change."""
        return next((index for index, line in enumerate(reversed(self.body)) if line[0] != CONTEXT), len(self.body))

    def reverse(self) -> Hunk:
        """Return the hunk that undoes this one."""
        body = tuple(_REVERSED_TAG[line[0]] + line[1:] for line in self.body)
        return Hunk(self.line, self.new_start, self.old_start, body, self.heading)

    def with_crlf(self) -> Hunk:
        """Return the hunk with CRLF line ends."""
        body = tuple(line[:-1] + b"\r\n" if line.endswith(b"\n") else line for line in self.body)
        return replace(self, body=body)


_REVERSED_TAG = {CONTEXT: b" ", REMOVED: b"+", ADDED: b"-"}


@dataclass(frozen=True, slots=True)
class FilePatch:
    """What a patch does to one file. Paths are from the root of the tree; `old_path` is None for a new file,
    `new_path` None for a deleted one; both differ for a rename or copy.

    Modes are None where the patch does not name them, blobs are (possibly short) ids of the `index` line or empty.
    """

    line: int
    old_path: str | None
    new_path: str | None
    hunks: tuple[Hunk, ...] = ()
    old_mode: int | None = None
    new_mode: int | None = None
    copies: bool = False
    binary: Binary | None = None
    old_blob: str = ""
    new_blob: str = ""
    git: bool = False  # a git diff says itself what is new; a traditional one does not always
    crlf: bool = False  # the patch file itself was turned to CRLF on its way: the target decides about line ends

    @property
    def path(self) -> str:
        """Return the path that people know the change by."""
        return self.new_path or self.old_path or ""

    @property
    def moves(self) -> bool:
        """Return whether this is a rename or a copy."""
        return self.old_path is not None and self.new_path is not None and self.old_path != self.new_path

    def reverse(self) -> FilePatch:
        """Return the patch that undoes this one; what undoes a copy is a deletion."""
        hunks = tuple(hunk.reverse() for hunk in self.hunks)
        binary = self.binary.reverse() if self.binary else None
        old, new = self.new_path, None if self.copies else self.old_path
        return replace(
            self,
            old_path=old,
            new_path=new,
            hunks=hunks,
            old_mode=self.new_mode,
            new_mode=self.old_mode,
            copies=False,
            binary=binary,
            old_blob=self.new_blob,
            new_blob=self.old_blob,
        )


@dataclass(frozen=True)
class Patch:
    """One patch: a mail of a mailbox, or the whole of a diff."""

    header: Header
    files: tuple[FilePatch, ...]

    def reverse(self) -> Patch:
        """Return the patch that undoes this one."""
        return Patch(self.header, tuple(file.reverse() for file in reversed(self.files)))
