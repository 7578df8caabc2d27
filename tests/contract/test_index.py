"""The real package index: what it says of a real release, and that the release becomes the same commit everywhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from patchkit.recipe.model import Upstream
from patchkit.source.open import open_source
from patchkit.source.source import Source
from patchkit.tools.cache import Cache
from patchkit.tools.index import PackageIndex
from patchkit.tools.toolkit import Toolkit

pytestmark = pytest.mark.contract

SDIST_SHA256 = "23e9fa19d7e20ce7dcc1c074d41503e2116d23f19e688f5d5ea91b741f958502"
COMMIT = "3b7ceace960da93e5de4fef5f603eb9da5be0e26"
TREE = "4525cb6111620314e1623a6b0a6ee0e12edfa23c"


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory: pytest.TempPathFactory) -> Toolkit:
    """The store is the session's where one is named, so that a release is fetched once for all contract tests."""
    store = os.environ.get("PATCHKIT_CACHE") or str(tmp_path_factory.getbasetemp() / "shared-store")
    return Toolkit(Cache(Path(store)), env=dict(os.environ))


@pytest.fixture(scope="module")
def source(toolkit: Toolkit) -> Source:
    return open_source(toolkit, "vllm", Upstream(package="vllm", ref="v0.26.0"), "package")


def test_the_index_lists_vllm_s_sdists_with_their_digests(toolkit: Toolkit) -> None:
    listed = {sdist.version: sdist for sdist in PackageIndex(toolkit).sdists("vllm")}
    assert (listed["0.26.0"].sha256, listed["0.26.0"].yanked) == (SDIST_SHA256, False)
    assert listed["0.26.0"].size == 38_353_572


def test_vllm_0_26_0_is_one_commit_on_every_machine(source: Source) -> None:
    commit = source.resolve("v0.26.0")
    assert (commit.id, commit.tree, commit.version) == (COMMIT, TREE, "0.26.0")
    assert source.origin(commit).sha256 == SDIST_SHA256


def test_the_releases_around_it_are_in_order(source: Source) -> None:
    names = source.since("v0.24.0", "releases")
    assert names[-4:] == ("v0.27.0", "v0.26.0", "v0.25.1", "v0.25.0")
