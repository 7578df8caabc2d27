"""Options that several verbs share, so that they read the same everywhere."""

from __future__ import annotations

from pathlib import Path

import click

recipe_argument = click.argument("recipe", type=click.Path(path_type=Path))
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout instead of text.")
source_option = click.option(
    "--source",
    type=click.Choice(["auto", "git", "package"]),
    default="auto",
    help="Where upstream comes from: its git repository, its releases on the package index, or what can be had.",
)
at_option = click.option("--at", metavar="REF", help="Tag, branch, commit id or pull/N instead of the recipe's ref.")
fresh_option = click.option("--fresh", is_flag=True, help="Run repros anew even where the store has their verdict.")
locked_option = click.option("--locked", is_flag=True, help="Refuse to run without a recipe.lock that matches.")
upstream_option = click.option(
    "--upstream", metavar="NAME", help="The upstream whose patches are meant; default: the recipe's main one."
)
