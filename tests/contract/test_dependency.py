"""Versions of a real package on the real index: `packaging` lost `LegacyVersion` in 22.0."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from patchkit.errors import RemoteUnavailable
from patchkit.tools.cache import Cache
from patchkit.tools.index import PackageIndex
from patchkit.tools.toolkit import Toolkit
from patchkit.tools.web.versions import list_versions
from patchkit.workflows.bisect import BisectRequest, bisect
from tests.support.repositories import GitRepository

pytestmark = pytest.mark.contract

FILES = {
    "recipes/product/recipe.yaml": "format: 1\nname: product\nupstream:\n  vllm: {{git: '{url}', ref: main}}\n"
    "issues: [legacy]\n",
    "recipes/environments/plain.txt": "packaging>=20\n",
    "issues/legacy/issue.yaml": "format: 1\ntitle: LegacyVersion is gone\nsignature: LegacyVersion\nrepros:\n"
    "  - {{name: load, fidelity: real, script: repro.py, environment: plain}}\n",
    "issues/legacy/repro.py": "import product\nfrom packaging.version import LegacyVersion\nprint(LegacyVersion)\n",
}


@pytest.fixture
def toolkit(tmp_path: Path) -> Toolkit:
    """A store of this test's own, and the caller's pip configuration; skips where no index answers."""
    toolkit = Toolkit(Cache(tmp_path / "store"), env=dict(os.environ))
    try:
        assert Version("22.0") in list_versions(PackageIndex(toolkit), "packaging", "3.12.0")
    except RemoteUnavailable as error:
        pytest.skip(error.message)
    return toolkit


def test_the_version_that_took_a_name_away_is_found(toolkit: Toolkit, tmp_path: Path) -> None:
    upstream = GitRepository(tmp_path / "upstream.git")
    upstream.commit({"product.py": "VALUE = 1\n"})
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text.format(url=upstream.url))
    request = BisectRequest(
        tmp_path / "recipes/product/recipe.yaml", "git", "", "21.0", "23.0", axis="dependency:packaging", confirm=1
    )
    events: list[dict[str, Any]] = []
    result = bisect(toolkit, request, lambda event: events.append(dict(event)))
    assert (result["first_bad"], result["last_good"], result["confirmed"]) == ("22.0", "21.3", True)


def test_versions_that_a_python_may_not_install_are_left_out(toolkit: Toolkit) -> None:
    index = PackageIndex(toolkit)
    assert Version("2.0.0") in list_versions(index, "numpy", "3.12.0")
    assert Version("1.25.0") not in list_versions(index, "numpy", "3.8.0"), "numpy 1.25 wants Python 3.9"
