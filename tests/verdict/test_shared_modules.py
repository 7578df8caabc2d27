"""A repro finds the shared modules that its issue names beside its own, and no other ones: they are in no digest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from patchkit.verdict.verdict import Answer
from tests.verdict.workbench import LOAD, Workbench

SCRIPT = f"""
{LOAD}
import importlib.util, reader
print("reader says", reader.WORD, importlib.util.find_spec("other"))
"""


def test_the_modules_that_an_issue_uses_can_be_imported(bench: Workbench, tmp_path: Path) -> None:
    shared = tmp_path / "library" / "issues" / "shared"
    shared.mkdir(parents=True)
    for name in ("reader", "other"):
        (shared / f"{name}.py").write_text("WORD = 'hello'\n")
    issue = replace(bench.issue(SCRIPT), modules={"reader": shared / "reader.py"})
    (run,) = bench.run(issue).runs
    assert run.output.splitlines() == ["reader says hello None"]
    assert sorted(path.name for path in shared.iterdir()) == ["other.py", "reader.py"], "no byte code beside them"


def test_the_issues_own_module_comes_first(bench: Workbench, tmp_path: Path) -> None:
    (tmp_path / "reader.py").write_text("WORD = 'shared'\n")
    issue = replace(bench.issue(SCRIPT), modules={"reader": tmp_path / "reader.py"})
    (issue.folder / "reader.py").write_text("WORD = 'own'\n")
    (run,) = bench.run(issue).runs
    assert run.output.startswith("reader says own")
    assert bench.ask(LOAD + "import reader").answer is Answer.GOOD
