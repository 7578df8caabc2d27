"""A small product with one issue, as real files and a real git repository: what bisect and watch are tested on.

The tree holds `engine.txt`. Its words say what the repro finds: `fault` (bad with the signature), `broken` (fails in
another way), `absent` (the feature is not there), anything else is good. Where there is a `fault`, a patch turns it
into `healed`, unless the line above drifted. Every run of the repro is counted in a file outside the store.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.support.repositories import GitRepository

RECIPE = """
format: 1
name: product
upstream:
  vllm: {{git: "{url}", ref: main}}
series: [heal]
issues: [fault]
"""
ISSUE = """
format: 1
title: The engine fails with a fault & more
signature: "FAULT"
repros:
  - {name: read, fidelity: static, script: repro.py}
"""
REPRO = """
import os, pathlib, sys, time
text = pathlib.Path(os.environ["PATCHKIT_TREE"], "engine.txt").read_text()
with open({runs!r}, "a") as stream:
    stream.write(text.split()[0] + "\\n")
time.sleep(float(pathlib.Path({pause!r}).read_text()))
if "broken" in text:
    sys.exit("the engine does not start")
if "absent" in text:
    print("patchkit: absent")
elif "fault" in text:
    sys.exit("FAULT: the engine stopped")
"""
PATCH = """
format: 1
title: Heal the fault
issue: [fault]
when: has(fault.txt)
change:
  - {patch: heal.patch}
"""
HEAL = """--- a/engine.txt
+++ b/engine.txt
@@ -2,3 +2,3 @@
 top
-fault
+healed
 bottom
"""


def engine(number: int, word: str = "good", above: str = "top") -> str:
    """The file of a commit; the first word of it names the commit in the list of runs."""
    return f"c{number}\n{above}\n{word}\nbottom\n"


@dataclass(frozen=True)
class World:
    """A library with a recipe, an upstream, and the list of runs."""

    folder: Path
    upstream: GitRepository

    @property
    def recipe(self) -> Path:
        return self.folder / "recipes" / "product" / "recipe.yaml"

    @property
    def runs(self) -> list[str]:
        path = self.folder / "runs.txt"
        return path.read_text().split() if path.exists() else []

    def pause(self, seconds: float) -> None:
        """Make every run of the repro last longer."""
        (self.folder / "pause.txt").write_text(str(seconds))


def make_world(folder: Path) -> World:
    """Build the library around an empty upstream."""
    upstream = GitRepository(folder / "upstream.git")
    for path, text in {
        "recipes/product/recipe.yaml": RECIPE.format(url=upstream.url),
        "issues/fault/issue.yaml": ISSUE,
        "issues/fault/repro.py": REPRO.format(runs=str(folder / "runs.txt"), pause=str(folder / "pause.txt")),
        "patches/heal/patch.yaml": PATCH,
        "patches/heal/heal.patch": HEAL,
        "pause.txt": "0",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return World(folder, upstream)


def linear(folder: Path, words: list[str]) -> tuple[World, list[str]]:
    """Build a world whose upstream has a commit for each word (or above:word); every third one is a release."""
    world = make_world(folder)
    return world, grow(world, words)


def grow(world: World, words: list[str], start: int = 0) -> list[str]:
    """Add commits, numbered from `start`."""
    commits = []
    for number, word in enumerate(words, start):
        above, _, what = word.rpartition(":")
        files: dict[str, str | None] = {"engine.txt": engine(number, what, above or "top")}
        if what == "fault":
            files["fault.txt"] = "here\n"
        elif commits and world.upstream.objects.entry(world.upstream.tree_of(commits[-1]), "fault.txt"):
            files["fault.txt"] = None
        commits.append(world.upstream.commit(files, f"commit {number}"))
        if number % 3 == 0:
            world.upstream.tag(f"v1.{number // 3}.0", commits[-1])
    return commits
