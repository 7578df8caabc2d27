"""Which versions of a package the index has, whatever the kind of file: torch has wheels and no sdist."""

from __future__ import annotations

import requests
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version
from pypi_simple import DistributionPackage, PyPISimple

from patchkit.tools.index import TIMEOUT_SECONDS, PackageIndex


def list_versions(index: PackageIndex, package: str, python: str) -> tuple[Version, ...]:
    """Return the versions that are not yanked and that a Python of this version may install, oldest first.

    Raises `RemoteUnavailable` when the index does not answer, or has no such package.
    """
    name = canonicalize_name(package)

    def ask(session: requests.Session) -> tuple[Version, ...]:
        page = PyPISimple(index.settings.endpoint, session=session).get_project_page(name, timeout=TIMEOUT_SECONDS)
        found = (_version_of(file, python) for file in page.packages if not file.is_yanked)
        return tuple(sorted({version for version in found if version is not None}))

    return index.ask(name, ask)


def _version_of(file: DistributionPackage, python: str) -> Version | None:
    """Return the version of a file that pip would consider, else None."""
    if file.package_type not in {"sdist", "wheel"} or file.version is None:
        return None
    try:
        if file.requires_python and not SpecifierSet(file.requires_python).contains(python, prereleases=True):
            return None
        return Version(file.version)
    except (InvalidSpecifier, InvalidVersion):
        return None
