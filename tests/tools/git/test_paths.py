"""The one rule for paths of a tree."""

from __future__ import annotations

import pytest

from patchkit.tools.git.paths import check_path


def test_a_path_without_bottom_is_refused() -> None:
    check_path("d/" * 199 + "x")
    with pytest.raises(ValueError, match="deeper than 200 folders"):
        check_path("d/" * 200 + "x")
