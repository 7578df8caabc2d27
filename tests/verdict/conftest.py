"""Fixtures of the tests that run repros."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from patchkit.tools.cache import Cache
from patchkit.tools.toolkit import Toolkit
from tests.verdict.workbench import Workbench


@pytest.fixture(scope="session")
def shared_toolkit(tmp_path_factory: pytest.TempPathFactory) -> Toolkit:
    """One store for all probes, so that the interpreter's own byte code is compiled once."""
    return Toolkit(Cache(tmp_path_factory.mktemp("probes")), env=dict(os.environ))


@pytest.fixture
def bench(shared_toolkit: Toolkit, tmp_path: Path) -> Workbench:
    """A tiny upstream and an issue folder of this test's own."""
    return Workbench(shared_toolkit, tmp_path)
