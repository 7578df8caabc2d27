"""`patchkit doctor`."""

from __future__ import annotations

from dataclasses import asdict

import click

from patchkit.cli.options import json_option
from patchkit.cli.terminal import emit_json, make_toolkit, say

COLOURS = {"ok": "green", "missing": "yellow", "broken": "red"}


@click.command()
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> int:
    """Tell what is there and what is missing on this machine.

    Exit 1 when something is missing that no verb works without.
    """
    from patchkit.workflows.doctor import examine_machine

    checks = examine_machine(make_toolkit(context))
    if as_json:
        emit_json({"checks": [asdict(check) for check in checks]})
    else:
        for check in checks:
            say(f"{click.style(f'{check.state:<8}', fg=COLOURS[check.state])} {check.name:<16} {check.detail}")
            if check.hint:
                say(f"{'':<8} {'':<16} {check.hint}")
    return 1 if any(check.needed and check.state != "ok" for check in checks) else 0
