"""Bare mirrors of upstream git repositories in the store.

Only branches and tags are mirrored; pull requests and commits that no branch holds are fetched when they are asked for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pygit2
from pygit2.enums import DescribeStrategy

from patchkit.errors import RemoteUnavailable, RequestError
from patchkit.tools.cache import digest_of
from patchkit.tools.git.client import NotThere, Remote, check_url, load_git, redact, runner, transfer
from patchkit.tools.git.objects import Repository, create_repository
from patchkit.tools.toolkit import Toolkit

MIRRORED = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
ANSWER_SECONDS = 10.0  # for one small question to a remote: a wall often swallows packets instead of refusing


class Mirror:
    """The bare mirror of one upstream. It asks the remote for branches and tags once in its life, and only if it must.

    Processes that share a store share the mirror: one clones or fetches, the others wait.
    """

    def __init__(self, toolkit: Toolkit, url: str) -> None:
        """Name the mirror of a URL or local path; nothing is cloned yet. Raises `RequestError`."""
        check_url(url)
        self.url = url
        self.name = redact(url)
        self._remote = Remote(url, self.name)
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
                transfer(self._toolkit, self._remote, self.path, arguments)
        except NotThere:
            return
        except RemoteUnavailable as failure:
            if self._failure is None:
                self._toolkit.progress.warn(f"{failure.message}: using what is in the store", failure.hint)
            self._failure = failure

    def _clone_into(self, folder: Path) -> None:
        opened = create_repository(folder).opened
        opened.config["gc.auto"] = 0  # a probe must never wait for a repack, nor see a pack vanish under it
        transfer(self._toolkit, self._remote, folder, ("--no-tags", "--", self.url, *MIRRORED))
        if head := re.search(r"^ref: (refs/heads/\S+)\tHEAD$", self._ask_remote() or "", re.MULTILINE):
            opened.set_head(head[1])

    def _ask_remote(self) -> str | None:
        """Return what `ls-remote --symref HEAD` says, None when the remote does not answer in time."""
        command = ["git", "ls-remote", "--symref", "--", self.url, "HEAD"]
        try:
            return str(runner(self._toolkit, None).execute(command, kill_after_timeout=ANSWER_SECONDS))
        except load_git().GitCommandError:
            return None


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


def _mirror_key(url: str) -> str:
    """Return the folder name of a URL's mirror: readable, and equal for equal repositories, whoever's token is used."""
    plain = redact(url).rstrip("/")
    if "://" not in plain and not re.match(r"[^/]+:", plain):
        plain = str(Path(plain).resolve())
    slug = re.sub(r"[^A-Za-z0-9]+", "-", plain.removesuffix(".git").rsplit("/", 1)[-1]).strip("-").lower()[:40]
    return f"{slug}-{digest_of(plain.removesuffix('.git'))[:12]}.git"
