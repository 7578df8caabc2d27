"""`patchkit cache`."""

from __future__ import annotations

import math
from dataclasses import asdict

import click

from patchkit.cli.options import json_option
from patchkit.cli.terminal import emit_json, make_toolkit, say


@click.command()
@click.argument("kinds", nargs=-1)
@click.option(
    "--prune", is_flag=True, help="Remove entries of KINDS (of all that can be made again, when none is named)."
)
@click.option(
    "--unused-days",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    help="With --prune: only entries not touched for so long; 0 removes them all.",
)
@json_option
@click.pass_context
def command(context: click.Context, kinds: tuple[str, ...], prune: bool, unused_days: float, as_json: bool) -> int:
    """Tell what the store holds, and free it.

    KINDS are names that the listing shows. Journals of bisects and the state of watch are removed only when named.
    """
    from patchkit.workflows.cache import free_store, report_usage

    if math.isnan(unused_days):
        raise click.BadParameter("nan is no number of days", param_hint="--unused-days")
    toolkit = make_toolkit(context, prunes=prune)
    usages = free_store(toolkit, kinds, unused_days) if prune else report_usage(toolkit, kinds)
    if as_json:
        emit_json(
            {"store": str(toolkit.cache.root), "freed" if prune else "usage": [asdict(usage) for usage in usages]}
        )
        return 0
    say(f"{'freed from' if prune else 'store'} {toolkit.cache.root}")
    for usage in usages:
        say(f"  {usage.kind:<14} {usage.entries:>6} entries {usage.size_bytes / 1e6:>10.1f} MB")
    return 0
