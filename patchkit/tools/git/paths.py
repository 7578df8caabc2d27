"""Which paths may stand in a tree: the one rule for archives, patches and edits."""

from __future__ import annotations

from functools import lru_cache

DEEPEST = 200  # folders in each other; trees are walked by recursion, and no product comes near


def check_path(path: str) -> None:
    """Raise `ValueError` for a path that git would refuse or that could leave a folder it is written to.

    Refused: empty, absolute, deeper than `DEEPEST`, with NUL, with a part that is empty, '.', '..', or '.git' as any
    file system reads it.
    """
    if not path or path.startswith("/") or "\0" in path:
        raise ValueError(f"{path!r}: is no relative path of a file")
    if path.count("/") >= DEEPEST:
        raise ValueError(f"{path[:40]}…: lies deeper than {DEEPEST} folders")
    for part in path.split("/"):
        if part in {"", ".", ".."}:
            raise ValueError(f"{path}: has a part {part!r}")
        if _is_git_folder(part):
            raise ValueError(f"{path}: {part!r} is git's own folder")


def leaves_root(path: str, target: str) -> bool:
    """Return whether a symlink at `path` with this target points out of the tree (absolute, or up beyond the root)."""
    if target.startswith("/"):
        return True
    depth = path.count("/")
    for part in target.split("/"):
        if part == "..":
            depth -= 1
        elif part not in {"", "."}:
            depth += 1
        if depth < 0:
            return True
    return False


@lru_cache(maxsize=4096)  # the parts of a tree's paths are few
def _is_git_folder(part: str) -> bool:
    """Return whether a name is `.git` on any file system: case, NTFS's trailing dots, short name and streams, HFS's
    ignorable characters."""
    visible = "".join(letter for letter in part if letter not in _IGNORABLE)
    plain = visible.split(":", 1)[0].rstrip(". ").lower()
    return plain in {".git", "git~1"}


_IGNORABLE = frozenset(
    map(chr, (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF))
)  # the code points HFS+ skips when it compares names, as git's own check lists them
