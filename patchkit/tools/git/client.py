"""Git, the program: how it is called for fetches and imports, and what its complaints mean.

A URL, a ref or a server's answer is never an option or a program to git, and no message shows the credentials of a URL.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchkit.errors import RemoteUnavailable, RequestError, StoreFailure, ToolMissing
from patchkit.tools.process import run_process
from patchkit.tools.toolkit import Progress, Toolkit

HERE = "."  # as a ref: what is checked out in the current folder
PROTOCOLS = ("https", "http", "ssh", "git", "file")  # ext:: and other helpers would run a program that the URL names
USERINFO = re.compile(r"(?<=://)[^/\s'\"@]*(?:@[^/\s'\"@]*)*@")
SETTINGS = ("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60", "-c", "fetch.unpackLimit=1")
# less than 1 kB/s for a minute is a dead line; and one pack a fetch, whole or not there, instead of loose objects
FETCH = ("--no-auto-maintenance", "--no-write-fetch-head")  # nothing in the background, nothing to trip over
IMPORT_SETTINGS = ("-c", "pack.compression=1", "-c", "core.compression=1")  # half the time of the default, 7 % larger
FULL_DISK = re.compile(r"(?im)^.*(no space left|out of diskspace|quota exceeded|unable to write|file too large).*$")
NO_PROMPTS = {"GIT_TERMINAL_PROMPT": "0", "SSH_ASKPASS": "false", "SSH_ASKPASS_REQUIRE": "force"}  # `false` refuses
SPACE_HINT = "is there space on the disk of the cache? PATCHKIT_CACHE names another one"


SILENT_SECONDS = 300.0  # a server that says nothing for so long has gone: ssh:// and git:// have no limit of their own
LEFT_OVERS = ("fast_import_crash_*", "objects/pack/tmp_*", "*.lock", "refs/**/*.lock")  # of a git that was killed
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # what a terminal would obey
SHALLOW = re.compile(r"shallow roots are not allowed|shallow update not allowed")
KNOWN = (
    (SHALLOW, "is a shallow clone, which lacks history", "run there: git fetch --unshallow"),
    (
        re.compile(r"mismatched algorithms"),
        "names its objects by SHA-256, which patchkit does not read",
        "use a repository with SHA-1 ids, as every public host has",
    ),
    (
        re.compile(r"remote: (fatal|error): .*(unable to read|bad object|corrupt|is empty|missing)"),
        "is damaged: git there cannot read its own objects",
        "run there: git fsck",
    ),
)


def redact(text: str, url: str = "") -> str:
    """Return a text with the user and password of every URL in it left out; those of `url` wherever they stand."""
    known = USERINFO.search(url)
    return USERINFO.sub("", text.replace(known[0], "") if known else text)


def check_url(url: str) -> None:
    """Raise `RequestError` for a URL that git could take for an option or a program, or of no allowed protocol."""
    scheme = re.match(r"([A-Za-z0-9+.-]*)(://|::)", url)
    refused = not url or url.startswith("-") or any(ord(letter) < 32 for letter in url)
    if refused or (scheme and (scheme[2] == "::" or scheme[1].lower() not in PROTOCOLS)):
        hint = f"a path, user@host:path, or one of {', '.join(f'{name}://' for name in PROTOCOLS)}"
        raise RequestError(f"{redact(url)!r}: is no URL of a git repository", hint)


class NotThere(RequestError):
    """The remote answers, and does not have what was asked for (or does not give it out)."""


@dataclass(frozen=True)
class Remote:
    """A repository to fetch from. `url` may hold credentials, `name` is what messages say."""

    url: str
    name: str


def sweep(folder: Path) -> None:
    """Remove what a git that was killed left in a repository: half packs, locks, crash reports.

    Whoever calls holds the store's lock on the repository.
    """
    for pattern in LEFT_OVERS:
        for path in folder.glob(pattern):
            with contextlib.suppress(OSError):
                path.unlink()


def transfer(toolkit: Toolkit, remote: Remote, folder: Path, arguments: Sequence[str]) -> None:
    """Run `git fetch` in a repository, with progress. Raises `NotThere`, `RemoteUnavailable`, `StoreFailure`."""
    git = load_git()
    sweep(folder)
    progress = _follow(toolkit.progress, f"fetch {remote.name}")
    command = ["git", *SETTINGS, "fetch", "--progress", *FETCH, *arguments]
    process = runner(toolkit, folder).execute(command, as_process=True, universal_newlines=True)
    told = progress.new_message_handler()
    with _ended_when_silent(process) as watch:

        def heard(line: str) -> None:
            watch.heard_at = time.monotonic()
            told(line)

        with contextlib.suppress(git.GitCommandError):  # its text holds the URL as it was given
            git.cmd.handle_process_output(process, None, heard, lambda ended: ended.wait(), decode_streams=False)
    complaint = redact("\n".join([*progress.other_lines, *progress.error_lines]), remote.url)
    if watch.ended:
        hint = "run again; what had come is not kept"
        raise RemoteUnavailable(f"{remote.name}: nothing came for {SILENT_SECONDS:.0f} s", hint)
    if process.returncode != 0 or SHALLOW.search(complaint):
        raise explain(remote.name, complaint)


@dataclass
class _Watch:
    """When a process was last heard, and whether it was ended for its silence."""

    heard_at: float
    ended: bool = False


@contextlib.contextmanager
def _ended_when_silent(process: Any) -> Iterator[_Watch]:
    """End a process that says nothing for `SILENT_SECONDS`."""
    watch = _Watch(time.monotonic())
    over = threading.Event()

    def look() -> None:
        while not over.wait(min(1.0, SILENT_SECONDS)):
            if time.monotonic() - watch.heard_at > SILENT_SECONDS:
                watch.ended = True
                process.terminate()
                return

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        yield watch
    finally:
        over.set()
        looking.join()


def fast_import(toolkit: Toolkit, path: Path, stream: Iterable[bytes]) -> None:
    """Feed a stream to `git fast-import` in a bare repository; no ref moves unless the stream ends with `done`.

    An exception of the stream passes through. Raises `StoreFailure`.
    """
    git_error = load_git().GitCommandError
    sweep(path)
    command = ["git", *IMPORT_SETTINGS, "fast-import", "--quiet", "--done", "--force", "--depth=0"]
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as source:  # ours is closed at once: a git that dies must break the pipe
        process = runner(toolkit, path).execute(command, istream=source, as_process=True)
    try:
        _feed(write_end, stream)
    except BaseException:
        with contextlib.suppress(git_error):
            process.wait()
        raise
    try:
        process.wait()
    except git_error as error:
        reason = _complaint(str(error.stderr)) or f"git ended with status {error.status}"
        raise StoreFailure(f"{path}: {reason}", SPACE_HINT) from error


def _feed(write_end: int, stream: Iterable[bytes]) -> None:
    """Write a stream into a pipe; a reader that ended first says itself why. What the stream raises passes through."""
    sink = os.fdopen(write_end, "wb", 1 << 20)
    try:
        with contextlib.suppress(BrokenPipeError):
            for chunk in stream:
                sink.write(chunk)
    finally:
        with contextlib.suppress(BrokenPipeError):  # of the last flush: it must not hide an interrupt
            sink.close()


def load_git() -> Any:
    """Return GitPython, which looks for the git program when it is imported. Raises `ToolMissing`."""
    try:
        import git
    except ImportError as error:
        raise ToolMissing("git: program not found", "install git, or put it on PATH") from error
    return git


def runner(toolkit: Toolkit, folder: Path | None) -> Any:
    """Return GitPython's runner: quiet, in English, and on one repository wherever patchkit was started."""
    runner = load_git().Git()
    quiet = {"GIT_ALLOW_PROTOCOL": ":".join(PROTOCOLS), "LC_ALL": "C", **NO_PROMPTS}
    here = {} if folder is None else {"GIT_DIR": str(folder), "GIT_OBJECT_DIRECTORY": str(folder / "objects")}
    runner.update_environment(**{**toolkit.env, **quiet, **here})
    return runner


def _follow(progress: Progress, message: str) -> Any:
    """Return GitPython's reader of git's progress lines, which hands the numbers on."""
    from git.util import CallableRemoteProgress

    def advance(*update: Any) -> None:
        progress.advance(message, int(update[1]), int(update[2]) if update[2] else None)

    return CallableRemoteProgress(advance)


def explain(name: str, complaint: str) -> RequestError:
    """Return the error for what git complained of. The complaint must not hold credentials."""
    reason = _complaint(complaint) or "git fetch failed"
    if FULL_DISK.search(complaint):
        return StoreFailure(f"{name}: {reason}", SPACE_HINT)
    for pattern, message, hint in KNOWN:
        if pattern.search(complaint):
            return RemoteUnavailable(f"{name}: {message}", hint)
    if re.search(r"couldn't find remote ref|not our ref|unadvertised object", complaint, re.IGNORECASE):
        return NotThere(f"{name}: {reason}")
    return RemoteUnavailable(f"{name}: {reason}", "is the URL right, and is there a network?")


def _complaint(text: str) -> str:
    """Return the line that says what is wrong: of the disk, else git's first `fatal:`, or what ssh said."""
    if full := FULL_DISK.search(text):
        return full[0].strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    fatal = next((at for at, line in enumerate(lines) if "fatal: " in line), len(lines) - 1)
    return STEERING.sub("?", lines[0 if "Could not read from remote" in lines[fatal] else fatal])


def find_head(env: Mapping[str, str]) -> str:
    """Return the commit that is checked out in the current folder: BISECT_HEAD in a bisect without checkout, else HEAD.

    Raises `RequestError` outside a repository.
    """
    for name in ("BISECT_HEAD", "HEAD"):
        answer = run_process(["git", "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"], env=env)
        if answer.exit_code == 0:
            return answer.text.strip()
    raise RequestError("--at .: the current folder is in no git repository with a commit", "name a commit instead")
