"""A mirror that was cut off, or an upstream's answer that runs a program, would poison every later probe."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

import pytest

from patchkit.errors import RemoteUnavailable, RequestError, StoreFailure
from patchkit.tools.cache import Cache
from patchkit.tools.git import client
from patchkit.tools.git.client import check_url, fast_import, redact
from patchkit.tools.git.mirror import Mirror, describe
from patchkit.tools.git.objects import create_repository
from patchkit.tools.process import end_children
from patchkit.tools.toolkit import Toolkit
from tests.support.disks import small_disk
from tests.support.repositories import GitRepository

ROOT = Path(__file__).parents[2]
DEAD = "http://me:secret@127.0.0.1:1/demo.git"  # nobody listens on port 1


@dataclass
class Heard:
    warnings: list[str] = field(default_factory=list)
    messages: set[str] = field(default_factory=set)

    def step(self, message: str) -> None:
        self.messages.add(message)

    def advance(self, message: str, done: int, total: int | None) -> None:
        self.messages.add(message)

    def warn(self, message: str, hint: str = "") -> None:
        self.warnings.append(message)


@pytest.fixture
def upstream(tmp_path: Path) -> GitRepository:
    repository = GitRepository(tmp_path / "upstream.git")
    repository.commit({"a.py": "a = 1\n"}, "first")
    repository.tag("v1.0")
    repository.commit({"a.py": "a = 2\n"}, "second")
    return repository


def mirror(upstream: GitRepository | str, root: Path, heard: Heard | None = None, offline: bool = False) -> Mirror:
    url = upstream if isinstance(upstream, str) else upstream.url
    return Mirror(Toolkit(Cache(root / "store"), heard or Heard(), offline=offline), url)


def hide(upstream: GitRepository) -> None:
    """Take the remote away, as a network that is down does."""
    upstream.path.rename(upstream.path.with_name("away"))


def test_a_clone_has_branches_tags_and_the_default_branch(tmp_path: Path, upstream: GitRepository) -> None:
    heard = Heard()
    found = mirror(upstream, tmp_path, heard)
    assert not found.exists()
    assert (found.find("main"), found.find("v1.0")) == (upstream.head(), upstream.find("v1.0"))
    assert found.default_branch() == upstream.head()
    assert found.names() == ("main", "v1.0")
    assert heard.messages == {f"clone {upstream.url}", f"fetch {upstream.url}"}


def test_the_default_branch_is_the_upstream_s_whatever_its_name(tmp_path: Path, upstream: GitRepository) -> None:
    upstream.branch("trunk", "v1.0")
    subprocess.run(["git", "-C", upstream.path, "symbolic-ref", "HEAD", "refs/heads/trunk"], check=True)
    found = mirror(upstream, tmp_path)
    found.clone()
    assert found.default_branch() == upstream.find("v1.0")


def test_a_branch_that_moved_is_fetched_once_a_run(tmp_path: Path, upstream: GitRepository) -> None:
    mirror(upstream, tmp_path).clone()
    moved = upstream.commit({"a.py": "a = 3\n"}, "third")
    second = mirror(upstream, tmp_path)
    assert second.find("main") == moved
    assert second.find("main~1") == upstream.find("main~1")
    upstream.commit({"a.py": "a = 4\n"}, "fourth")
    assert second.find("main") == moved
    assert mirror(upstream, tmp_path).find("main") == upstream.head()


def test_a_branch_rewritten_or_replaced_by_a_folder_of_branches_is_followed(
    tmp_path: Path, upstream: GitRepository
) -> None:
    upstream.branch("releases")
    mirror(upstream, tmp_path).clone()
    subprocess.run(["git", "-C", upstream.path, "branch", "-D", "releases"], check=True, capture_output=True)
    upstream.branch("releases/v1", "v1.0")
    upstream.branch("main", "v1.0")
    second = mirror(upstream, tmp_path)
    assert second.find("releases/v1") == second.find("main") == upstream.find("v1.0")
    assert second.find("releases") is None


def test_a_pull_request_is_fetched_when_it_is_asked_for_and_again_when_it_moved(
    tmp_path: Path, upstream: GitRepository
) -> None:
    first = upstream.commit({"b.py": ""}, "pull", branch="contribution")
    upstream.ref("refs/pull/7/head", first)
    assert mirror(upstream, tmp_path).find("pull/7") == first
    second = upstream.commit({"b.py": "b = 1\n"}, "again", branch="contribution")
    upstream.ref("refs/pull/7/head", second)
    assert mirror(upstream, tmp_path).find("pull/7") == second
    assert mirror(upstream, tmp_path).find("pull/8") is None


def test_a_commit_that_no_branch_holds_is_fetched_by_its_id(tmp_path: Path, upstream: GitRepository) -> None:
    mirror(upstream, tmp_path).clone()
    lost = upstream.commit({"b.py": ""}, "lost", branch="gone")
    subprocess.run(["git", "-C", upstream.path, "branch", "-D", "gone"], check=True, capture_output=True)
    assert mirror(upstream, tmp_path).find(lost) == lost
    hide(upstream)
    assert mirror(upstream, tmp_path).find(lost) == lost


def test_a_commit_id_is_that_commit_and_never_a_tag_s(tmp_path: Path, upstream: GitRepository) -> None:
    upstream.tag("v1.1", message="annotated")
    tag = subprocess.run(
        ["git", "-C", upstream.path, "rev-parse", "v1.1"], check=True, capture_output=True, text=True
    ).stdout.strip()
    found = mirror(upstream, tmp_path)
    assert (found.find("v1.1"), found.find(tag), found.find("1" * 40)) == (upstream.head(), None, None)


@pytest.mark.parametrize(
    "ref",
    ["--upload-pack=touch PWNED", "-x", "a b", "a\nb", "no-such", "main:a.py", "pull/0", "main..v1.0", "", "@{-1}"],
)
def test_what_names_no_commit_is_none_and_runs_nothing(tmp_path: Path, upstream: GitRepository, ref: str) -> None:
    assert mirror(upstream, tmp_path).find(ref) is None


@pytest.mark.parametrize(
    "url", ["-oProxyCommand=touch x", "ext::sh -c date", "fd::17", "", "ftp://host/x", "a\nb", "transport::https://x"]
)
def test_a_url_that_is_an_option_or_names_a_program_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(RequestError, match="is no URL of a git repository"):
        mirror(url, tmp_path)


@pytest.mark.parametrize(
    "url", ["https://h/x.git", "git@host:x/y.git", "/a/b", "../x", "ssh://git@h:22/x", "file:///a"]
)
def test_urls_and_paths_that_git_knows_are_taken(url: str) -> None:
    check_url(url)


def test_credentials_are_never_shown(tmp_path: Path) -> None:
    assert (
        redact("a https://u:p@h/x and ssh://git@h:22/y, https://t@k@h/z")
        == "a https://h/x and ssh://h:22/y, https://h/z"
    )
    with pytest.raises(
        RemoteUnavailable, match=r"http://127\.0\.0\.1:1/demo\.git: fatal: .*Failed to connect"
    ) as caught:
        mirror(DEAD, tmp_path).clone()
    shown = f"{caught.value!r} {caught.value.hint} {caught.value.__cause__!r}"
    assert "secret" not in shown
    assert not mirror(DEAD, tmp_path).answers()


@pytest.mark.parametrize("url", ["git://me:secret@nowhere.invalid/x", "ssh://me:secret@127.0.0.1:1/x", "/nowhere/x"])
def test_what_git_and_ssh_complain_of_is_passed_on_without_credentials(tmp_path: Path, url: str) -> None:
    with pytest.raises(RemoteUnavailable, match=r"fatal: .*nowhere|: ssh: |cannot run ssh|unable to fork") as caught:
        mirror(url, tmp_path).clone()
    assert "secret" not in caught.value.message


def test_equal_repositories_share_a_mirror_whatever_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    urls = ["https://h/x.git", "https://me:token@h/x.git", "https://h/x", "https://h/x/"]
    assert len({mirror(url, tmp_path).path for url in urls}) == 1
    assert mirror("x.git", tmp_path).path == mirror(f"{tmp_path}/x.git", tmp_path).path
    assert mirror("https://h/y.git", tmp_path).path != mirror("https://h/x.git", tmp_path).path


def test_a_relative_path_is_an_upstream_too(
    tmp_path: Path, upstream: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert mirror("upstream.git", tmp_path).find("main") == upstream.head()


def test_a_remote_that_is_gone_leaves_what_is_in_the_store(tmp_path: Path, upstream: GitRepository) -> None:
    mirror(upstream, tmp_path).clone()
    hide(upstream)
    heard = Heard()
    found = mirror(upstream, tmp_path, heard)
    assert found.find("v1.0") is not None
    assert heard.warnings == []
    assert found.find("main") is not None
    assert len(heard.warnings) == 1
    with pytest.raises(RemoteUnavailable, match=r"upstream\.git"):
        found.find("unheard-of")


def test_offline_nothing_is_asked(tmp_path: Path, upstream: GitRepository) -> None:
    with pytest.raises(RemoteUnavailable, match="not in the store, and offline"):
        mirror(upstream, tmp_path, offline=True).find("main")
    mirror(upstream, tmp_path).clone()
    upstream.commit({"a.py": "a = 3\n"}, "third")
    assert mirror(upstream, tmp_path, offline=True).find("main") == upstream.find("main~1")
    assert not mirror(upstream, tmp_path, offline=True).answers()


def test_git_variables_of_the_caller_do_not_lead_astray(
    tmp_path: Path, upstream: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GIT_DIR", "GIT_OBJECT_DIRECTORY", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    found = mirror(upstream, tmp_path)
    assert found.find("main") == upstream.head()
    assert found.default_branch() == upstream.head()
    assert not (tmp_path / "elsewhere").exists()


def find_main(root: Path, url: str) -> str | None:
    return mirror(url, root).find("main")


def test_two_processes_on_one_store_share_one_clone(tmp_path: Path, upstream: GitRepository) -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        found = list(pool.map(find_main, [tmp_path] * 2, [upstream.url] * 2))
    assert found == [upstream.head()] * 2
    assert list((tmp_path / "store" / "partial").iterdir()) == []
    assert len(list((tmp_path / "store" / "mirrors").iterdir())) == 1


CLONE = """
import sys, time
from pathlib import Path
from patchkit.tools.cache import Cache
from patchkit.tools.git.mirror import Mirror
from patchkit.tools.toolkit import Toolkit

class Stuck:
    def step(self, message): pass
    def advance(self, message, done, total): time.sleep(60)
    def warn(self, message, hint=""): pass

Mirror(Toolkit(Cache(Path(sys.argv[1]) / "store"), Stuck()), sys.argv[2]).clone()
"""


def test_a_clone_that_is_killed_leaves_nothing_that_looks_whole(tmp_path: Path, upstream: GitRepository) -> None:
    process = subprocess.Popen([sys.executable, "-c", CLONE, str(tmp_path), upstream.url], cwd=ROOT)
    deadline = time.monotonic() + 20
    while not list((tmp_path / "store").glob("partial/*/objects/pack/*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert list((tmp_path / "store").glob("partial/*/objects/pack/*")) != []
    assert not mirror(upstream, tmp_path).exists()
    assert mirror(upstream, tmp_path).find("main") == upstream.head()


def test_a_disk_that_takes_no_more_is_told_as_such(tmp_path: Path, upstream: GitRepository) -> None:
    upstream.commit({"large.bin": random.Random(0).randbytes(2_000_000)})
    with small_disk(tmp_path / "disk", 1000) as disk:
        with pytest.raises(StoreFailure, match="No space left"):
            mirror(upstream, disk).clone()
        assert not mirror(upstream, disk).exists()
        assert list((disk / "store" / "partial").iterdir()) == []


def test_the_nearest_tag_is_git_s(tmp_path: Path, upstream: GitRepository) -> None:
    assert describe(upstream.objects, upstream.find("v1.0")) == ("v1.0", 0)
    assert describe(upstream.objects, upstream.head()) == ("v1.0", 1)
    plain = GitRepository(tmp_path / "plain")
    assert describe(plain.objects, plain.commit({"a": ""})) is None
    plain.tag("nightly")
    assert describe(plain.objects, plain.head()) is None


def test_an_interrupt_that_ends_git_too_stays_an_interrupt(tmp_path: Path) -> None:
    """Ctrl-C reaches git first: the pipe that breaks then must not be told as a full disk."""
    repository = create_repository(tmp_path / "releases.git")

    def interrupted() -> Iterator[bytes]:
        yield b"blob\nmark :1\ndata 1\na\n"
        end_children()
        time.sleep(0.2)
        yield b"blob\nmark :2\ndata 1\nb\n"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fast_import(Toolkit(Cache(tmp_path / "store"), Heard()), repository.path, interrupted())


def test_locks_and_half_packs_of_a_git_that_was_killed_are_in_nobody_s_way(
    tmp_path: Path, upstream: GitRepository
) -> None:
    first = mirror(upstream, tmp_path)
    first.clone()
    left = [first.path / name for name in ("packed-refs.lock", "refs/heads/main.lock", "objects/pack/tmp_pack_x")]
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    moved = upstream.commit({"a.py": "a = 3\n"}, "third")
    assert mirror(upstream, tmp_path).find("main") == moved
    assert [path for path in left if path.exists()] == []


def test_an_upstream_that_git_cannot_take_over_is_refused_in_words(tmp_path: Path, upstream: GitRepository) -> None:
    shallow, sha256 = tmp_path / "shallow", tmp_path / "sha256"
    upstream.commit({"a.py": "a = 3\n"}, "third")
    clone = ["git", "clone", "-q", "--bare", "--depth=1", f"file://{upstream.path}", str(shallow)]
    subprocess.run(clone, check=True, capture_output=True)
    subprocess.run(["git", "init", "-q", "--bare", "--object-format=sha256", str(sha256)], check=True)
    tree = subprocess.run(["git", "-C", sha256, "mktree"], input=b"", check=True, capture_output=True).stdout.strip()
    who = ["-c", "user.name=A", "-c", "user.email=a@b"]
    commit = ["git", "-C", sha256, *who, "commit-tree", "-m", "one", tree]
    made = subprocess.run(commit, check=True, capture_output=True).stdout.strip()
    subprocess.run(["git", "-C", sha256, "update-ref", "refs/heads/main", made], check=True)
    for path, words in ((shallow, "is a shallow clone"), (sha256, "names its objects by SHA-256")):
        store = tmp_path / f"store-{path.name}"
        with pytest.raises(RemoteUnavailable, match=words):
            Mirror(Toolkit(Cache(store)), str(path)).clone()
        assert not list((store / "mirrors").glob("*"))


def test_an_upstream_that_lost_objects_is_told_apart_from_a_dead_network(
    tmp_path: Path, upstream: GitRepository
) -> None:
    command = ["git", "-C", str(upstream.path), "rev-parse", "main:a.py"]
    blob = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    (upstream.path / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(RemoteUnavailable, match="is damaged") as caught:
        mirror(upstream, tmp_path).clone()
    assert "fsck" in caught.value.hint


def test_a_server_that_accepts_and_says_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "SILENT_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"git://127.0.0.1:{server.getsockname()[1]}/x"
        with pytest.raises(RemoteUnavailable, match="nothing came for 1 s"):
            Mirror(Toolkit(Cache(tmp_path / "store")), url).clone()
