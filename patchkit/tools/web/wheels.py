"""Wheels through pip, so that they come from wherever pip is set up to find them: index, mirror, folder, proxy."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from patchkit.errors import RemoteUnavailable, ToolMissing
from patchkit.tools.cache import remove_path, storage_errors
from patchkit.tools.git.client import redact
from patchkit.tools.process import run_process
from patchkit.tools.toolkit import Toolkit


@contextlib.contextmanager
def download_wheel(toolkit: Toolkit, package: str, version: str) -> Iterator[Path]:
    """Give the wheel of one version for this interpreter, and remove it afterwards; no dependency is fetched.

    Raises `RemoteUnavailable` when pip finds none, `ToolMissing` without pip, `StoreFailure`.
    """
    with storage_errors(toolkit.cache.root):
        folder = Path(tempfile.mkdtemp(prefix="wheel-", dir=toolkit.cache.scratch("partial")))
    try:
        yield _fetch(toolkit, package, version, folder)
    finally:
        remove_path(folder)


def _fetch(toolkit: Toolkit, package: str, version: str, folder: Path) -> Path:
    toolkit.progress.step(f"fetch the wheel of {package} {version}")
    options = ["--no-deps", "--only-binary", ":all:", "--no-input", "--disable-pip-version-check", "--dest"]
    command = [sys.executable, "-m", "pip", "download", *options, str(folder), f"{package}=={version}"]
    env = {**toolkit.env, **({"PIP_NO_INDEX": "1"} if toolkit.offline else {})}
    done = run_process(command, env=env)
    found = sorted(folder.glob("*.whl"))
    if done.exit_code == 0 and found:
        return found[0]
    said = redact(done.complaint)
    if "No module named pip" in said:
        raise ToolMissing(f"{sys.executable}: has no pip", "python -m ensurepip, or `site-packages: DIR`")
    hint = "does the index have it for this Python and machine? `site-packages: DIR` takes an installed one"
    raise RemoteUnavailable(f"{package} {version}: pip finds no wheel: {said}", hint)
