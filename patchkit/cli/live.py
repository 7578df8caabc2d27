"""A line on the terminal that is redrawn while a bisect runs; what is printed goes above it."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click

from patchkit.cli.terminal import visible
from patchkit.report.bisect import BisectProgress

if TYPE_CHECKING:
    from rich.text import Text

REDRAWS_A_SECOND = 4


class LiveLine:
    """How far a bisect is. It is also the progress of the toolkit: steps show in the line instead of scrolling by."""

    def __init__(self, progress: BisectProgress) -> None:
        """Make the line; it is up inside `with`. Only for a stderr that is a terminal."""
        from rich.console import Console
        from rich.live import Live

        self._progress = progress
        self._step = ""
        self._live = Live(
            get_renderable=self._render,
            console=Console(stderr=True),
            refresh_per_second=REDRAWS_A_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> LiveLine:
        """Draw the line."""
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Take the line away."""
        self._live.stop()

    def take(self, event: Mapping[str, Any]) -> None:
        """Take an event of the bisect."""
        self._progress.take(event, time.monotonic())

    def say(self, text: str) -> None:
        """Print a line above: on stdout, which is the same terminal or another place altogether."""
        if not sys.stdout.isatty():
            click.echo(text)
            return
        from rich.text import Text

        self._live.console.print(Text(text), soft_wrap=True)

    def step(self, message: str) -> None:
        """Show a step."""
        self._step = message

    def advance(self, message: str, done: int, total: int | None) -> None:
        """Show how far a step is."""
        self._step = f"{message}: {100 * done // total} %" if total else message

    def warn(self, message: str, hint: str = "") -> None:
        """Print a warning above the line."""
        self._live.console.print(f"warning: {message}", style="yellow", markup=False, highlight=False)
        if hint:
            self._live.console.print(f"hint: {hint}", markup=False, highlight=False)

    def _render(self) -> Text:
        from rich.text import Text

        text = Text(self._progress.line(time.monotonic()), style="bold", no_wrap=True, overflow="ellipsis")
        if self._step and self._progress.jobs == 1:
            text.append(f"\n{visible(self._step)}", style="dim")
        return text
