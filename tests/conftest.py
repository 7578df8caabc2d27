"""Rules for every test: no store or configuration of the user's is touched, and in CI nothing is skipped."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from patchkit.tools.cache import Cache
from patchkit.tools.toolkit import Toolkit

settings.register_profile("fuzz", max_examples=10_000, deadline=None)  # nox -s fuzz


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure in CI: there a missing real part is a defect of the set-up, not a reason to pass."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {item.nodeid}: {call.excinfo.value if call.excinfo else ''}"
    return report


@pytest.fixture(autouse=True)
def _own_store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Give each test a store of its own; contract and real tests share the session's, since they fetch releases."""
    if request.node.get_closest_marker("contract") or request.node.get_closest_marker("real"):
        if "PATCHKIT_CACHE" not in os.environ:
            monkeypatch.setenv("PATCHKIT_CACHE", str(tmp_path_factory.getbasetemp() / "shared-store"))
        return
    monkeypatch.setenv("PATCHKIT_CACHE", str(tmp_path_factory.mktemp("store")))


@pytest.fixture
def toolkit(tmp_path: Path) -> Toolkit:
    """A toolkit with an empty store and the caller's environment."""
    return Toolkit(Cache(tmp_path / "store"), env=dict(os.environ))
