"""The one way in and out: errors become messages and git's exit codes here, and nowhere else.

`git bisect run` reads 1–124 as bad, 125 as skip and 128 up as stop, while click exits 2 on a usage error: a typo in a
probe would name an innocent commit. So usage is 129, what cannot be done 128.
"""

from __future__ import annotations

import errno
import os
import platform
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from patchkit import __version__
from patchkit.cli.main import program
from patchkit.cli.terminal import cache_root, visible
from patchkit.errors import InvalidFile, PatchkitError, RequestError, StageFailure

FULL = {errno.ENOSPC, errno.EDQUOT, errno.EIO}  # of a disk, which below this room are errors of the store
EXIT_NO = 1
EXIT_CANNOT_TELL = 125
EXIT_CANNOT_DO = 128
EXIT_USAGE = 129
EXIT_INTERRUPTED = 130
EXIT_PIPE_CLOSED = 141  # 128 + SIGPIPE, what git exits with under `| head`


def main() -> NoReturn:
    """Run the program and exit."""
    signal.signal(signal.SIGTERM, _interrupt)
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run a command line and return its exit code; every error is told on stderr."""
    try:
        return _call(arguments)
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted; what was finished is kept, the same command goes on from there", err=True)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_PIPE_CLOSED
    except OSError as error:
        if error.filename is not None or error.errno not in FULL:
            return _report_bug(arguments)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left of it must not fail again
        click.echo(f"error: the output cannot be written: {error.strerror}", err=True)
        return EXIT_CANNOT_DO
    except Exception:
        return _report_bug(arguments)


def _call(arguments: list[str]) -> int:
    try:
        _check_folder()
        result = program.main(arguments, prog_name="patchkit", standalone_mode=False)
    except click.UsageError as error:
        error.show()
        return EXIT_USAGE
    except click.ClickException as error:
        error.show()
        return EXIT_CANNOT_DO
    except PatchkitError as error:
        _tell(error)
        return _exit_code(error, arguments)
    if sys.stdout is not None:  # closed by the caller
        sys.stdout.flush()
    return result if isinstance(result, int) else 0


def _check_folder() -> None:
    """Raise `RequestError` when the current folder was removed: no relative path means anything then."""
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise RequestError("the current folder is not there any more", "change to another one") from error


def _exit_code(error: PatchkitError, arguments: list[str]) -> int:
    """Return 128 for what is wrong at every commit; a failure at this commit is 125 for a probe, 1 for the rest."""
    if isinstance(error, RequestError) or not isinstance(error, StageFailure):
        return EXIT_CANNOT_DO
    verb = next((word for word in arguments if not word.startswith("-")), "")
    return EXIT_CANNOT_TELL if verb == "repro" else EXIT_NO


def _tell(error: PatchkitError) -> None:
    if "-v" in sys.argv or "--verbose" in sys.argv:
        click.echo(traceback.format_exc(), err=True)
    problems = error.problems if isinstance(error, InvalidFile) else ()
    for message, hint in [(str(one), one.hint) for one in problems] or [(error.message, error.hint)]:
        click.echo(f"{click.style('error:', fg='red')} {visible(message)}", err=True)
        if hint:
            click.echo(f"{click.style('hint:', fg='cyan')} {visible(hint)}", err=True)


def _report_bug(arguments: list[str]) -> int:
    """Keep the traceback in a file and say where: a bug is one line for people, everything for whoever mends it."""
    about = f"patchkit {__version__}, Python {platform.python_version()}, {platform.platform()}\n{arguments}\n\n"
    log = _bug_log()
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(about + traceback.format_exc(), encoding="utf-8")
        click.echo(f"bug in patchkit: {sys.exc_info()[1]!r}; the traceback is in {log}", err=True)
    except OSError:
        click.echo(about + traceback.format_exc(), err=True)
    return EXIT_CANNOT_DO


def _bug_log() -> Path:
    name = f"bug-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    try:
        return cache_root() / "logs" / name
    except (OSError, RequestError):  # no home folder
        return Path(tempfile.gettempdir()) / name


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
