"""Patch files as values: unified and git diffs, mailboxes, binary patches. Text in, no tree in sight."""

from patchkit.stack.patch.binary import Binary, BinaryHunk
from patchkit.stack.patch.mailbox import parse_patches
from patchkit.stack.patch.model import FilePatch, Header, Hunk, MalformedPatch, Patch

__all__ = ["Binary", "BinaryHunk", "FilePatch", "Header", "Hunk", "MalformedPatch", "Patch", "parse_patches"]
