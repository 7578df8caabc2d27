"""Two upstreams of which one names the other, as real git repositories: what bisects over pairs are tested on.

`plugin/wants.txt` of the plugin lists names; `engine/names.txt` of the engine lists those that it has. The repro is bad
when a name is wanted and not there. Each run of it is noted in a file outside the store, as `<plugin>/<engine>`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchkit.tools.toolkit import Toolkit
from patchkit.workflows.bisect import BisectRequest, bisect
from tests.support.repositories import GitRepository

RECIPE = """
format: 1
name: pair
upstream:
  engine: {{git: "{engine}", ref: main{package}}}
  plugin: {{git: "{plugin}", ref: main, pairs-with: engine}}
series: [plugin-note, engine-note]
issues: [missing]
"""
ISSUE = """
format: 1
title: A name is wanted that the engine does not have
upstream: plugin
signature: "MISSING"
repros:
  - {name: names, fidelity: static, script: repro.py, pair: true}
"""
REPRO = """
import os, pathlib, sys
plugin, engine = (pathlib.Path(os.environ[name]) for name in ("PATCHKIT_TREE", "PATCHKIT_PAIR_TREE"))
with open({runs!r}, "a") as stream:
    stream.write(os.environ["PATCHKIT_COMMIT"] + "/" + os.environ["PATCHKIT_PAIR_COMMIT"] + "\\n")
assert [path for path in sys.path if path in (str(plugin), str(engine))] == [str(plugin), str(engine)]
assert os.environ["PATCHKIT_PAIR_UPSTREAM"] == "engine"
if "broken" in (plugin / "plugin" / "wants.txt").read_text():
    sys.exit("the plugin does not start")
wanted = (plugin / "plugin" / "wants.txt").read_text().split()
names = (engine / "engine" / "names.txt").read_text().split()
missing = [name for name in wanted if name not in names]
sys.exit("MISSING: " + " ".join(missing) if missing else 0)
"""
PATCH = """
format: 1
title: A file of ours
upstream: {upstream}
change:
  - {{file: note.txt, source: note.txt}}
"""
PIN = ".github/engine-main-verified.commit"


@dataclass(frozen=True)
class Pair:
    """A library with a recipe, the two upstreams, and the list of runs."""

    folder: Path
    engine: GitRepository
    plugin: GitRepository

    @property
    def recipe(self) -> Path:
        return self.folder / "recipes" / "pair" / "recipe.yaml"

    @property
    def runs(self) -> list[tuple[str, str]]:
        path = self.folder / "runs.txt"
        lines = path.read_text().split() if path.exists() else []
        return [(line.partition("/")[0], line.partition("/")[2]) for line in lines]

    def engines(self, *names: str) -> list[str]:
        """Add a commit of the engine for each list of names."""
        return [self.engine.commit({"engine/names.txt": text}, f"engine: {text}") for text in names]

    def wants(self, names: str, pin: str = "", **more: str) -> str:
        """Add a commit of the plugin that wants names and, where one is given, moves its pin."""
        files = {"plugin/wants.txt": names, **({PIN: pin} if pin else {}), **more}
        return self.plugin.commit(files, f"plugin: {names} {pin[:7]}")

    def bisect(self, toolkit: Toolkit, good: str, bad: str, **more: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Bisect over pairs; the result's document and all events."""
        events: list[dict[str, Any]] = []
        chosen = {"axis": "pair", "confirm": 1, **more}
        request = BisectRequest(self.recipe, "git", "", good, bad, **chosen)
        return bisect(toolkit, request, lambda event: events.append(dict(event))), events


def make_pair(folder: Path, package: str = "") -> Pair:
    """Build the library around two empty upstreams."""
    engine, plugin = GitRepository(folder / "engine.git"), GitRepository(folder / "plugin.git")
    named = f", package: {package}" if package else ""
    for path, text in {
        "recipes/pair/recipe.yaml": RECIPE.format(engine=engine.url, plugin=plugin.url, package=named),
        "issues/missing/issue.yaml": ISSUE,
        "issues/missing/repro.py": REPRO.format(runs=str(folder / "runs.txt")),
        "patches/plugin-note/patch.yaml": PATCH.format(upstream="plugin"),
        "patches/plugin-note/note.txt": "plugin\n",
        "patches/engine-note/patch.yaml": PATCH.format(upstream="engine"),
        "patches/engine-note/note.txt": "engine\n",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return Pair(folder, engine, plugin)
