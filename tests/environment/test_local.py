from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from patchkit.environment.local import find_interpreter
from patchkit.errors import RequestError
from patchkit.tools.toolkit import Toolkit

SCRIPT = '#!/bin/sh\necho x >> "{log}"\nexec "{python}" "$@"\n'


def write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_an_interpreter_is_asked_once_until_it_changes(toolkit: Toolkit, tmp_path: Path) -> None:
    log, python = tmp_path / "log", tmp_path / "python"
    write(python, SCRIPT.format(log=log, python=sys.executable))
    first = find_interpreter(toolkit, str(python))
    assert find_interpreter(toolkit, str(python)) == first
    assert log.read_text().split() == ["x"]
    write(python, SCRIPT.format(log=log, python=sys.executable) + "# another\n")
    find_interpreter(toolkit, str(python))
    assert log.read_text().split() == ["x", "x"]
    (tmp_path / "pyvenv.cfg").write_text("home = /\n")
    find_interpreter(toolkit, str(python))
    assert log.read_text().split() == ["x"] * 3


def test_packages_are_looked_at_every_time(toolkit: Toolkit, tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    facts = (
        f'{{"version": "3", "platform": "p", "build": "b", "home": "h", "stdlib": "/s", "packages": ["{packages}"]}}'
    )
    python = tmp_path / "python"
    write(python, f"#!/bin/sh\necho '{facts}'\n")
    assert find_interpreter(toolkit, str(python)).packages == {}
    (packages / "torch-2.0.dist-info").mkdir(parents=True)
    assert find_interpreter(toolkit, str(python)).packages == {"torch": "2.0"}
    (packages / "torch-2.0.dist-info").rename(packages / "torch-2.1.dist-info")
    assert find_interpreter(toolkit, str(python)).packages == {"torch": "2.1"}


def test_what_is_no_python_is_asked_again(toolkit: Toolkit, tmp_path: Path) -> None:
    python = tmp_path / "python"
    write(python, "#!/bin/sh\necho no\n")
    for _ in range(2):
        with pytest.raises(RequestError, match="does not answer as a Python interpreter"):
            find_interpreter(toolkit, str(python))
