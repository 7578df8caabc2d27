"""Holds the layers of the house: without it an import the wrong way is found only when a wall has to move."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_import_contract_holds() -> None:
    program = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run(
        [str(program), "--no-logo", "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout
