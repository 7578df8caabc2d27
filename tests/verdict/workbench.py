"""Runs one repro on a tiny upstream, through the real environment, probe and grade."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patchkit.environment.open import EnvironmentRequest, open_environment
from patchkit.recipe.library import LoadedIssue
from patchkit.recipe.model import Issue, Repro
from patchkit.source.commit import Commit
from patchkit.source.source import FactSettings
from patchkit.tools.cache import digest_of
from patchkit.tools.toolkit import Toolkit
from patchkit.verdict.evidence import Evidence
from patchkit.verdict.grade import Grade, grade
from patchkit.verdict.probe import ReproRun, run_repro
from tests.support.repositories import Files, GitRepository

LOAD = "import product\n"


@dataclass
class Workbench:
    """An upstream and an issue folder; `request` and `settings` may be replaced."""

    toolkit: Toolkit
    folder: Path
    request: EnvironmentRequest = field(default_factory=EnvironmentRequest)
    settings: FactSettings = field(default_factory=FactSettings)
    signature: str = "it is broken"

    def __post_init__(self) -> None:
        self.upstream = GitRepository(self.folder / "upstream")
        self.tree = self.tree_of({"product/__init__.py": "VALUE = 1\n"})

    def tree_of(self, files: Files) -> str:
        """Commit files on top of the last commit and return the tree."""
        return self.upstream.tree_of(self.upstream.commit(files))

    def probe(self, script: str, tree: str = "", name: str = "repro.py", **fields: Any) -> Evidence:
        """Run a script as the repro of an issue and return the evidence."""
        return self.run(self.issue(script, name, **fields), tree)

    def run(self, issue: LoadedIssue, tree: str = "") -> Evidence:
        """Run the first repro of an issue."""
        commit = Commit("vllm", self.upstream.head(), tree or self.tree, "v1.0", "subject", 0, "1.0")
        run = ReproRun(issue, issue.issue.repros[0], commit, self.settings)
        with open_environment(self.toolkit, self.request, tree or self.tree, self.upstream.objects) as environment:
            return run_repro(self.toolkit, environment, run)

    def ask(self, script: str, tree: str = "", name: str = "repro.py", **fields: Any) -> Grade:
        """Run a script as the repro of an issue and return its grade."""
        issue = self.issue(script, name, **fields)
        return grade(self.probe(script, tree, name, **fields), issue.issue, issue.issue.repros[0])

    def issue(self, script: str, name: str = "repro.py", **fields: Any) -> LoadedIssue:
        """Write an issue folder with one repro."""
        folder = self.folder / "issue"
        folder.mkdir(exist_ok=True)
        text = textwrap.dedent(script)
        (folder / name).write_text(text)
        repro = Repro(name="only", fidelity="real", script=name, **fields)
        issue = Issue(format=1, title="An issue", signature=self.signature, repros=(repro,))
        return LoadedIssue("an-issue", folder, issue, digest_of([name, text]))
