"""Bare mirrors of upstream git repositories in the store, and git's fast import.

Only branches and tags are mirrored; pull requests and commits that no branch holds are fetched when they are asked for.
A URL, a ref or a server's answer is never an option or a program to git, and no message shows the credentials of a URL.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pygit2
from pygit2.enums import DescribeStrategy

from patchkit.errors import RemoteUnavailable, RequestError, StoreFailure, ToolMissing
from patchkit.tools.cache import digest_of
from patchkit.tools.git.objects import Repository, create_repository
from patchkit.tools.toolkit import Progress, Toolkit

PROTOCOLS = ("https", "http", "ssh", "git", "file")  # ext:: and other helpers would run a program that the URL names
MIRRORED = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
USERINFO = re.compile(r"(?<=://)[^/\s'\"@]*(?:@[^/\s'\"@]*)*@")
ANSWER_SECONDS = 10.0  # for one small question to a remote: a wall often swallows packets instead of refusing
SETTINGS = ("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60", "-c", "fetch.unpackLimit=1")
# less than 1 kB/s for a minute is a dead line; and one pack a fetch, whole or not there, instead of loose objects
FETCH = ("--no-auto-maintenance", "--no-write-fetch-head")  # nothing in the background, nothing to trip over
IMPORT_SETTINGS = ("-c", "pack.compression=1", "-c", "core.compression=1")  # half the time of the default, 7 % larger
FULL_DISK = re.compile(r"(?im)^.*(no space left|out of diskspace|quota exceeded|unable to write|file too large).*$")
NO_PROMPTS = {"GIT_TERMINAL_PROMPT": "0", "SSH_ASKPASS": "false", "SSH_ASKPASS_REQUIRE": "force"}  # `false` refuses
SPACE_HINT = "is there space on the disk of the cache? PATCHKIT_CACHE names another one"


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


class Mirror:
    """The bare mirror of one upstream. It asks the remote for branches and tags once in its life, and only if it must.

    Processes that share a store share the mirror: one clones or fetches, the others wait.
    """

    def __init__(self, toolkit: Toolkit, url: str) -> None:
        """Name the mirror of a URL or local path; nothing is cloned yet. Raises `RequestError`."""
        check_url(url)
        self.url = url
        self.name = redact(url)
        self._toolkit = toolkit
        self._key = _mirror_key(url)
        self._failure: RemoteUnavailable | None = None
        self._fetched = False
        self.path = toolkit.cache.folder("mirrors", self._key)
        self.repository = Repository(self.path)

    def exists(self) -> bool:
        """Return whether the mirror is in the store."""
        return self.path.exists()

    def answers(self) -> bool:
        """Return whether the remote answers within `ANSWER_SECONDS`."""
        if self._toolkit.offline:
            return False
        return self._ask_remote() is not None

    def clone(self) -> None:
        """Make the mirror unless it is there; a clone that is killed leaves nothing. Raises `RemoteUnavailable`."""
        if self.exists():
            return
        if self._toolkit.offline:
            raise RemoteUnavailable(f"{self.name}: not in the store, and offline", "run once with the network")
        self._toolkit.progress.step(f"clone {self.name}")
        self._toolkit.cache.make("mirrors", self._key, self._clone_into)
        self._fetched = True

    def find(self, ref: str) -> str | None:
        """Return the commit that a branch, tag, commit id, pull/N or expression on them names, or None.

        Fetched when it is not here or may have moved; a branch that cannot be fetched is told and taken as it is here.
        Raises `RemoteUnavailable` when only the remote could tell.
        """
        if ref.startswith("-") or re.search(r"[\x00-\x20\x7f]", ref):
            return None
        self.clone()
        if pull := re.fullmatch(r"(?:refs/)?pull/([1-9][0-9]*)(?:/head)?", ref):
            found = self._find_special(f"refs/pull/{pull[1]}/head", moves=True)
        elif re.fullmatch(r"[0-9a-f]{40}", ref):
            found = self._find_id(ref)
        else:
            if not self._is_settled(re.split(r"[~^@:]", ref, maxsplit=1)[0]):
                self.fetch()
            found = self.repository.find_commit(ref)
        if found is None and self._failure is not None:
            raise self._failure
        return found

    def fetch(self) -> None:
        """Bring branches and tags up to date, once; a remote that does not answer is told, and the mirror kept."""
        if not self._fetched:
            self._fetched = True
            self._try_fetch(("--prune", "--no-tags", "--", self.url, *MIRRORED))

    def names(self) -> tuple[str, ...]:
        """Return the names of all branches and tags, for a hint."""
        kinds = ("refs/heads/", "refs/tags/")
        return tuple(name.split("/", 2)[2] for name in self.repository.opened.references if name.startswith(kinds))

    def default_branch(self) -> str:
        """Return the commit at the tip of the upstream's default branch. Raises `RequestError` when it has none."""
        commit = self.repository.find_commit("HEAD")
        if commit is None:
            raise RequestError(f"{self.name}: has no default branch", "name a branch or tag")
        return commit

    def _find_id(self, commit: str) -> str | None:
        if self.repository.find_commit(commit) is None:
            self._find_special(commit, moves=False)
        if self.repository.find_commit(commit) is None:
            self.fetch()  # a server need not give out single commits
        found = self.repository.find_commit(commit)
        return found if found == commit else None  # the id of a tag object is not the commit's

    def _find_special(self, name: str, moves: bool) -> str | None:
        """Fetch what no branch or tag holds: a pull request's head, or a commit by its id."""
        local = name if name.startswith("refs/") else f"refs/commits/{name}"
        if moves or self.repository.find_ref(local) is None:
            self._try_fetch(("--no-tags", "--", self.url, f"+{name}:{local}"))
        return self.repository.find_ref(local)

    def _is_settled(self, name: str) -> bool:
        """Return whether a name needs no look at the remote: a tag that is here, or a commit id and no branch."""
        if self.repository.find_ref(f"refs/tags/{name.removeprefix('refs/tags/')}"):
            return True
        is_id = re.fullmatch(r"[0-9a-f]{7,40}", name) and not self.repository.find_ref(f"refs/heads/{name}")
        return bool(is_id) and self.repository.find_commit(name) is not None

    def _try_fetch(self, arguments: Sequence[str]) -> None:
        """Fetch into the mirror, one process at a time. What the remote does not have is no failure, silence is."""
        if self._toolkit.offline:
            self._failure = RemoteUnavailable(f"{self.name}: not asked, offline", "run again with the network")
            return
        try:
            with self._toolkit.cache.lock(f"mirrors-{self._key}"):
                self._transfer(self.path, arguments)
        except _NotThere:
            return
        except RemoteUnavailable as failure:
            if self._failure is None:
                self._toolkit.progress.warn(f"{failure.message}: using what is in the store", failure.hint)
            self._failure = failure

    def _clone_into(self, folder: Path) -> None:
        opened = create_repository(folder).opened
        opened.config["gc.auto"] = 0  # a probe must never wait for a repack, nor see a pack vanish under it
        self._transfer(folder, ("--no-tags", "--", self.url, *MIRRORED))
        if head := re.search(r"^ref: (refs/heads/\S+)\tHEAD$", self._ask_remote() or "", re.MULTILINE):
            opened.set_head(head[1])

    def _ask_remote(self) -> str | None:
        """Return what `ls-remote --symref HEAD` says, None when the remote does not answer in time."""
        command = ["git", "ls-remote", "--symref", "--", self.url, "HEAD"]
        try:
            return str(_runner(self._toolkit, None).execute(command, kill_after_timeout=ANSWER_SECONDS))
        except _load_git().GitCommandError:
            return None

    def _transfer(self, folder: Path, arguments: Sequence[str]) -> None:
        """Run `git fetch` with progress. Raises `_NotThere`, `RemoteUnavailable`, `StoreFailure`."""
        git = _load_git()
        progress = _follow(self._toolkit.progress, f"fetch {self.name}")
        command = ["git", *SETTINGS, "fetch", "--progress", *FETCH, *arguments]
        process = _runner(self._toolkit, folder).execute(command, as_process=True, universal_newlines=True)
        handler = progress.new_message_handler()
        try:
            git.cmd.handle_process_output(process, None, handler, lambda ended: ended.wait(), decode_streams=False)
        except git.GitCommandError:  # not chained: its text holds the URL as it was given
            complaint = "\n".join([*progress.other_lines, *progress.error_lines])
            raise _explain(self.name, redact(complaint, self.url)) from None


class _NotThere(RequestError):
    """The remote answers, and does not have what was asked for (or does not give it out)."""


def describe(repository: Repository, commit: str) -> tuple[str, int] | None:
    """Return the nearest tag v<digit>… among a commit and its ancestors as git picks it, and how many commits ago."""
    try:
        text = repository.opened.describe(
            commit, describe_strategy=DescribeStrategy.TAGS, pattern="v[0-9]*", always_use_long_format=True
        )
    except (KeyError, pygit2.GitError):  # no tag at all, none that fits
        return None
    tag, distance, _ = text.rsplit("-", 2)
    return tag, int(distance)


def fast_import(toolkit: Toolkit, path: Path, stream: Iterable[bytes]) -> None:
    """Feed a stream to `git fast-import` in a bare repository; no ref moves unless the stream ends with `done`.

    An exception of the stream passes through. Raises `StoreFailure`.
    """
    git_error = _load_git().GitCommandError
    command = ["git", *IMPORT_SETTINGS, "fast-import", "--quiet", "--done", "--force", "--depth=0"]
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as source:  # ours is closed at once: a git that dies must break the pipe
        process = _runner(toolkit, path).execute(command, istream=source, as_process=True)
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


def _load_git() -> Any:
    """Return GitPython, which looks for the git program when it is imported. Raises `ToolMissing`."""
    try:
        import git
    except ImportError as error:
        raise ToolMissing("git: program not found", "install git, or put it on PATH") from error
    return git


def _mirror_key(url: str) -> str:
    """Return the folder name of a URL's mirror: readable, and equal for equal repositories, whoever's token is used."""
    plain = redact(url).rstrip("/")
    if "://" not in plain and not re.match(r"[^/]+:", plain):
        plain = str(Path(plain).resolve())
    slug = re.sub(r"[^A-Za-z0-9]+", "-", plain.removesuffix(".git").rsplit("/", 1)[-1]).strip("-").lower()[:40]
    return f"{slug}-{digest_of(plain.removesuffix('.git'))[:12]}.git"


def _runner(toolkit: Toolkit, folder: Path | None) -> Any:
    """Return GitPython's runner: quiet, in English, and on one repository wherever patchkit was started."""
    runner = _load_git().Git()
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


def _explain(name: str, complaint: str) -> RequestError:
    """Return the error for what git complained of. The complaint must not hold credentials."""
    reason = _complaint(complaint) or "git fetch failed"
    if FULL_DISK.search(complaint):
        return StoreFailure(f"{name}: {reason}", SPACE_HINT)
    if re.search(r"couldn't find remote ref|not our ref|unadvertised object", complaint, re.IGNORECASE):
        return _NotThere(f"{name}: {reason}")
    return RemoteUnavailable(f"{name}: {reason}", "is the URL right, and is there a network?")


def _complaint(text: str) -> str:
    """Return the line that says what is wrong: of the disk, else git's first `fatal:`, or what ssh said."""
    if full := FULL_DISK.search(text):
        return full[0].strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    fatal = next((at for at, line in enumerate(lines) if "fatal: " in line), len(lines) - 1)
    return lines[0 if "Could not read from remote" in lines[fatal] else fatal]
