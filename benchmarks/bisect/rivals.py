"""The rivals, really run: `git bisect run` on a repository of empty commits, and git_bayesect's own Bisector."""

from __future__ import annotations

import subprocess
from pathlib import Path

from benchmarks.bisect.worlds import World

GIT = ("git", "-c", "gc.auto=0", "-c", "user.name=b", "-c", "user.email=b@example.org")


class GitBisect:
    """A line of empty commits; the probe is a shell that looks a commit's answer up."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder, self.size = folder / f"line-{size}", size
        subprocess.run([*GIT, "init", "-q", str(self.folder)], check=True)
        stream = "".join(
            f"commit refs/heads/line\nmark :{number + 1}\ncommitter b <b@example.org> {1_700_000_000 + number} +0000\n"
            f"data 1\nx\n" + (f"from :{number}\n" if number else "")
            for number in range(size + 1)
        )
        self._git("fast-import", "--quiet", text=stream)
        self._git("symbolic-ref", "HEAD", "refs/heads/line")  # git bisect wants a HEAD that is a commit
        self.ids = self._git("rev-list", "--reverse", "line").split()

    def count_runs(self, world: World) -> int:
        """Return how many probes `git bisect run` makes until it names the culprit or only skips are left."""
        log, table = self.folder / ".git" / "probes", self.folder / ".git" / "answers"
        log.write_text("")
        run = world.runner()
        codes = {"good": 0, "bad": 1, "skip": 125}
        lines = [f"{self.ids[position + 1]} {codes[run(position)]}\n" for position in range(self.size)]
        table.write_text("".join(lines))
        self._git("bisect", "start", "--no-checkout", self.ids[-1], self.ids[0])
        probe = 'id=$(git rev-parse BISECT_HEAD); echo $id >> "$1"; exit $(grep $id "$2" | cut -d" " -f2)'
        command = [*GIT, "bisect", "run", "sh", "-c", probe, "probe", str(log), str(table)]
        subprocess.run(command, cwd=self.folder, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._git("bisect", "reset")
        return len(log.read_text().split())

    def _git(self, *arguments: str, text: str | None = None) -> str:
        command = [*GIT, *arguments]
        return subprocess.run(command, cwd=self.folder, input=text, text=True, check=True, capture_output=True).stdout


def bayesect(world: World, confidence: float, most: int = 400) -> tuple[int, bool]:
    """Return the runs that git_bayesect takes to its confidence, and whether it names the culprit.

    It indexes commits newest first, and is told the ends as `start` does: nothing is recorded at them.
    """
    import numpy
    from git_bayesect import Bisector

    bisector = Bisector(numpy.ones(world.size + 1))
    run, runs = world.runner(), 0
    while bisector.distribution.max() < confidence and runs < most:
        index = int(bisector.select())
        bisector.record(index, run(world.size - 1 - index) == "bad")
        runs += 1
    return runs, world.size - 1 - int(bisector.distribution.argmax()) == world.culprit
