"""Compiled files beside a tree on disk: links, set for a probe, checked before each run, taken away after."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from patchkit.environment.folder import folders_of
from patchkit.errors import BuildFailed, InfrastructureFailure
from patchkit.tools.cache import storage_errors


@dataclass
class Placed:
    """Links below a tree's folder, by path, to the files of one build."""

    root: Path
    files: Mapping[str, Path]
    folders: list[str] = field(default_factory=list)  # made for them

    def put(self) -> None:
        """Set the links. Raises `BuildFailed` where the tree has a file of its own."""
        with storage_errors(self.root):
            for folder in sorted(folders_of(self.files)):
                if not (self.root / folder).is_dir():
                    (self.root / folder).mkdir()
                    self.folders.append(folder)
            for path, file in self.files.items():
                try:
                    (self.root / path).symlink_to(file)
                except FileExistsError as error:
                    hint = "see `environment.native.outputs`"
                    raise BuildFailed(
                        f"{path}: the tree has this file itself, and a build makes it too", hint
                    ) from error

    def take(self) -> None:
        """Remove the links, and the folders made for them where a probe left nothing else there."""
        with storage_errors(self.root):
            for path in self.files:
                if (self.root / path).is_symlink():
                    (self.root / path).unlink()
            while self.folders:
                with contextlib.suppress(OSError):
                    (self.root / self.folders.pop()).rmdir()

    def check(self) -> None:
        """Assert that each compiled file is the one of this build. Raises `InfrastructureFailure`."""
        for path, file in self.files.items():
            link = self.root / path
            if not link.is_symlink() or link.readlink() != file or not file.is_file():
                raise InfrastructureFailure(f"{path}: is not the file that was built for this tree", "run it again")


@contextlib.contextmanager
def placed(root: Path, files: Mapping[str, Path]) -> Iterator[Placed]:
    """Hold compiled files beside the tree at `root`."""
    links = Placed(root, files)
    try:
        links.put()
        links.check()
        yield links
    finally:
        links.take()
