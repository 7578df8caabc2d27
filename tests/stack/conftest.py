from __future__ import annotations

from pathlib import Path

import pytest

from tests.stack.bench import Desk
from tests.stack.realgit import RealGit


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk.at(tmp_path / "repository")


@pytest.fixture
def real_git(tmp_path: Path, desk: Desk) -> RealGit:
    folder = tmp_path / "real-git"
    folder.mkdir()
    return RealGit(folder, desk)
