"""The verbs, as a table. A verb's module is imported when it is called, so `patchkit --help` stays fast."""

from __future__ import annotations

import difflib
import importlib

import click

from patchkit import __version__
from patchkit.cli.terminal import Settings

VERBS = {
    "new": "Make a new recipe, patch or issue that says what to fill in.",
    "check": "Check recipe, patch and issue files.",
    "lock": "Resolve every moving part of a recipe into recipe.lock.",
    "apply": "Apply the recipe's series to the tree of a commit, to what is installed, or to a wheel.",
    "status": "Tell how each patch and hunk stands against other commits, and which commit made it so.",
    "import": "Take a pull request, commit, diff or mailbox into a library as a patch.",
    "refresh": "Rewrite the diffs of a series against the tree where they now land.",
    "export": "Write the recipe's series as files that need no patchkit: for git am, or one diff.",
    "repro": "Run the recipe's repros, without the series and with it.",
    "build": "Build the recipe's image: its base with the files that the series changed.",
    "bisect": "Find the first bad commit, release or version of an issue, or the patches that bring it.",
    "watch": "Run a recipe's repros on what is new upstream, without and with the series.",
    "preflight": "Tell whether a MoE model's config will run on a deployment, and what to change.",
    "triage": "Find the root cause in a vLLM log, and the known issue, patch and recipe for it.",
    "doctor": "Tell what is there and what is missing on this machine.",
    "cache": "Tell what the store holds, and free it.",
}


class Verbs(click.Group):
    """A click group whose commands live in modules of the same name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order of the pipeline."""
        del ctx
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a verb's command, importing its module; None for an unknown verb."""
        del ctx
        if cmd_name not in VERBS:
            return None
        module = {"import": "import_patch"}.get(cmd_name, cmd_name)  # a word of Python's names no module
        command = importlib.import_module(f"patchkit.cli.{module}").command
        return command if isinstance(command, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; an unknown one is answered with those that look like it."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            close = difflib.get_close_matches(args[0], VERBS)
            likely = f"did you mean {' or '.join(close)}?" if close else f"the verbs are {', '.join(VERBS)}"
            raise click.UsageError(f"no verb {args[0]!r}: {likely}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs with their summaries without importing any of them."""
        del ctx
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.command(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, "--version", prog_name="patchkit", message="%(prog)s %(version)s")
@click.option("-q", "--quiet", is_flag=True, help="No progress on stderr, only errors.")
@click.option("-v", "--verbose", is_flag=True, help="Tell more on stderr; tracebacks with errors.")
@click.option("--offline", is_flag=True, help="Use what the store holds; never the network.")
@click.pass_context
def program(context: click.Context, quiet: bool, verbose: bool, offline: bool) -> None:
    """Keep a stack of patches on upstream vLLM: apply it, build images, run repros, bisect regressions.

    Exit codes: 0 yes, 1 no, 125 cannot be told, 128 cannot be done, 129 usage, 130 interrupted.
    """
    context.obj = Settings(quiet=quiet, verbose=verbose, offline=offline)
