"""Chooses where an upstream comes from: its git repository, or its releases on the package index."""

from __future__ import annotations

from pathlib import Path

from patchkit.errors import RequestError
from patchkit.recipe.model import Upstream
from patchkit.source.source import Preference, Source
from patchkit.tools.git.client import redact
from patchkit.tools.git.mirror import Mirror
from patchkit.tools.toolkit import Toolkit


def open_source(toolkit: Toolkit, name: str, upstream: Upstream, preference: Preference = "auto") -> Source:
    """Return an upstream ready to be asked; a git upstream that is not in the store is cloned first.

    `auto`: git when its mirror is in the store or its remote answers, else the package, and says so. Raises
    `RequestError` when the recipe does not name what is asked for, `RemoteUnavailable` when nothing answers.
    """
    if upstream.is_installed:
        return _open_installed(toolkit, name, upstream)
    if preference == "git" and upstream.git is None:
        raise RequestError(
            f"{name}: the recipe names no git repository", "give the upstream a `git:`, or --source package"
        )
    if preference == "package" and upstream.package is None:
        raise RequestError(f"{name}: the recipe names no package", "give the upstream a `package:`, or --source git")
    if upstream.git is not None and preference != "package" and _use_git(toolkit, name, upstream, preference):
        from patchkit.source.git_source import GitSource

        return GitSource(toolkit, name, upstream.git)
    from patchkit.source.package_source import PackageSource

    return PackageSource(toolkit, name, str(upstream.package))


def _open_installed(toolkit: Toolkit, name: str, upstream: Upstream) -> Source:
    """Return an upstream whose wheel, or installed files, are patched; where releases come from does not matter."""
    from patchkit.source.installed.installed_source import FolderShelf, InstalledSource, Shelf, WheelShelf
    from patchkit.source.installed.trees import repository_of

    shelf: Shelf = WheelShelf(toolkit, name, str(upstream.wheel))
    if upstream.site_packages is not None:
        shelf = FolderShelf(toolkit, name, name, Path(upstream.site_packages).expanduser())
    return InstalledSource(name, repository_of(toolkit, shelf.package), shelf)


def _use_git(toolkit: Toolkit, name: str, upstream: Upstream, preference: Preference) -> bool:
    if preference == "git" or upstream.package is None:
        return True
    mirror = Mirror(toolkit, str(upstream.git))
    if mirror.exists() or mirror.answers():
        return True
    message = f"{name}: {redact(str(upstream.git))} does not answer: using the releases of {upstream.package}"
    toolkit.progress.warn(message, "--source package says so from the start")
    return False
