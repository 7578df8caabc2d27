"""A recipe for what is installed, and a site-packages folder to apply it to."""

from __future__ import annotations

import os
from pathlib import Path

from patchkit.tools.cache import Cache
from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.apply_installed import InstalledReport, InstalledRequest, apply_installed
from tests.support.wheels import install, make_wheel

CACHES = ("vllm/__pycache__/x.cpython-312.pyc", "vllm/sub/__pycache__/y.cpython-312.pyc")
EDIT = "--- a/vllm/x.py\n+++ b/vllm/x.py\n@@ -1,3 +1,3 @@\n one = 1\n-two = 2\n+two = 22\n three = 3\n"
CREATE = "--- /dev/null\n+++ b/vllm/new/deep/z.py\n@@ -0,0 +1 @@\n+z = 1\n"
DELETE = "--- a/vllm/sub/y.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-def f():\n-    return 1\n"
TEST = "--- a/tests/test_x.py\n+++ b/tests/test_x.py\n@@ -1 +1 @@\n-a\n+b\n"
NATIVE = "--- a/csrc/k.cu\n+++ b/csrc/k.cu\n@@ -1 +1 @@\n-a\n+b\n"


class Bench:
    """A recipe with one diff, what is installed, and a store."""

    def __init__(self, folder: Path, diff: str = EDIT + CREATE + DELETE) -> None:
        self.folder = folder
        self.site = folder / "site"
        self.recipe = folder / "recipe.yaml"
        self.wheel = make_wheel(folder / "wheels")
        if not self.site.exists():
            install(self.wheel, self.site, CACHES)
        self.toolkit = Toolkit(Cache(folder / "store"), env={**os.environ, "HOME": str(folder / "home")})
        self.write(diff)

    def write(self, diff: str, upstream: str = "vllm: {package: vllm, ref: v0.26.0}", series: str = "") -> None:
        entry = series or "{file: x.patch}"
        self.recipe.write_text(f"format: 1\nname: r\nupstream: {{{upstream}}}\nseries: [{entry}]\n")
        self.recipe.with_name("x.patch").write_text(diff)

    def apply(self, *, revert: bool = False, dry_run: bool = False, empty_caches: bool = False) -> InstalledReport:
        request = InstalledRequest(self.recipe, self.site, None, revert, dry_run, empty_caches)
        return apply_installed(self.toolkit, request)

    def pack(self, out: Path, dry_run: bool = False) -> InstalledReport:
        return apply_installed(self.toolkit, InstalledRequest(self.recipe, wheel=(self.wheel, out), dry_run=dry_run))

    def states(self, report: InstalledReport) -> list[str]:
        return [one.state.value for one in report.distributions]
