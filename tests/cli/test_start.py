"""Starting must stay cheap: a probe calls patchkit once a commit, and a completion at every key press."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("docker", "git", "github", "pygit2", "numpy", "ray", "torch", "vllm", "pydantic", "requests", "rich", "yaml")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from patchkit.cli.run import run; code = run(['--help']); "
        f"print([name for name in {HEAVY!r} if name in sys.modules], code, file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stderr.strip() == "[] 0"
    assert "bisect" in result.stdout


def test_every_verb_has_the_summary_that_the_table_shows() -> None:
    import click

    from patchkit.cli.main import VERBS, program

    context = click.Context(program)
    for verb, summary in VERBS.items():
        command = program.get_command(context, verb)
        assert command is not None
        assert command.get_short_help_str(200).rstrip(".") == summary.rstrip("."), verb
