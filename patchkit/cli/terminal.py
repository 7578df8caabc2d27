"""What people and programs see: data on stdout, progress and warnings on stderr."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from patchkit.errors import RequestError
from patchkit.tools.cache import Cache
from patchkit.tools.toolkit import Progress, Silence, Toolkit

REDRAW_SECONDS = 0.1  # a person cannot read faster; a pipe gets no bars at all


@dataclass(frozen=True)
class Settings:
    """The global options."""

    quiet: bool = False
    verbose: bool = False
    offline: bool = False


def settings_of(context: click.Context) -> Settings:
    """Return the global options of this call."""
    settings = context.find_root().obj
    return settings if isinstance(settings, Settings) else Settings()


def cache_root() -> Path:
    """Return where the store lies: PATCHKIT_CACHE, else `patchkit` below the user's cache folder.

    Raises `RequestError` where that names no folder.
    """
    chosen, base = os.environ.get("PATCHKIT_CACHE"), os.environ.get("XDG_CACHE_HOME")
    try:
        if chosen:
            return Path(chosen).expanduser().resolve()
        return (Path(base) if base else Path.home() / ".cache").resolve() / "patchkit"
    except RuntimeError as error:  # ~nobody, or a user without a home folder
        message = (
            f"PATCHKIT_CACHE={chosen}: there is no such user" if chosen else "there is no home folder for the store"
        )
        raise RequestError(message, "set PATCHKIT_CACHE to a folder") from error


def make_toolkit(context: click.Context, prunes: bool = False) -> Toolkit:
    """Return the outside world as this call's options and environment describe it.

    The call counts as a user of the store until it ends, unless it `prunes`.
    """
    settings = settings_of(context)
    progress: Progress = Silence() if settings.quiet else TerminalProgress()
    offline = settings.offline or bool(os.environ.get("PATCHKIT_OFFLINE"))
    cache = Cache(cache_root())
    if not prunes:
        context.with_resource(cache.in_use())
    return Toolkit(cache, progress, dict(os.environ), offline)


def emit_json(document: dict[str, Any]) -> None:
    """Print one JSON document on stdout; `format` is added."""
    click.echo(json.dumps({"format": 1, **document}, indent=2, ensure_ascii=False))


def emit_line(document: dict[str, Any]) -> None:
    """Print one event of a JSON Lines stream on stdout, at once."""
    click.echo(json_line(document))
    sys.stdout.flush()


def json_line(document: dict[str, Any]) -> str:
    """Return a document as one line of JSON; `format` is added."""
    return json.dumps({"format": 1, **document}, ensure_ascii=False)


def say(text: str) -> None:
    """Print for people on stdout (never together with `--json`)."""
    click.echo(text)


def visible(text: str) -> str:
    """Return text on one line: a line feed or an escape in a file's name must not pass for output of ours."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "surrogatepass").decode() for letter in text
    )


def note(text: str) -> None:
    """Print for people on stderr."""
    if not settings_of(click.get_current_context()).quiet:
        click.echo(text, err=True)


@dataclass
class TerminalProgress:
    """Progress on stderr: one line a step; on a terminal also a line that is redrawn while a step advances."""

    _drawn_at: float = field(default=0.0, init=False)
    _bar_is_up: bool = field(default=False, init=False)

    def step(self, message: str) -> None:
        """Print the step."""
        self._clear()
        click.echo(f"· {message}", err=True)

    def advance(self, message: str, done: int, total: int | None) -> None:
        """Redraw the line that tells how far the step is, at most every tenth of a second."""
        now = time.monotonic()
        if not sys.stderr.isatty() or now - self._drawn_at < REDRAW_SECONDS:
            return
        self._drawn_at = now
        self._bar_is_up = True
        share = f"{100 * done // total:3d} % of {amount(total).rstrip()}" if total else amount(done).rstrip()
        click.echo(f"\r\x1b[K  {message}: {share}", err=True, nl=False)

    def warn(self, message: str, hint: str = "") -> None:
        """Print a warning and its hint."""
        self._clear()
        click.echo(f"{click.style('warning:', fg='yellow')} {message}", err=True)
        if hint:
            click.echo(f"{click.style('hint:', fg='cyan')} {hint}", err=True)

    def _clear(self) -> None:
        if self._bar_is_up:
            click.echo("\r\x1b[K", err=True, nl=False)
            self._bar_is_up = False


def amount(number: int) -> str:
    """Write a count short, so that a unit can follow: `36.6 M`, `812 `."""
    value = float(number)
    for unit in ("", "k", "M"):
        if value < 1000:
            return f"{value:.1f} {unit}" if unit else f"{number} "
        value /= 1000
    return f"{value:.1f} G"
