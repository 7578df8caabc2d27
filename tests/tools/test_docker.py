from __future__ import annotations

from pathlib import Path

import pytest

from patchkit.errors import ToolMissing
from patchkit.tools.cache import Cache
from patchkit.tools.docker import open_engine
from patchkit.tools.toolkit import Toolkit


@pytest.mark.parametrize("host", ["unix:///nowhere/docker.sock", "tcp://127.0.0.1:9", "nonsense://x"])
def test_an_engine_that_does_not_answer_is_a_missing_tool(tmp_path: Path, host: str) -> None:
    toolkit = Toolkit(Cache(tmp_path), env={"DOCKER_HOST": host})
    with pytest.raises(ToolMissing, match="does not answer") as caught, open_engine(toolkit):
        pytest.fail("nothing answers there")
    assert "dockerd" in caught.value.hint
